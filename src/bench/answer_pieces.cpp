// Cuts an answer's text at the places where the draft's guesses end and the target's own tokens stand.
#include "bench/bench.h"

#include <algorithm>

#include "base/text.h"

namespace aerie {
namespace {

// Runs of ids of one kind: in each round the accepted drafts come first, then the one that the target makes.
struct Run {
  size_t end = 0;  // ids before this index
  bool drafted = false;
};

std::vector<Run> runs_of(const Decoded& answer) {
  std::vector<Run> runs;
  size_t at = 0;
  const auto add = [&](size_t count, bool drafted) {
    if (count == 0 || at >= answer.ids.size()) return;
    at = std::min(at + count, answer.ids.size());
    if (!runs.empty() && runs.back().drafted == drafted)
      runs.back().end = at;
    else
      runs.push_back({at, drafted});
  };
  for (int accepted : answer.accepted) {
    add(static_cast<size_t>(accepted), true);
    add(1, false);
  }
  add(answer.ids.size() - at, false);  // ids that no round accounts for are the target's
  return runs;
}

}  // namespace

std::vector<AnswerPiece> answer_pieces(const Decoded& answer,
                                       const std::function<Result<std::string>(std::span<const int32_t>)>& detokenize) {
  const std::span<const int32_t> ids = answer.ids;
  std::vector<AnswerPiece> pieces;
  std::string before;  // text of the ids that stand in pieces already
  for (const Run& run : runs_of(answer)) {
    auto text = detokenize(ids.first(run.end));
    // A token may hold a part of a character, and a detokeniser may change what came before: then the next cut serves.
    if (!text || !text->starts_with(before)) continue;
    const std::string piece = text->substr(before.size());
    if (piece.empty() || !valid_utf8(piece)) continue;
    if (!pieces.empty() && pieces.back().drafted == run.drafted)
      pieces.back().text += piece;
    else
      pieces.push_back({piece, run.drafted});
    before = *std::move(text);
  }
  auto whole = detokenize(ids);
  if (!whole) return pieces;
  if (!whole->starts_with(before)) return {{*std::move(whole), false}};  // this detokeniser does not let itself be cut
  // What could not be cut at the end (half a character at max_tokens) stays as the detokeniser gives it.
  if (whole->size() > before.size()) pieces.push_back({whole->substr(before.size()), false});
  return pieces;
}

}  // namespace aerie
