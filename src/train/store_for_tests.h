// A small store with something to learn: answers walk through a fixed successor table, and the states tell the last
// tokens. Header-only; used by tests of this room only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "store/store.h"
#include "train/draft_for_tests.h"

namespace aerie::testing_store {

inline constexpr size_t kHidden = 24, kVocab = 60;

struct Options {
  int samples = 40;
  uint64_t seed = 1;
  std::string fingerprint = "target A";
};

// Answers use the tokens 0..44 only, and visit all of them in one cycle.
inline constexpr int32_t kUsed = 45;
inline int32_t successor(int32_t id) { return (id + 7) % kUsed; }

inline StoreHeader header_of(const Options& options) {
  StoreHeader h;
  h.target_fingerprint = options.fingerprint;
  h.target_name = "a walker";
  h.architecture = "llama";
  h.engine = "test";
  h.weight_type = "F32";
  h.layer_count = 8;
  h.hidden_size = static_cast<int>(kHidden);
  h.vocab_size = static_cast<int>(kVocab);
  h.boundaries = {2, 4, 5};
  h.dtype = "F32";
  h.probe_json = "{}";
  h.facts_json =
      R"({"intermediate_size": 32, "head_count": 4, "kv_head_count": 2, "head_size": 8, "context_length": 128,
                     "rms_norm_eps": 1e-5, "rope_theta": 10000.0})";
  return h;
}

// Makes it under the test's folder, replacing an older one, and returns its path.
inline std::string make(const std::string& name, const Options& options = {}) {
  const std::string path = testing::TempDir() + "aerie_train_" + name;
  std::filesystem::remove_all(path);
  Random random(options.seed);
  const std::vector<float> embeddings = testing_draft::normals(random, kVocab * kHidden, 1);
  // lm_head row of token t is the state that stands for "t comes next".
  const std::vector<float> lm_head = testing_draft::normals(random, kVocab * kHidden, 0.5);
  const std::vector<float> norm(kHidden, 1.0f);
  FileSystem& fs = real_file_system();
  auto writer = StoreWriter::open(fs, path, header_of(options), {});
  EXPECT_TRUE(writer.ok()) << writer.error().what;
  for (int i = 0; i < options.samples; ++i) {
    Sample s;
    s.id = "sample-" + std::to_string(i);
    const size_t length = 12 + random.below(10), prompt = 2 + random.below(4);
    auto id = static_cast<int32_t>(random.below(kUsed));
    for (size_t t = 0; t < length; ++t) {
      s.input_ids.push_back(id);
      s.loss_mask.push_back(t >= prompt ? 1 : 0);
      const int32_t next = successor(id);
      for (size_t part = 0; part < 3; ++part) {
        const auto from =
            (part == 0 ? embeddings : lm_head).begin() + (part == 0 ? id : next) * static_cast<long>(kHidden);
        s.aux.insert(s.aux.end(), from, from + kHidden);
      }
      for (size_t d = 0; d < kHidden; ++d) s.last.push_back(3 * lm_head[static_cast<size_t>(next) * kHidden + d]);
      id = next;
    }
    const auto added = (*writer)->add(s);
    EXPECT_TRUE(added.ok()) << added.error().what;
  }
  EXPECT_TRUE((*writer)->seal().ok());
  const auto view = [](const std::string& tensor, Shape shape, const std::vector<float>& values) {
    return TensorView{tensor, DType::kF32, std::move(shape), std::as_bytes(std::span(values))};
  };
  const auto h = static_cast<int64_t>(kHidden), v = static_cast<int64_t>(kVocab);
  EXPECT_TRUE(write_target_head(fs, path, view("norm", {h}, norm), view("lm_head", {v, h}, lm_head),
                                view("embeddings", {v, h}, embeddings))
                  .ok());
  return path;
}

}  // namespace aerie::testing_store
