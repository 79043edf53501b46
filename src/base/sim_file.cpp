#include "base/sim_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_errors.h"
#include "base/sim_disk.h"

namespace aerie {

// Everything under the lock: the disk, what is planned to go wrong, and what was done.
struct SimFileSystem::Machine {
  struct Plan {
    Call call;
    int64_t countdown;
    int error_number;
  };

  SimDisk disk;
  std::vector<Plan> plans;
  std::vector<std::string> history;
  int64_t operations = 0, stop_at = 0;
  uint64_t life = 1;  // rises with every crash, so that files opened before are told apart
  uint64_t total_bytes = 1ull << 40;
  AfterFailedSync after_failed_sync = AfterFailedSync::kShowsNew;
  bool read_only = false, sync_lies = false;

  Status running() const {
    if (stop_at > 0 && operations >= stop_at) return internal("the simulated machine has stopped");
    return ok_status();
  }
  // The errno that this call is planned to fail with, 0 = none.
  int planned(Call call) {
    int error_number = 0;
    for (Plan& plan : plans)
      if (plan.call == call && plan.countdown > 0 && --plan.countdown == 0) error_number = plan.error_number;
    return error_number;
  }
  Status look(Call call, std::string_view verb, const std::string& path) {
    CHECKED(running());
    if (const int error_number = planned(call); error_number != 0) return file_error(error_number, verb, path);
    return ok_status();
  }
  // Counts a change. An errno above 0 says that it is to fail.
  Result<int> change(Call call, std::string_view verb, const std::string& path) {
    CHECKED(running());
    ++operations;
    CHECKED(running());
    history.push_back(std::to_string(operations) + " " + std::string(verb) + " " + path);
    const int error_number = planned(call);
    if (error_number != 0) history.back() += ": " + std::string(std::strerror(error_number));
    if (error_number == 0 && read_only && call != Call::kClose && call != Call::kSync && call != Call::kSyncFolder)
      return EROFS;
    return error_number;
  }
  Status change_or_fail(Call call, std::string_view verb, const std::string& path) {
    TRY(const int error_number, change(call, verb, path));
    if (error_number != 0) return file_error(error_number, verb, path);
    return ok_status();
  }
  static int absence(const SimDisk::Place& place) { return place.parent_is_file ? ENOTDIR : ENOENT; }
};

class SimFileSystem::Writable : public WritableFile {
 public:
  Writable(SimFileSystem& fs, SimDisk::Id id, std::string path, uint64_t end)
      : fs_(fs), id_(id), path_(std::move(path)), end_(end), life_(fs.machine_->life) {}
  const std::string& path() const override { return path_; }

  Status write(std::span<const std::byte> bytes) override { return write_at(end_, bytes); }

  Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard<std::mutex> lock(fs_.mutex_);
    Machine& machine = *fs_.machine_;
    CHECKED(usable());
    TRY(int error_number, machine.change(Call::kWrite, "writing", path_));
    uint64_t fits = error_number == 0 ? bytes.size() : error_number == EROFS ? 0 : bytes.size() / 2;
    if (error_number == 0) {
      const uint64_t used = machine.disk.used_bytes(), size = machine.disk.content(id_).size();
      const uint64_t largest = size + (machine.total_bytes > used ? machine.total_bytes - used : 0);
      if (offset + bytes.size() > largest) fits = largest > offset ? largest - offset : 0, error_number = ENOSPC;
    }
    machine.disk.write(id_, offset, {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(fits)});
    if (error_number != 0) return broken(error_number, "writing");
    end_ = std::max(end_, offset + bytes.size());
    return ok_status();
  }

  Status sync() override {
    const std::lock_guard<std::mutex> lock(fs_.mutex_);
    Machine& machine = *fs_.machine_;
    CHECKED(usable());
    TRY(const int error_number, machine.change(Call::kSync, "syncing", path_));
    if (error_number != 0) return lose(error_number, "syncing");
    if (!machine.sync_lies) machine.disk.sync_content(id_);
    return ok_status();
  }

  Status close() override {
    const std::lock_guard<std::mutex> lock(fs_.mutex_);
    if (closed_) return ok_status();
    CHECKED(usable());
    TRY(const int error_number, fs_.machine_->change(Call::kClose, "closing", path_));
    if (error_number != 0) return lose(error_number, "closing");
    closed_ = true;
    return ok_status();
  }

 private:
  Status usable() const {
    if (life_ != fs_.machine_->life) return internal(path_ + " was open when the simulated machine crashed");
    CHECKED(fs_.machine_->running());
    if (broken_) return file_is_broken(path_);
    if (closed_) return file_is_closed(path_);
    return ok_status();
  }
  Error broken(int error_number, std::string_view verb) {
    broken_ = true;
    return file_error(error_number, verb, path_);
  }
  Error lose(int error_number, std::string_view verb) {
    fs_.machine_->disk.lose_unsynced(id_, fs_.machine_->after_failed_sync == AfterFailedSync::kShowsOld);
    return broken(error_number, verb);
  }

