// Prompts and conversations: what goes into a target and what came out of it, with exact token ids and loss masks.
//
// Prompts are read from JSONL ({"id", "prompt"}, or {"id", "messages" or "conversations"} whose closing answers are
// dropped) when the name ends in .jsonl or .json, else from text (one prompt a non-empty line).
// Conversations are read from JSONL: ours (below), ShareGPT ("conversations": from/value), OpenAI ("messages":
// role/content; content may be a list of text parts) and tokenised rows ("input_ids", "loss_mask"). Ours adds
// "token_ids", "loss_spans", "finish_reason" and "target"; where token ids stand they are the truth and text is for
// people. Roles of other tools are mapped: human -> user, gpt -> assistant, developer -> system, ...
// Files are UTF-8 (checked); a byte order mark, CRLF and empty lines are tolerated; a line is at most 64 MiB.
// Errors are kInvalid with file and line. Plain values; one thread an object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace aerie {

constexpr uint64_t kMaxLineBytes = 64ull << 20;

struct Message {
  std::string role;  // system, user, assistant, tool
  std::string content;
  bool operator==(const Message&) const = default;
};

struct Prompt {
  std::string id;  // unique in its file; made from the line number and a content hash when absent
  std::vector<Message> messages;
};

// Token positions [begin, end).
struct Span {
  int64_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

struct Conversation {
  std::string id;
  std::vector<Message> messages;
  std::vector<int32_t> token_ids;   // empty: must be rendered and tokenised by the target first
  std::vector<Span> loss_spans;     // tokens that the target itself produced, ascending, disjoint
  std::string finish_reason;        // "stop", "length" or empty
  std::string target_fingerprint;   // of the target that answered; empty when unknown
};

// The id of a prompt's n-th answer, n from 1: the prompt's own for the first, with "#answer2", ... behind it for others.
std::string answer_id(const std::string& prompt_id, int n);
// Of which prompt an id is an answer; an id that answer_id() did not make stands for itself.
std::string_view prompt_of_answer(std::string_view id);

// One byte a token, 1 inside a loss span. kInvalid when a span leaves [0, length) or spans are out of order.
Result<std::vector<uint8_t>> loss_mask(const Conversation& conversation);

// All prompts of a .jsonl or text file. An empty file, a line that is not JSON, a prompt without a user message, or a
// repeated id is an error with its line.
Result<std::vector<Prompt>> load_prompts(FileSystem& fs, const std::string& path);

// Where a reader stands, to be saved and given back: the start of the next line, and how many lines lie before it.
struct Cursor {
  uint64_t offset_bytes = 0;
  int64_t line = 0;
  bool operator==(const Cursor&) const = default;
};

// Reads conversations one after another without holding the file in memory. Reads what was there when it was opened.
class ConversationReader {
 public:
  // kInvalid when the cursor does not stand at the start of a line of this file: it is not the file of the cursor.
  static Result<ConversationReader> open(FileSystem& fs, const std::string& path, Cursor from = {});
  // The next one; an empty optional at the end. After kInvalid for one line the reader stands on the next line, so the
  // caller may record the reason and go on.
  Result<std::optional<Conversation>> next();
  Cursor cursor() const;
  int64_t line() const;         // of what next() gave last, error or conversation; the first line is 1
  uint64_t size_bytes() const;  // of the file
  ConversationReader(ConversationReader&&) noexcept;
  ConversationReader& operator=(ConversationReader&&) noexcept;
  ~ConversationReader();

 private:
  struct State;
  explicit ConversationReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Lines that are not empty: how many conversations a file holds, good and bad ones.
Result<int64_t> count_samples(FileSystem& fs, const std::string& path);

// A line of any of the forms; an id is made from a content hash when it has none.
Result<Conversation> parse_conversation(std::string_view json_line);
// Ours, one line without the line end. Text that is no UTF-8 gets U+FFFD for its bad bytes (an answer may end in the
// middle of a character); the ids stay exact.
std::string conversation_json(const Conversation& conversation);

// Appends conversations; each is durable when add() returned (one write, one fdatasync). Opening repairs the torn last
// line of a killed run by cutting it off (a whole line that only lacks its end gets it), and lists what is already
// there. Any other line that cannot be read is kInvalid: the file is left as it is.
// One process adds to a file at a time: on the real file system the writer holds `<path>.lock` (base/file_lock.h; beside the
// file, because a repair puts another file in its place), and a second one is kUnavailable and names the holder.
// After add() failed the writer refuses further use; open the file again.
class ConversationWriter {
 public:
  static Result<ConversationWriter> open(FileSystem& fs, const std::string& path);
  // Ids with the fingerprint of the target that answered, as they were when the file was opened and added since.
  const std::unordered_map<std::string, std::string>& present() const;
  Status add(const Conversation& conversation);  // kExists for an id that is there
  ConversationWriter(ConversationWriter&&) noexcept;
  ConversationWriter& operator=(ConversationWriter&&) noexcept;
  ~ConversationWriter();

 private:
  struct State;
  explicit ConversationWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace aerie
