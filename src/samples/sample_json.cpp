#include "samples/sample_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/hash.h"
#include "base/text.h"

namespace aerie {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;  // samples are flat; a deeper line is an attack on memory or another file
constexpr size_t kMaxPromptIdBytes = 256;
constexpr size_t kMaxIdBytes = kMaxPromptIdBytes + 16;  // room for what answer_id() puts behind a prompt's id

struct TooDeep : std::runtime_error {
  TooDeep() : std::runtime_error("too deep") {}
};

// The library's sentence without its own numbering and without the long text it may quote.
std::string parser_sentence(const Json::parse_error& error) {
  std::string text = error.what();
  if (const size_t at = text.find(": "); at != std::string::npos) text = text.substr(at + 2);
  if (text.size() > 160) text = text.substr(0, 160) + "...";
  return text;
}

Result<Json> object_of(std::string_view line) {
  if (!valid_utf8(line)) return invalid("the text is not valid UTF-8; convert the file to UTF-8");
  try {
    Json json = Json::parse(line, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) throw TooDeep();
      return true;
    });
    if (!json.is_object())
      return invalid("a JSON object is needed here, one a line, but this is " + std::string(json.type_name()) +
                     (json.is_array() ? "; write one element a line" : ""));
    return json;
  } catch (const TooDeep&) {
    return invalid("the JSON is nested deeper than " + std::to_string(kMaxDepth) + " levels");
  } catch (const Json::parse_error& error) {
    return invalid("not valid JSON at column " + std::to_string(error.byte) + ": " + parser_sentence(error));
  } catch (const std::exception& error) {
    return invalid(std::string("not valid JSON: ") + error.what());
  }
}

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> optional_text(const Json& object, const char* name) {
  const Json* value = member(object, name);
  if (!value) return std::string();
  if (!value->is_string()) return invalid("\"" + std::string(name) + "\" must be a string");
  return value->get<std::string>();
}

Result<std::string> role_of(const std::string& name) {
  static const std::unordered_map<std::string, std::string> kRoles = {
      {"system", "system"}, {"developer", "system"}, {"user", "user"},       {"human", "user"},
      {"assistant", "assistant"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"},
      {"bot", "assistant"}, {"tool", "tool"},        {"function", "tool"},   {"observation", "tool"}};
  const auto found = kRoles.find(name);
  if (found == kRoles.end())
    return invalid("the role \"" + name.substr(0, 40) + "\" is unknown; known are system, user (human), assistant (gpt), tool");
  return found->second;
}

// A string, or OpenAI's list of parts of which only text is for us.
Result<std::string> content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return invalid("its content must be a string or a list of text parts");
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") || !part["text"].is_string())
      return invalid("its content has a part that is not text");
    text += part["text"].get<std::string>();
  }
  return text;
}

Result<Message> message_of(const Json& json) {
  if (!json.is_object()) return invalid("it must be an object with role and content (or from and value)");
  const Json* role = member(json, "role");
  if (!role) role = member(json, "from");
  const Json* content = member(json, "content");
  if (!content) content = member(json, "value");
  if (!role || !role->is_string()) return invalid("it has no role");
  if (!content) return invalid("it has no text content");
  Message message;
  TRY(message.role, role_of(role->get<std::string>()));
  TRY(message.content, content_of(*content));
  return message;
}

Result<std::vector<Message>> messages_of(const Json& object) {
  const Json* list = member(object, "messages");
  if (!list) list = member(object, "conversations");
  if (!list) return std::vector<Message>();
  if (!list->is_array()) return invalid("\"messages\" (or \"conversations\") must be a list");
  std::vector<Message> messages;
  for (const Json& json : *list) {
    auto message = message_of(json);
    if (!message) return std::move(message).error().under("message " + std::to_string(messages.size() + 1));
    messages.push_back(*std::move(message));
  }
  return messages;
}

bool has_role(const std::vector<Message>& messages, std::string_view role) {
  return std::any_of(messages.begin(), messages.end(), [&](const Message& m) { return m.role == role; });
}

Result<std::string> id_of(const Json& object, std::string_view line, const std::string& id_prefix) {
  const Json* value = member(object, "id");
  if (!value) return made_id(id_prefix, line);
  if (value->is_number_integer()) return value->dump();
  if (!value->is_string()) return invalid("\"id\" must be a string or an integer");
  auto id = value->get<std::string>();
  CHECKED(check_id(id));
  return id;
}

Result<int64_t> integer_of(const Json& value, int64_t low, int64_t high, const char* what) {
  // Unsigned values above int64's range would turn negative in get<int64_t>(), and be refused all the same.
  if (!value.is_number_integer() || value.get<int64_t>() < low || value.get<int64_t>() > high)
    return invalid("\"" + std::string(what) + "\" holds " + value.dump().substr(0, 40) + ", which is no integer from " +
                   std::to_string(low) + " to " + std::to_string(high));
  return value.get<int64_t>();
}