  SimFileSystem& fs_;
  SimDisk::Id id_;
  std::string path_;
  uint64_t end_;
  uint64_t life_;
  bool broken_ = false, closed_ = false;
};

class SimFileSystem::Readable : public ReadableFile {
 public:
  Readable(SimFileSystem& fs, SimDisk::Id id, std::string path)
      : fs_(fs),
        id_(id),
        path_(std::move(path)),
        size_bytes_(fs.machine_->disk.content(id).size()),
        life_(fs.machine_->life) {}
  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return size_bytes_; }

  Status read_at(uint64_t offset, std::span<std::byte> into) override {
    const std::lock_guard<std::mutex> lock(fs_.mutex_);
    if (life_ != fs_.machine_->life) return internal(path_ + " was open when the simulated machine crashed");
    CHECKED(fs_.machine_->look(Call::kRead, "reading", path_));
    const std::string& content = fs_.machine_->disk.content(id_);
    if (offset > content.size() || into.size() > content.size() - offset) return file_is_cut(path_, content.size());
    if (!into.empty()) std::memcpy(into.data(), content.data() + offset, into.size());
    return ok_status();
  }

 private:
  SimFileSystem& fs_;
  SimDisk::Id id_;
  std::string path_;
  uint64_t size_bytes_;
  uint64_t life_;
};

SimFileSystem::SimFileSystem() : machine_(std::make_unique<Machine>()) {}
SimFileSystem::SimFileSystem(std::unique_ptr<Machine> machine) : machine_(std::move(machine)) {}
SimFileSystem::~SimFileSystem() = default;

Result<std::unique_ptr<WritableFile>> SimFileSystem::create(const std::string& path, Create how) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->change_or_fail(Call::kCreate, "creating", path));
  SimDisk& disk = machine_->disk;
  const SimDisk::Place place = disk.find(path);
  SimDisk::Id id = place.id;
  if (id != 0 && disk.is_folder(id)) return file_error(EISDIR, "creating", path);
  if (id != 0 && how == Create::kNew) return file_error(EEXIST, "creating", path);
  if (id == 0 && place.folder == 0) return file_error(Machine::absence(place), "creating", path);
  if (id == 0) id = disk.make(place, false);
  if (how == Create::kTruncate && !disk.content(id).empty()) disk.empty(id);
  const uint64_t end = how == Create::kAppend ? disk.content(id).size() : 0;
  return std::unique_ptr<WritableFile>(std::make_unique<Writable>(*this, id, path, end));
}

Result<std::unique_ptr<ReadableFile>> SimFileSystem::open(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->look(Call::kOpen, "opening", path));
  const SimDisk::Place place = machine_->disk.find(path);
  if (place.id == 0) return file_error(Machine::absence(place), "opening", path);
  if (machine_->disk.is_folder(place.id)) return invalid(path + " is a folder, a file was expected");
  return std::unique_ptr<ReadableFile>(std::make_unique<Readable>(*this, place.id, path));
}

Result<FileInfo> SimFileSystem::info(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->look(Call::kInfo, "looking at", path));
  const SimDisk::Place place = machine_->disk.find(path);
  if (place.id == 0) return file_error(Machine::absence(place), "looking at", path);
  return FileInfo{machine_->disk.content(place.id).size(), machine_->disk.is_folder(place.id),
                  1.75e9 + static_cast<double>(machine_->disk.modified(place.id))};
}

Result<std::vector<std::string>> SimFileSystem::list(const std::string& folder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->look(Call::kList, "listing", folder));
  const SimDisk::Place place = machine_->disk.find(folder);
  if (place.id == 0) return file_error(Machine::absence(place), "listing", folder);
  if (!machine_->disk.is_folder(place.id)) return file_error(ENOTDIR, "listing", folder);
  return machine_->disk.names(place.id);
}

Status SimFileSystem::make_folders(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->running());
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    const SimDisk::Place place = machine_->disk.find(part);
    if (place.id == 0) {
      CHECKED(machine_->change_or_fail(Call::kMakeFolder, "making folder", part));
      machine_->disk.make(place, true);
    } else if (!machine_->disk.is_folder(place.id)) {
      return invalid(part + " is a file, and a folder is needed there: name another place");
    }
    if (at == std::string::npos) return ok_status();
  }
}

