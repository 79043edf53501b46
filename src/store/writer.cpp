#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "base/clock.h"
#include "base/file_lock.h"
#include "base/text.h"
#include "store/description.h"
#include "store/index.h"
#include "store/shard.h"
#include "store/skipped.h"
#include "store/store.h"

namespace aerie {

void StoreConfig::fields(FieldList& v) {
  v("shard_mb", shard_mb, "memory for samples that are not on the disk yet, and size of a shard, in MB").range(1, 16384);
  v("seal_after_s", seal_after_s, "seconds after which a shard is written though it is not full").range(0, 86400);
}

namespace {
constexpr size_t kMaxRecords = 65536;  // in a shard: keeps its header far below safetensors' limit
}

struct StoreWriter::State {
  FileSystem& fs;
  std::string path;
  StoreConfig config;
  FileLock lock;
  ShardFacts facts;
  SkippedList skipped;
  std::unordered_set<std::string> present{};
  WriterId writer = random_id();
  uint64_t next_number = 1;   // of the next shard's name; each attempt takes a new one
  uint64_t next_ordinal = 0;

  std::vector<Record> open{};  // not sealed
  uint64_t open_bytes = 0;
  // Where records are made, shard after shard: fresh memory for each would cost more than the work done in it.
  std::unique_ptr<std::byte[]> arena{};
  uint64_t arena_used = 0;
  double open_since_s = 0;
  bool seal_failed = false;

  uint64_t shard_bytes() const { return static_cast<uint64_t>(config.shard_mb) * 1000000; }
  // A record that fits here belongs to the open shard: one that must wait for a seal gets memory of its own, because
  // sealing frees the arena.
  std::span<std::byte> room() {
    if (full_with(0)) return {};
    if (!arena) arena = std::make_unique_for_overwrite<std::byte[]>(shard_bytes());
    return {arena.get() + arena_used, shard_bytes() - open_bytes};
  }
  // Whether a record of so many bytes makes the open shard too large.
  bool full_with(uint64_t more_bytes) const {
    return open_bytes + more_bytes > shard_bytes() || open.size() >= kMaxRecords;
  }
};

namespace {

// Makes a store's folder so that its name survives a crash: each new name is synced in its parent.
Status make_durable_folder(FileSystem& fs, const std::string& path) {
  std::vector<std::string> made, older;
  for (std::string part = path; part != "." && part != "/"; part = folder_of(part)) {
    TRY(const bool there, fs.exists(part));
    (there ? older : made).push_back(part);
  }
  CHECKED(fs.make_folders(path));
  for (auto part = made.rbegin(); part != made.rend(); ++part) CHECKED(fs.sync_folder(folder_of(*part)));
  // A folder that is there may be the work of a process that was killed before its sync. Once store.json stands, the
  // one who wrote it has synced. Parents that may not be opened are not ours and older than this store.
  TRY(const bool described, fs.exists(path + "/store.json"));
  if (!described) {
    for (const auto& part : older) (void)fs.sync_folder(folder_of(part));
  }
  return ok_status();
}

// kInvalid from a seal would read as "the sample is bad", but it is the place that is (read-only, for one).
Error seal_error(Error error, const std::string& shard, const std::string& store, size_t samples) {
  if (error.code == Code::kInvalid || error.code == Code::kExists) error.code = Code::kUnavailable;
  return std::move(error).under("sealing shard " + shard + " of store " + store + " (" + std::to_string(samples) +
                                " samples stay in memory)");
}

bool is_leftover(const std::string& name) {
  for (const char* file : {"store.json", "skipped.jsonl", "target_head.safetensors"}) {
    if (is_temporary_of(name, file)) return true;
  }
  return false;
}

// Removes what an earlier writer left unfinished. Only the holder of the lock may.
Status clean(FileSystem& fs, const std::string& path) {
  TRY(const auto parts, fs.list(path + "/shards"));
  for (const auto& name : parts) {
    if (name.ends_with(".part")) CHECKED(fs.remove(path + "/shards/" + name));
  }
  TRY(const auto names, fs.list(path));
  for (const auto& name : names) {
    if (is_leftover(name)) CHECKED(fs.remove(path + "/" + name));
  }
  return ok_status();
}

Result<Description> describe(FileSystem& fs, const std::string& path, const StoreHeader& header) {
  TRY(const bool there, fs.exists(path + "/store.json"));
  if (!there) {
    // Shards without a description are somebody's data: never write another store over them.
    if (const auto names = shard_names(fs, path); names.ok() && !names->empty()) {
      return corrupt(path + " holds shards but no store.json; restore that file, or use another folder");
    }
    return create_description(fs, path, header);
  }
  TRY(Description description, read_description(fs, path));
  Status same = check_same(description.header, header);
  if (!same) return std::move(same).error().under(path);
  return description;
}

// "s000012-ab34cd56.safetensors" -> 12; 0 for other names.
uint64_t number_of(const std::string& name) {
  uint64_t number = 0;
  if (!name.starts_with('s')) return 0;
  for (size_t i = 1; i < name.size() && name[i] >= '0' && name[i] <= '9' && i < 16; ++i) {
    number = number * 10 + static_cast<uint64_t>(name[i] - '0');
  }
  return number;
}

std::string name_of_shard(uint64_t number, const WriterId& writer) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return "s" + digits + "-" + hex_of(writer).substr(0, 8);
}

}  // namespace

