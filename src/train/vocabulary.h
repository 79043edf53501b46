// The draft's reduced vocabulary: the target tokens that it can propose, chosen by how often the target answered with
// them.
//
// Pure functions over counts. Ids are kept in ascending order, so d2t never falls; ties go to the lower id; when fewer
// tokens were seen than asked for, the lowest unused ids fill the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"

namespace aerie {

struct DraftVocabulary {
  std::vector<int32_t> targets;    // [Vd] target id of each draft id, ascending
  std::optional<double> coverage;  // share of counted tokens that are inside; absent when nothing was counted
  int64_t counted = 0;             // tokens counted
  int64_t distinct = 0;            // different tokens among them

  std::vector<int64_t> d2t() const;                    // offsets: targets[i] - i
  std::vector<uint8_t> t2d(int64_t vocab_size) const;  // 1 where a target token is inside
};

// counts[id] = times the token was supervised. `size` 0 chooses: the smallest multiple of 256, at least 512, that
// covers 99.5 % of the counted tokens. Little data hides much of what will come: by Good and Turing, about as large a
// share of the next tokens is new as the share of those counted once. Above 2 % the size is at least 4096, since low
// ids are frequent in every tokenizer trained by merges. Never above 8192, beyond which logits would be most of a
// step's cost, nor above the vocabulary. kInvalid when size is negative or larger than the vocabulary.
Result<DraftVocabulary> choose_vocabulary(const std::vector<int64_t>& counts, int64_t size);

// Share of the counted tokens that the vocabulary of these targets covers; absent when nothing was counted.
std::optional<double> coverage_of(const std::vector<int64_t>& counts, const std::vector<int32_t>& targets);

}  // namespace aerie
