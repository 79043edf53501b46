// Prompts and conversations: what goes into a target and what came out of it, with exact token ids and loss masks.
//
// Prompts are read from JSONL ({"id", "prompt"} or {"id", "messages"}) or from text (one prompt a non-empty line).
// Conversations are read from JSONL: ours (below), ShareGPT ("conversations": from/value) and OpenAI ("messages":
// role/content). Ours adds "token_ids", "loss_spans", "finish_reason" and "target"; where token ids stand they are
// the truth and text is for people. Errors are kInvalid with file and line. Plain values; one thread an object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace aerie {

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

// One byte a token, 1 inside a loss span. kInvalid when a span leaves [0, length) or spans are out of order.
Result<std::vector<uint8_t>> loss_mask(const Conversation& conversation);

// All prompts of a .jsonl or text file. An empty file, a line that is not JSON, a prompt without a user message, or a
// repeated id is an error with its line.
Result<std::vector<Prompt>> load_prompts(FileSystem& fs, const std::string& path);

// Where a reader stands, to be saved and given back.
struct Cursor {
  uint64_t offset_bytes = 0;
  int64_t line = 0;
};

// Reads conversations one after another without holding the file in memory.
class ConversationReader {
 public:
  static Result<ConversationReader> open(FileSystem& fs, const std::string& path, Cursor from = {});
  // The next one; an empty optional at the end. After kInvalid for one line the reader stands on the next line, so the
  // caller may record the reason and go on.
  Result<std::optional<Conversation>> next();
  Cursor cursor() const;
  ConversationReader(ConversationReader&&) noexcept;
  ConversationReader& operator=(ConversationReader&&) noexcept;
  ~ConversationReader();

 private:
  struct State;
  explicit ConversationReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

Result<Conversation> parse_conversation(std::string_view json_line);  // the line of any of the three forms
std::string conversation_json(const Conversation& conversation);      // ours, one line without the line end

// Appends conversations; each is durable when add() returned. Opening repairs a torn last line of a killed run by
// cutting it off, and lists the ids that are already there.
class ConversationWriter {
 public:
  static Result<ConversationWriter> open(FileSystem& fs, const std::string& path);
  const std::vector<std::string>& present_ids() const;
  Status add(const Conversation& conversation);
  ConversationWriter(ConversationWriter&&) noexcept;
  ConversationWriter& operator=(ConversationWriter&&) noexcept;
  ~ConversationWriter();

 private:
  struct State;
  explicit ConversationWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace aerie