StoreWriter::StoreWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
StoreWriter::~StoreWriter() = default;
const std::unordered_set<std::string>& StoreWriter::present() const { return state_->present; }
const std::vector<std::string>& StoreWriter::skipped() const { return state_->skipped.ids(); }

Result<std::unique_ptr<StoreWriter>> StoreWriter::open(FileSystem& fs, const std::string& path, const StoreHeader& header,
                                                       const StoreConfig& config) {
  CHECKED(check_header(header));
  CHECKED(make_durable_folder(fs, path));
  FileLock lock;
  if (&fs == &real_file_system()) {
    TRY(lock, FileLock::take(path + "/lock", "store " + path));
  }
  TRY(const Description description, describe(fs, path, header));
  CHECKED(fs.make_folders(path + "/shards"));
  CHECKED(clean(fs, path));
  // Names that an earlier writer made and was killed before it synced them.
  CHECKED(fs.sync_folder(path));
  CHECKED(fs.sync_folder(path + "/shards"));
  TRY(const StoreIndex index, read_store_index(fs, path, description.facts()));
  TRY(SkippedList skipped, SkippedList::open(fs, path));

  auto state = std::make_unique<State>(State{fs, path, config, std::move(lock), description.facts(), std::move(skipped)});
  for (const auto& entry : index.entries) {
    state->present.insert(entry.id);
    state->next_ordinal = std::max(state->next_ordinal, entry.ordinal + 1);
  }
  for (const auto& id : state->skipped.ids()) state->present.insert(id);
  for (const auto& name : index.shards) state->next_number = std::max(state->next_number, number_of(name) + 1);
  return std::unique_ptr<StoreWriter>(new StoreWriter(std::move(state)));
}

Result<std::vector<std::string>> StoreWriter::add(const Sample& sample) {
  State& s = *state_;
  const std::string who = "sample " + sample.id;
  const auto same = std::find_if(s.open.begin(), s.open.end(), [&](auto& r) { return r.block.id == sample.id; });
  if (s.present.contains(sample.id) ||
      (same != s.open.end() && same->block.id_hash != id_hash(sample.id, sample.input_ids))) {
    return exists(who + " is in the store already");
  }
  // Given again after a failed seal: it was taken then.
  if (same != s.open.end()) return s.seal_failed ? seal() : std::vector<std::string>{};

  auto record = encode_record(s.facts.shape, sample, real_clock().wall_s(), s.room());
  if (!record) return std::move(record).error().under(who);
  std::vector<std::string> durable;
  const bool no_room = !s.open.empty() && s.full_with(record->block.record_bytes);
  if (no_room) {
    TRY(durable, seal());
  }
  const double now_s = real_clock().monotonic_s();
  if (s.open.empty()) s.open_since_s = now_s;
  record->block.ordinal = s.next_ordinal++;
  s.open_bytes += record->block.record_bytes;
  if (!record->own) s.arena_used += record->block.record_bytes;
  s.open.push_back(*std::move(record));
  const bool due = s.full_with(1) || now_s - s.open_since_s >= s.config.seal_after_s;
  // One seal a call: a second one that fails could not say that the first made samples durable.
  if (no_room || !due) return durable;
  return seal();
}

Result<std::vector<std::string>> StoreWriter::seal() {
  State& s = *state_;
  if (s.open.empty()) return std::vector<std::string>{};
  s.seal_failed = true;
  const std::string name = name_of_shard(s.next_number++, s.writer);
  auto head = lay_out_shard(s.facts, s.writer, s.open);
  if (!head) return seal_error(std::move(head).error(), name, s.path, s.open.size());
  Status published = publish_shard(s.fs, s.path + "/shards", name, *head, s.open);
  if (!published) {
    return seal_error(std::move(published).error(), name, s.path, s.open.size());
  }
  std::vector<std::string> durable;
  for (const auto& record : s.open) {
    durable.push_back(record.block.id);
    s.present.insert(record.block.id);
  }
  s.open.clear();
  s.open_bytes = 0;
  s.arena_used = 0;
  s.seal_failed = false;
  return durable;
}

Status StoreWriter::skip(const std::string& id, const std::string& reason) {
  State& s = *state_;
  if (id.empty() || !valid_utf8(id)) return invalid("a sample's id must be UTF-8 and not empty");
  if (s.present.contains(id) || std::any_of(s.open.begin(), s.open.end(), [&](auto& r) { return r.block.id == id; })) {
    return exists("sample " + id + " is in the store already");
  }
  Status status = s.skipped.append(id, reason);
  if (!status) return std::move(status).error().under("recording that sample " + id + " is skipped");
  s.present.insert(id);
  return ok_status();
}

}  // namespace aerie