Result<std::vector<int32_t>> token_ids_of(const Json& object) {
  const char* name = member(object, "token_ids") ? "token_ids" : "input_ids";
  const Json* list = member(object, name);
  std::vector<int32_t> ids;
  if (!list) return ids;
  if (!list->is_array()) return invalid("\"" + std::string(name) + "\" must be a list of integers");
  ids.reserve(list->size());
  for (const Json& value : *list) {
    TRY(const int64_t id, integer_of(value, 0, std::numeric_limits<int32_t>::max(), name));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Result<std::vector<Span>> spans_of_mask(const Json& mask, size_t length) {
  if (!mask.is_array() || mask.size() != length)
    return invalid("\"loss_mask\" must be a list as long as the token ids (" + std::to_string(length) + ")");
  std::vector<Span> spans;
  int64_t at = 0;
  for (const Json& value : mask) {
    TRY(const int64_t one, integer_of(value, 0, 1, "loss_mask"));
    if (one == 1 && !spans.empty() && spans.back().end == at) ++spans.back().end;
    else if (one == 1) spans.push_back({at, at + 1});
    ++at;
  }
  return spans;
}

Result<std::vector<Span>> loss_spans_of(const Json& object, size_t length) {
  const Json* list = member(object, "loss_spans");
  if (!list) {
    const Json* mask = member(object, "loss_mask");
    if (mask) return spans_of_mask(*mask, length);
    return std::vector<Span>();
  }
  if (!list->is_array()) return invalid("\"loss_spans\" must be a list of [begin, end]");
  std::vector<Span> spans;
  for (const Json& pair : *list) {
    if (!pair.is_array() || pair.size() != 2) return invalid("\"loss_spans\" must be a list of [begin, end]");
    constexpr auto kMost = static_cast<int64_t>(kMaxLineBytes);
    TRY(const int64_t begin, integer_of(pair[0], 0, kMost, "loss_spans"));
    TRY(const int64_t end, integer_of(pair[1], 0, kMost, "loss_spans"));
    spans.push_back({begin, end});
  }
  CHECKED(check_spans(spans, length));
  return spans;
}

}  // namespace

Status check_id(const std::string& id) {
  if (id.empty()) return invalid("the id is empty");
  if (id.size() > kMaxIdBytes) return invalid("the id is longer than " + std::to_string(kMaxIdBytes) + " bytes");
  for (const char c : id)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return invalid("the id holds a control character");
  return ok_status();
}

std::string made_id(const std::string& id_prefix, std::string_view content) {
  return id_prefix + xxh3_128(as_bytes(content)).hex().substr(0, 8);
}

Status check_spans(const std::vector<Span>& spans, size_t length) {
  int64_t end_before = 0;
  for (const Span& span : spans) {
    const std::string text = "loss span [" + std::to_string(span.begin) + ", " + std::to_string(span.end) + ")";
    if (span.begin >= span.end) return invalid(text + " is empty or reversed");
    if (span.begin < end_before) return invalid(text + " overlaps the span before it or is out of order");
    if (span.begin < 0 || static_cast<uint64_t>(span.end) > length)
      return invalid(text + " leaves the " + std::to_string(length) + " tokens of the conversation");
    end_before = span.end;
  }
  return ok_status();
}

Result<Prompt> prompt_of_json(std::string_view line, const std::string& id_prefix) {
  TRY(const Json object, object_of(line));
  Prompt prompt;
  TRY(prompt.id, id_of(object, line, id_prefix));
  if (prompt.id.size() > kMaxPromptIdBytes)
    return invalid("the id is longer than " + std::to_string(kMaxPromptIdBytes) + " bytes");
  TRY(const std::string text, optional_text(object, "prompt"));
  TRY(prompt.messages, messages_of(object));
  if (!text.empty() && !prompt.messages.empty())
    return invalid("it has both \"prompt\" and \"messages\"; one of them is needed");
  if (!text.empty()) prompt.messages = {{"user", text}};
  if (prompt.messages.empty()) return invalid("it has neither \"prompt\" nor \"messages\" with text");
  while (!prompt.messages.empty() && prompt.messages.back().role == "assistant") prompt.messages.pop_back();
  if (!has_role(prompt.messages, "user")) return invalid("it has no user message to answer");
  return prompt;
}

Result<Conversation> conversation_of_json(std::string_view line, const std::string& id_prefix) {
  TRY(const Json object, object_of(line));
  Conversation conversation;
  TRY(conversation.id, id_of(object, line, id_prefix));
  TRY(conversation.messages, messages_of(object));
  TRY(conversation.token_ids, token_ids_of(object));
  TRY(conversation.loss_spans, loss_spans_of(object, conversation.token_ids.size()));
  TRY(conversation.finish_reason, optional_text(object, "finish_reason"));
  TRY(conversation.target_fingerprint, optional_text(object, "target"));
  if (conversation.token_ids.empty()) {
    if (conversation.messages.empty())
      return invalid("it has neither messages (\"messages\" or \"conversations\") nor token ids");
    if (!has_role(conversation.messages, "assistant")) return invalid("it has no assistant message to learn from");
  }
  return conversation;
}

Result<Conversation> parse_conversation(std::string_view json_line) { return conversation_of_json(json_line, "c-"); }

}  // namespace aerie
