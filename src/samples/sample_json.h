// One JSON line to a prompt or a conversation. Inside this room only; the JSON library is behind it.
//
// Pure functions. Errors are kInvalid and say what is wrong in the line; the caller puts file and line in front.
#pragma once

#include <string>
#include <string_view>

#include "samples/samples.h"

namespace aerie {

// `id_prefix` begins the id that is made when the line has none: "line-17-" + eight digits of a content hash.
Result<Prompt> prompt_of_json(std::string_view line, const std::string& id_prefix);
Result<Conversation> conversation_of_json(std::string_view line, const std::string& id_prefix);

// kInvalid when an id cannot serve as a name in files: empty, over 272 bytes, control characters. A prompt's
// is at most 256 bytes long, so that the ids of its answers fit.
Status check_id(const std::string& id);
std::string made_id(const std::string& id_prefix, std::string_view content);

// kInvalid when spans leave [0, length), are empty, overlap, or are out of order.
Status check_spans(const std::vector<Span>& spans, size_t length);

}  // namespace aerie
