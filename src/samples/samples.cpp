#include "samples/samples.h"

#include <unordered_set>

#include "base/json.h"
#include "base/text.h"
#include "samples/line_reader.h"
#include "samples/sample_json.h"

namespace aerie {
namespace {

std::string prefix_of_line(int64_t line) { return "line-" + std::to_string(line) + "-"; }

Result<Prompt> prompt_of_text(std::string_view line, const std::string& id_prefix) {
  if (!valid_utf8(line)) return invalid("the text is not valid UTF-8; convert the file to UTF-8");
  return Prompt{made_id(id_prefix, line), {{"user", std::string(trim(line))}}};
}

constexpr std::string_view kAnswerMark = "#answer";

}  // namespace

std::string answer_id(const std::string& prompt_id, int n) {
  return n == 1 ? prompt_id : prompt_id + std::string(kAnswerMark) + std::to_string(n);
}

std::string_view prompt_of_answer(std::string_view id) {
  const size_t mark = id.rfind(kAnswerMark);
  if (mark == std::string_view::npos) return id;
  const std::string_view number = id.substr(mark + kAnswerMark.size());
  const bool made_here = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos &&
                         number[0] != '0' && number != "1";
  return made_here ? id.substr(0, mark) : id;
}

Result<std::vector<uint8_t>> loss_mask(const Conversation& conversation) {
  const size_t length = conversation.token_ids.size();
  if (Status fine = check_spans(conversation.loss_spans, length); !fine)
    return std::move(fine).error().under("conversation " + conversation.id);
  std::vector<uint8_t> mask(length, 0);
  for (const Span& span : conversation.loss_spans)
    for (int64_t at = span.begin; at < span.end; ++at) mask[static_cast<size_t>(at)] = 1;
  return mask;
}

Result<std::vector<Prompt>> load_prompts(FileSystem& fs, const std::string& path) {
  const bool json = path.ends_with(".jsonl") || path.ends_with(".json");
  TRY(LineReader lines, LineReader::open(fs, path, {}));
  std::vector<Prompt> prompts;
  std::unordered_map<std::string, int64_t> line_of_id;
  for (;;) {
    TRY(const auto line, lines.next());
    if (!line) break;
    if (trim(*line).empty()) continue;
    const std::string id_prefix = prefix_of_line(lines.line());
    auto prompt = json ? prompt_of_json(*line, id_prefix) : prompt_of_text(*line, id_prefix);
    if (!prompt) return std::move(prompt).error().under(lines.place());
    const auto [first, fresh] = line_of_id.emplace(prompt->id, lines.line());
    if (!fresh)
      return invalid(lines.place() + ": the id \"" + prompt->id + "\" stands on line " + std::to_string(first->second) +
                     " already; ids must be unique in a file");
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty())
    return invalid(path + (lines.size_bytes() == 0 ? " is empty" : " holds empty lines only") + "; write one prompt a line");
  return prompts;
}

std::string conversation_json(const Conversation& conversation) {
  JsonObject out;
  out.add({"id", conversation.id});
  std::string messages = "[";
  for (const Message& message : conversation.messages) {
    if (messages.size() > 1) messages += ",";
    messages += JsonObject().add({"role", message.role}).add({"content", message.content}).text();
  }
  out.add_json("messages", messages + "]");
  if (!conversation.token_ids.empty())
    out.add_json("token_ids", json_array(std::vector<int64_t>(conversation.token_ids.begin(), conversation.token_ids.end())));
  if (!conversation.loss_spans.empty()) {
    std::string spans = "[";
    for (const Span& span : conversation.loss_spans) {
      if (spans.size() > 1) spans += ",";
      spans += json_array(std::vector<int64_t>{span.begin, span.end});
    }
    out.add_json("loss_spans", spans + "]");
  }
  if (!conversation.finish_reason.empty()) out.add({"finish_reason", conversation.finish_reason});
  if (!conversation.target_fingerprint.empty()) out.add({"target", conversation.target_fingerprint});
  return out.text();
}

struct ConversationReader::State {
  LineReader lines;
};

ConversationReader::ConversationReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConversationReader::ConversationReader(ConversationReader&&) noexcept = default;
ConversationReader& ConversationReader::operator=(ConversationReader&&) noexcept = default;
ConversationReader::~ConversationReader() = default;

Result<ConversationReader> ConversationReader::open(FileSystem& fs, const std::string& path, Cursor from) {
  TRY(LineReader lines, LineReader::open(fs, path, from));
  return ConversationReader(std::make_unique<State>(State{std::move(lines)}));
}

Result<std::optional<Conversation>> ConversationReader::next() {
  LineReader& lines = state_->lines;
  for (;;) {
    TRY(const auto line, lines.next());
    if (!line) return std::optional<Conversation>();
    if (trim(*line).empty()) continue;
    auto conversation = conversation_of_json(*line, prefix_of_line(lines.line()));
    if (!conversation) return std::move(conversation).error().under(lines.place());
    return std::optional<Conversation>(*std::move(conversation));
  }
}

Result<int64_t> count_samples(FileSystem& fs, const std::string& path) {
  TRY(LineReader lines, LineReader::open(fs, path, {}));
  for (int64_t count = 0;;) {
    const auto line = lines.next();
    if (!line && line.error().code != Code::kInvalid) return line.error();  // an overlong line counts as a bad one
    if (line && !*line) return count;
    if (!line || !trim(**line).empty()) ++count;
  }
}

Cursor ConversationReader::cursor() const { return state_->lines.cursor(); }
int64_t ConversationReader::line() const { return state_->lines.line(); }
uint64_t ConversationReader::size_bytes() const { return state_->lines.size_bytes(); }

}  // namespace aerie
