// Drafts with random weights, for the tests of this room. Deterministic by seed.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/random.h"
#include "draft/sequential.h"
#include "train/draft_shape.h"

namespace aerie::test {

// A folder of this process under the tests' temporary folder, removed when the program ends.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name)
      : path_(testing::TempDir() + "aerie_" + name + "_" + std::to_string(getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline DraftShape small_shape() {
  DraftShape s;
  s.hidden_size = s.target_hidden_size = 32;
  s.intermediate_size = 48;
  s.head_count = 4;
  s.kv_head_count = 2;
  s.head_size = 8;
  s.vocab_size = 40;
  s.draft_vocab_size = 24;
  s.context_length = 512;
  s.rope_theta = 10000;
  s.rms_norm_eps = 1e-5f;  // as a GGUF target says it: a float, not the decimal
  return s;
}

inline std::vector<float> random_floats(size_t count, double scale, Random& random) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal() * scale);
  return values;
}

// Every matrix has rows of about unit gain times `gain`, norms lie around one, d2t is ascending unless `shuffled_map`.
inline Checkpoint random_checkpoint(const DraftShape& shape, uint64_t seed, double gain = 1.0,
                                    bool shuffled_map = false) {
  Random random(seed);
  Checkpoint c;
  c.shape = shape;
  c.boundaries = {2, 4, 5};
  c.target_layer_count = 8;
  c.target_fingerprint = "fingerprint-of-a-test";
  c.target_name = "test target";
  c.ttt_steps = 7;
  c.step = 11;
  for (const auto& [name, dims] : expected_tensors(shape)) {
    if (name == "d2t") {
      std::vector<int64_t> ids(static_cast<size_t>(shape.vocab_size));
      std::iota(ids.begin(), ids.end(), 0);
      random.shuffle(ids);
      ids.resize(static_cast<size_t>(shape.draft_vocab_size));
      if (!shuffled_map) std::sort(ids.begin(), ids.end());
      for (size_t i = 0; i < ids.size(); ++i) ids[i] -= static_cast<int64_t>(i);
      c.tensors.push_back(tensor_i64(name, dims, ids));
      continue;
    }
    const auto count = static_cast<size_t>(*count_of(dims));
    std::vector<float> values;
    if (dims.size() == 1) {
      values = random_floats(count, 0.2, random);
      for (float& v : values) v += 1.0f;
    } else {
      values = random_floats(count, gain / std::sqrt(static_cast<double>(dims[1])), random);
    }
    c.tensors.push_back(tensor_f32(name, dims, values));
  }
  return c;
}

inline std::vector<float> random_table(const DraftShape& shape, uint64_t seed) {
  Random random(seed);
  return random_floats(static_cast<size_t>(shape.vocab_size) * static_cast<size_t>(shape.target_hidden_size), 1.0,
                       random);
}

inline std::vector<int32_t> random_ids(size_t count, int vocab_size, Random& random) {
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab_size)));
  return ids;
}

}  // namespace aerie::test
