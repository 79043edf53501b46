// For tests and benchmarks only: small stores with known content.
//
// Plain functions; the same arguments give the same samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "store/store.h"
#include "tensor/tensor.h"

namespace aerie {

inline StoreHeader small_header(const std::string& dtype = "BF16", int hidden_size = 32) {
  StoreHeader header;
  header.target_fingerprint = "fp-1";
  header.target_name = "tiny";
  header.architecture = "llama";
  header.engine = "fake";
  header.weight_type = "F32";
  header.layer_count = 6;
  header.hidden_size = hidden_size;
  header.vocab_size = 1000;
  header.boundaries = {2, 3, 4};
  header.dtype = dtype;
  header.probe_json = "{\"passed\":true}";
  return header;
}

// Values that BF16 holds exactly, so that what is read equals what was given.
inline Sample small_sample(const StoreHeader& header, const std::string& id, int64_t tokens, uint64_t seed) {
  Random random(seed);
  const auto value = [&] { return float_of_bf16(bf16_of(static_cast<float>(random.unit() * 20 - 10))); };
  Sample sample;
  sample.id = id;
  const auto hidden = static_cast<size_t>(header.hidden_size), count = static_cast<size_t>(tokens);
  for (size_t i = 0; i < count; ++i) {
    sample.input_ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(header.vocab_size))));
    sample.loss_mask.push_back(i >= count / 2 ? 1 : 0);
  }
  sample.aux.resize(count * header.boundaries.size() * hidden);
  sample.last.resize(count * hidden);
  for (float& v : sample.aux) v = value();
  for (float& v : sample.last) v = value();
  return sample;
}

inline bool same_sample(const Sample& a, const Sample& b) {
  return a.id == b.id && a.input_ids == b.input_ids && a.loss_mask == b.loss_mask && a.aux == b.aux && a.last == b.last;
}

}  // namespace aerie