Status SimFileSystem::link(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string verb = "linking " + from + " to";
  CHECKED(machine_->change_or_fail(Call::kLink, verb, to));
  const SimDisk::Place source = machine_->disk.find(from), target = machine_->disk.find(to);
  if (source.id == 0) return file_error(Machine::absence(source), verb, to);
  if (machine_->disk.is_folder(source.id)) return file_error(EPERM, verb, to);
  if (target.id != 0) return file_error(EEXIST, verb, to);
  if (target.folder == 0) return file_error(Machine::absence(target), verb, to);
  machine_->disk.name(target, source.id);
  return ok_status();
}

Status SimFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string verb = "renaming " + from + " to";
  CHECKED(machine_->change_or_fail(Call::kRename, verb, to));
  SimDisk& disk = machine_->disk;
  const SimDisk::Place source = disk.find(from), target = disk.find(to);
  if (source.id == 0) return file_error(Machine::absence(source), verb, to);
  if (source.id == target.id) return ok_status();
  if (source.folder == 0) return file_error(EBUSY, verb, to);
  if (target.folder == 0) return file_error(target.id != 0 ? EBUSY : Machine::absence(target), verb, to);
  const bool folder = disk.is_folder(source.id);
  if (folder && disk.inside(target.folder, source.id)) return file_error(EINVAL, verb, to);
  if (target.id != 0) {
    if (disk.is_folder(target.id) && !folder) return file_error(EISDIR, verb, to);
    if (!disk.is_folder(target.id) && folder) return file_error(ENOTDIR, verb, to);
    if (folder && !disk.names(target.id).empty()) return file_error(ENOTEMPTY, verb, to);
  }
  disk.move(source, target);
  return ok_status();
}

Status SimFileSystem::remove(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->change_or_fail(Call::kRemove, "removing", path));
  const SimDisk::Place place = machine_->disk.find(path);
  if (place.id == 0) return file_error(Machine::absence(place), "removing", path);
  if (place.folder == 0) return file_error(EBUSY, "removing", path);
  if (machine_->disk.is_folder(place.id) && !machine_->disk.names(place.id).empty())
    return file_error(ENOTEMPTY, "removing", path);
  machine_->disk.name(place, 0);
  return ok_status();
}

Status SimFileSystem::sync_folder(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->change_or_fail(Call::kSyncFolder, "syncing folder", path));
  const SimDisk::Place place = machine_->disk.find(path);
  if (place.id == 0) return file_error(Machine::absence(place), "opening folder", path);
  if (!machine_->disk.is_folder(place.id)) return file_error(ENOTDIR, "opening folder", path);
  if (!machine_->sync_lies) machine_->disk.sync_names(place.id);
  return ok_status();
}

Result<SpaceInfo> SimFileSystem::space(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CHECKED(machine_->look(Call::kSpace, "asking for free space at", path));
  const SimDisk::Place place = machine_->disk.find(path);
  if (place.id == 0) return file_error(Machine::absence(place), "asking for free space at", path);
  const uint64_t used = std::min(machine_->disk.used_bytes(), machine_->total_bytes);
  return SpaceInfo{machine_->total_bytes - used, machine_->total_bytes};
}

std::unique_ptr<SimFileSystem> SimFileSystem::after_crash(uint64_t seed, Survives what) const {
  auto machine = std::make_unique<Machine>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    machine->disk = machine_->disk;
    machine->total_bytes = machine_->total_bytes;
    machine->life = machine_->life + 1;
  }
  Random random(seed);
  machine->disk.crash(random, what);
  return std::unique_ptr<SimFileSystem>(new SimFileSystem(std::move(machine)));
}

void SimFileSystem::crash(uint64_t seed, Survives what) {
  auto after = after_crash(seed, what);
  const std::lock_guard<std::mutex> lock(mutex_);
  *machine_ = std::move(*after->machine_);
}

int64_t SimFileSystem::operations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return machine_->operations;
}

std::vector<std::string> SimFileSystem::history() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return machine_->history;
}

void SimFileSystem::stop_at(int64_t operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_->stop_at = operation;
}

void SimFileSystem::fail(Call call, int64_t nth, int error_number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_->plans.push_back({call, nth, error_number});
}

void SimFileSystem::set_after_failed_sync(AfterFailedSync shows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_->after_failed_sync = shows;
}

void SimFileSystem::limit_space(uint64_t total_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_->total_bytes = total_bytes;
}

void SimFileSystem::set_read_only(bool read_only) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_->read_only = read_only;
}

void SimFileSystem::set_sync_lies(bool lies) {
  const std::lock_guard<std::mutex> lock(mutex_);
  machine_->sync_lies = lies;
}

Status SimFileSystem::damage(const std::string& path, uint64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const SimDisk::Place place = machine_->disk.find(path);
  if (place.id == 0 || machine_->disk.is_folder(place.id)) return not_found("no file to damage at " + path);
  machine_->disk.damage(place.id, offset, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return ok_status();
}

}  // namespace aerie
