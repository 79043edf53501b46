#include "extract/chat.h"

#include <algorithm>

#include "base/text.h"

namespace aerie {
namespace {

// A stretch of the rendered text that is tokenised by itself.
struct Piece {
  std::string text;
  bool answer = false;
};

Result<std::vector<Piece>> pieces_of(Target& target, const std::vector<Message>& messages) {
  TRY(const std::string whole, target.render(chat_messages(messages, messages.size()), false));
  std::vector<Piece> pieces;
  size_t at = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    TRY(const std::string before, target.render(chat_messages(messages, i), true));
    TRY(const std::string after, target.render(chat_messages(messages, i + 1), false));
    if (before.size() < at || !whole.starts_with(before) || after.size() < before.size() || !whole.starts_with(after))
      return invalid("the chat template renders message " + std::to_string(i + 1) +
                     " otherwise once more messages follow, so its tokens cannot be told from the prompt's");
    pieces.push_back({whole.substr(at, before.size() - at), false});
    pieces.push_back({whole.substr(before.size(), after.size() - before.size()), true});
    at = after.size();
  }
  // What follows the last answer is no context of anything.
  return pieces;
}

// Templates close a turn with white space after the token that ends it; the target never says that.
Result<size_t> length_said(Target& target, const std::vector<int32_t>& ids) {
  size_t length = ids.size();
  while (length > 0) {
    TRY(const std::string text, target.detokenize(std::span(ids).subspan(length - 1, 1)));
    if (text.empty() || !trim(text).empty()) break;  // special tokens may be written as nothing
    --length;
  }
  return length;
}

Result<Tokens> tokens_of_text(Target& target, const std::vector<Message>& messages) {
  TRY(const std::vector<Piece> pieces, pieces_of(target, messages));
  TRY(const std::vector<int32_t> lead, target.tokenize("", true));  // what an engine puts in front of any text
  Tokens tokens;
  std::string joined;
  for (const Piece& piece : pieces) {
    TRY(std::vector<int32_t> ids, target.tokenize(piece.text, true));
    if (!joined.empty() && ids.size() >= lead.size() && std::equal(lead.begin(), lead.end(), ids.begin()))
      ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(lead.size()));
    size_t said = 0;
    if (piece.answer) {
      TRY(said, length_said(target, ids));
    }
    tokens.ids.insert(tokens.ids.end(), ids.begin(), ids.end());
    tokens.mask.insert(tokens.mask.end(), said, 1);
    tokens.mask.insert(tokens.mask.end(), ids.size() - said, 0);
    joined += piece.text;
  }
  // Turns apart must read as the whole does; a tokenizer that puts spaces in front of texts fails here.
  TRY(const std::vector<int32_t> whole_ids, target.tokenize(joined, true));
  TRY(const std::string apart, target.detokenize(tokens.ids));
  TRY(const std::string together, target.detokenize(whole_ids));
  if (apart != together) return invalid("tokenising its turns one by one gives another text than tokenising it whole");
  return tokens;
}

}  // namespace

std::vector<ChatMessage> chat_messages(const std::vector<Message>& messages, size_t count) {
  std::vector<ChatMessage> out;
  for (size_t i = 0; i < count; ++i) out.push_back({messages[i].role, messages[i].content});
  return out;
}

Result<Tokens> tokens_of(Target& target, const Conversation& conversation) {
  if (conversation.token_ids.empty()) return tokens_of_text(target, conversation.messages);
  const int vocab_size = target.facts().vocab_size;
  for (const int32_t id : conversation.token_ids)
    if (id >= vocab_size)
      return invalid("token id " + std::to_string(id) + " is outside the target's vocabulary of " +
                     std::to_string(vocab_size));
  Tokens tokens;
  TRY(tokens.mask, loss_mask(conversation));
  tokens.ids = conversation.token_ids;
  return tokens;
}

}  // namespace aerie
