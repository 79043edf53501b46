// Conversations to token ids and loss masks by a target's own template and tokenizer. Inside this room only.
//
// One thread (the target's). kInvalid = this conversation can never be used; other errors come from the target.
#pragma once

#include <string>
#include <vector>

#include "samples/samples.h"
#include "target/target.h"

namespace aerie {

// The first `count` messages as the target takes them.
std::vector<ChatMessage> chat_messages(const std::vector<Message>& messages, size_t count);

struct Tokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;  // 1 = produced by the target (or, of a foreign conversation, by an assistant)
};

// Ours: ids and spans verbatim, after checking that they fit the target. Foreign: rendered by the target's template
// and tokenised turn by turn, cut where the target itself would begin and end an answer, so that the mask is exact: the
// prompt of every assistant turn is tokenised as it is when served, and the loss covers the answer and the token that
// ends it. A template whose rendering of a turn depends on later turns has no such cuts: kInvalid.
Result<Tokens> tokens_of(Target& target, const Conversation& conversation);

}  // namespace aerie
