// What a draft is before its first step: the shape from the store's header, weights from seed and target. Private to
// train.
#pragma once

#include <string>

#include "store/store.h"
#include "train/train.h"
#include "train/vocabulary.h"

namespace aerie {

// kInvalid when the header lacks what a shape needs (heads, sizes, three boundaries), naming it.
Result<DraftShape> draft_shape_of(const StoreHeader& header, const TrainConfig& config, int draft_vocab_size);

// Norms are 1; matrices normal with deviation 0.02 from the seed, the same on every machine; o_proj and down_proj
// small, so that the layer begins near the identity. Unless config.init is "random", lm_head and the last norm are the
// target's.
Checkpoint initial_draft(const DraftShape& shape, const StoreHeader& header, const StoredHead& head,
                         const DraftVocabulary& vocabulary, const TrainConfig& config);

}  // namespace aerie
