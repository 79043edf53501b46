#include <algorithm>

#include "base/file_lock.h"
#include "base/log.h"
#include "base/text.h"
#include "samples/line_reader.h"
#include "samples/sample_json.h"
#include "samples/samples.h"

namespace aerie {
namespace {

struct Existing {
  std::unordered_map<std::string, std::string> present;
  uint64_t good_bytes = 0;   // everything before the torn line
  uint64_t size_bytes = 0;
  bool lacks_line_end = false;
};

// What a killed run may have left of its last write: no line end, or blocks that never reached the disk (zeros).
bool torn(std::string_view line, bool terminated) { return !terminated || line.find('\0') != std::string_view::npos; }

Result<Existing> read_existing(FileSystem& fs, const std::string& path) {
  Existing found;
  TRY(LineReader lines, LineReader::open(fs, path, {}));
  found.size_bytes = lines.size_bytes();
  for (;;) {
    TRY(const auto line, lines.next());
    if (!line) break;
    if (!trim(*line).empty()) {
      auto conversation = conversation_of_json(*line, "line-" + std::to_string(lines.line()) + "-");
      if (!conversation) {
        const bool last = lines.cursor().offset_bytes == found.size_bytes;
        if (last && torn(*line, lines.terminated())) break;
        return std::move(conversation).error().under(lines.place());
      }
      found.present.emplace(conversation->id, conversation->target_fingerprint);
    }
    found.good_bytes = lines.cursor().offset_bytes;
    found.lacks_line_end = !lines.terminated();
  }
  return found;
}

Status copy_start(FileSystem& fs, const std::string& from, WritableFile& to, uint64_t size_bytes) {
  TRY(auto source, fs.open(from));
  std::vector<std::byte> chunk(1 << 20);
  for (uint64_t at = 0; at < size_bytes;) {
    const std::span<std::byte> part(chunk.data(), std::min<uint64_t>(chunk.size(), size_bytes - at));
    CHECKED(source->read_at(at, part));
    CHECKED(to.write(part));
    at += part.size();
  }
  CHECKED(to.sync());
  return to.close();
}

// The file interface has no truncate (a file that is written never shrinks): the good part is copied beside and put in
// its place, so that a kill in the middle leaves the old file.
Status cut_off(FileSystem& fs, const std::string& path, uint64_t good_bytes) {
  const std::string beside = path + ".repair";
  TRY(auto copy, fs.create(beside, Create::kTruncate));
  if (Status copied = copy_start(fs, path, *copy, good_bytes); !copied) {
    (void)fs.remove(beside);
    return std::move(copied).error().under("repairing " + path);
  }
  CHECKED(fs.rename(beside, path));
  return fs.sync_folder(folder_of(path));
}

Status append(WritableFile& file, std::string_view text) {
  CHECKED(file.write(as_bytes(text)));
  return file.sync();
}

}  // namespace

struct ConversationWriter::State {
  FileLock lock;  // first, so that it is released last
  std::unique_ptr<WritableFile> file;
  std::unordered_map<std::string, std::string> present;
  bool failed = false;
};

ConversationWriter::ConversationWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConversationWriter::ConversationWriter(ConversationWriter&&) noexcept = default;
ConversationWriter& ConversationWriter::operator=(ConversationWriter&&) noexcept = default;
ConversationWriter::~ConversationWriter() = default;

Result<ConversationWriter> ConversationWriter::open(FileSystem& fs, const std::string& path) {
  auto state = std::make_unique<State>();
  // Before anything is read: what another process is just adding would look like a torn line.
  if (&fs == &real_file_system()) {
    TRY(state->lock, FileLock::take(path + ".lock", "conversations file " + path));
  }
  Existing existing;
  TRY(const bool there, fs.exists(path));
  if (there) {
    TRY(existing, read_existing(fs, path));
  }
  if (existing.good_bytes < existing.size_bytes) {
    const uint64_t cut_bytes = existing.size_bytes - existing.good_bytes;
    CHECKED(cut_off(fs, path, existing.good_bytes));
    log_warning("conversations_repaired",
                path + ": cut off " + bytes_text(cut_bytes) + " of a last line that a killed run left unfinished",
                {{"path", path}, {"cut_bytes", cut_bytes}});
  }
  state->present = std::move(existing.present);
  TRY(state->file, fs.create(path, Create::kAppend));
  if (existing.lacks_line_end) CHECKED(append(*state->file, "\n"));
  CHECKED(fs.sync_folder(folder_of(path)));
  return ConversationWriter(std::move(state));
}

const std::unordered_map<std::string, std::string>& ConversationWriter::present() const { return state_->present; }

Status ConversationWriter::add(const Conversation& conversation) {
  const std::string& path = state_->file->path();
  if (state_->failed)
    return internal(path + ": an earlier write failed, so nothing more is written; open the file again");
  if (Status fine = check_id(conversation.id); !fine) return std::move(fine).error().under(path);
  if (state_->present.contains(conversation.id))
    return exists(path + " has a conversation with the id \"" + conversation.id + "\" already");
  CHECKED(loss_mask(conversation));
  const std::string line = conversation_json(conversation) + "\n";
  if (line.size() > kMaxLineBytes)
    return invalid("conversation " + conversation.id + " needs a line of " + bytes_text(line.size()) +
                   ", and the most is " + bytes_text(kMaxLineBytes));
  if (Status written = append(*state_->file, line); !written) {
    state_->failed = true;
    return std::move(written).error().under("adding conversation " + conversation.id);
  }
  state_->present.emplace(conversation.id, conversation.target_fingerprint);
  return ok_status();
}

}  // namespace aerie
