// One line of a conversations file: whatever it holds, it is a conversation or kInvalid, and what was understood comes
// back the same from our own form.
#include <cstdlib>
#include <string_view>

#include "samples/samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace aerie;
  const auto conversation = parse_conversation({reinterpret_cast<const char*>(data), size});
  if (!conversation) {
    if (conversation.error().code != Code::kInvalid || conversation.error().what.empty()) std::abort();
    return 0;
  }
  if (!loss_mask(*conversation)) std::abort();
  const auto again = parse_conversation(conversation_json(*conversation));
  if (!again || again->id != conversation->id || again->messages != conversation->messages ||
      again->token_ids != conversation->token_ids || again->loss_spans != conversation->loss_spans ||
      again->finish_reason != conversation->finish_reason ||
      again->target_fingerprint != conversation->target_fingerprint)
    std::abort();
  return 0;
}
