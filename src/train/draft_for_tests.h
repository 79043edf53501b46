// A tiny draft, a tiny target's head and random sequences, for the tests of this room. Header-only; used by tests only.
#pragma once

#include <memory>
#include <vector>

#include "base/random.h"
#include "train/draft_shape.h"
#include "train/ttt.h"

namespace aerie::testing_draft {

inline std::vector<float> normals(Random& random, size_t count, double deviation) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal() * deviation);
  return values;
}

// Grouped heads whose width (4 * 8) is not the hidden size (24).
inline DraftShape tiny_shape() {
  DraftShape s;
  s.hidden_size = s.target_hidden_size = 24;
  s.intermediate_size = 40;
  s.head_count = 4;
  s.kv_head_count = 2;
  s.head_size = 8;
  s.vocab_size = 50;
  s.draft_vocab_size = 20;
  s.context_length = 512;
  return s;
}

// Draft id i is target id 2 i + 1.
inline Checkpoint tiny_draft(const DraftShape& shape, uint64_t seed = 3) {
  Random random(seed);
  Checkpoint c;
  c.shape = shape;
  c.boundaries = {2, 4, 5};
  c.target_layer_count = 8;
  c.target_fingerprint = "fingerprint of a test";
  c.target_name = "a test's target";
  c.ttt_steps = 4;
  for (const auto& [name, dimensions] : expected_tensors(shape)) {
    const auto count = static_cast<size_t>(*count_of(dimensions));
    if (name == "d2t") {
      std::vector<int64_t> offsets(count);
      for (size_t i = 0; i < count; ++i) offsets[i] = static_cast<int64_t>(i) + 1;
      c.tensors.push_back(tensor_i64(name, dimensions, offsets));
      continue;
    }
    std::vector<float> values = normals(random, count, dimensions.size() == 1 ? 0.2 : 0.15);
    if (dimensions.size() == 1) {
      for (float& v : values) v += 1;
    }
    c.tensors.push_back(tensor_f32(name, dimensions, values));
  }
  return c;
}

inline std::shared_ptr<StoredHead> tiny_head(const DraftShape& shape, uint64_t seed = 4) {
  Random random(seed);
  auto head = std::make_shared<StoredHead>();
  const auto h = static_cast<size_t>(shape.hidden_size), v = static_cast<size_t>(shape.vocab_size);
  head->norm = normals(random, h, 0.2);
  for (float& n : head->norm) n += 1;
  head->lm_head = normals(random, v * h, 0.5);
  head->embeddings = normals(random, v * h, 0.5);
  return head;
}

struct Tokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::vector<float> aux, last;
  TttSequence sequence() const { return {ids, mask, aux, last, {}}; }
};

// `prompt` unsupervised tokens, then supervised ones.
inline Tokens tokens(const DraftShape& shape, size_t length, size_t prompt, uint64_t seed) {
  Random random(seed);
  Tokens t;
  const auto h = static_cast<size_t>(shape.target_hidden_size);
  for (size_t i = 0; i < length; ++i) {
    t.ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(shape.vocab_size))));
    t.mask.push_back(i >= prompt ? 1 : 0);
  }
  t.aux = normals(random, length * 3 * h, 1);
  t.last = normals(random, length * h, 1);
  return t;
}

}  // namespace aerie::testing_draft
