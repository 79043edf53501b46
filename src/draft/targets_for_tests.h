// A target of architecture llama, small enough to be written by a test: random weights, its own little tokenizer.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "draft/drafts_for_tests.h"
#include "tensor/gguf.h"

namespace aerie::test {

struct TinyTarget {
  int layers = 8;
  int width = 32;
  int heads = 4;
  int kv_heads = 2;
  int inner = 64;
  int vocab = 40;
  int context = 512;
  // Rows of the lm_head from this id on are almost zero, so that the target speaks few words and a random draft is
  // right now and then; 0 = all rows alike.
  int words = 0;
  std::string architecture = "llama";
};

inline GgufValue text_array(const std::vector<std::string>& texts) {
  GgufValue value;
  value.type = 9;
  value.element_type = 8;
  for (const std::string& text : texts) value.values.emplace_back(text);
  return value;
}

inline Status write_tiny_target(const std::string& path, const TinyTarget& t, uint64_t seed) {
  Random random(seed);
  const auto u32 = [](int v) { return gguf_u32(static_cast<uint32_t>(v)); };
  std::vector<std::string> tokens{"<|end|>"};
  std::vector<int32_t> types{3};  // control
  for (int i = 1; i < t.vocab; ++i) {
    tokens.push_back("w" + std::to_string(i));
    types.push_back(1);
  }
  const std::string a = t.architecture + ".";
  const std::vector<std::pair<std::string, GgufValue>> metadata = {
      {"general.architecture", gguf_text(t.architecture)},
      {"general.name", gguf_text("tiny target")},
      {"general.file_type", gguf_u32(0)},
      {a + "block_count", u32(t.layers)},
      {a + "context_length", u32(t.context)},
      {a + "embedding_length", u32(t.width)},
      {a + "feed_forward_length", u32(t.inner)},
      {a + "attention.head_count", u32(t.heads)},
      {a + "attention.head_count_kv", u32(t.kv_heads)},
      {a + "attention.layer_norm_rms_epsilon", gguf_f32(1e-5f)},
      {a + "rope.dimension_count", u32(t.width / t.heads)},
      {a + "rope.freq_base", gguf_f32(10000.0f)},
      {a + "vocab_size", u32(t.vocab)},
      {"tokenizer.ggml.model", gguf_text("gpt2")},
      {"tokenizer.ggml.pre", gguf_text("gpt-2")},
      {"tokenizer.ggml.tokens", text_array(tokens)},
      {"tokenizer.ggml.token_type", gguf_i32_array(types)},
      {"tokenizer.ggml.merges", text_array({"w 1"})},
      {"tokenizer.ggml.eos_token_id", gguf_u32(0)},
      {"tokenizer.ggml.add_bos_token", gguf_bool(false)},
  };
  std::vector<std::vector<float>> held;
  std::vector<std::pair<std::string, Shape>> dims;
  const auto matrix = [&](const std::string& name, int rows, int columns, double gain) {
    held.push_back(
        random_floats(static_cast<size_t>(rows) * static_cast<size_t>(columns), gain / std::sqrt(columns), random));
    dims.push_back({name, {rows, columns}});
  };
  const auto norm = [&](const std::string& name) {
    held.emplace_back(static_cast<size_t>(t.width), 1.0f);
    dims.push_back({name, {t.width}});
  };
  const int kv = t.width / t.heads * t.kv_heads;
  matrix("token_embd.weight", t.vocab, t.width, std::sqrt(t.width));
  for (int l = 0; l < t.layers; ++l) {
    const std::string b = "blk." + std::to_string(l) + ".";
    norm(b + "attn_norm.weight");
    matrix(b + "attn_q.weight", t.width, t.width, 1.0);
    matrix(b + "attn_k.weight", kv, t.width, 1.0);
    matrix(b + "attn_v.weight", kv, t.width, 1.0);
    matrix(b + "attn_output.weight", t.width, t.width, 1.0);
    norm(b + "ffn_norm.weight");
    matrix(b + "ffn_gate.weight", t.inner, t.width, 1.0);
    matrix(b + "ffn_up.weight", t.inner, t.width, 1.0);
    matrix(b + "ffn_down.weight", t.width, t.inner, 1.0);
  }
  norm("output_norm.weight");
  matrix("output.weight", t.vocab, t.width, 2.0);
  if (t.words > 0) {
    std::vector<float>& head = held.back();
    for (size_t i = static_cast<size_t>(t.words) * static_cast<size_t>(t.width); i < head.size(); ++i) head[i] *= 0.01f;
    for (int i = 0; i < t.width; ++i) head[static_cast<size_t>(i)] *= 0.01f;  // the end token too: answers go on
  }
  std::vector<GgufTensor> tensors;
  for (size_t i = 0; i < held.size(); ++i) {
    tensors.push_back({dims[i].first,
                       static_cast<uint32_t>(GgmlType::kF32),
                       {dims[i].second.rbegin(), dims[i].second.rend()},
                       std::as_bytes(std::span(held[i]))});
  }
  return write_gguf(real_file_system(), path, metadata, tensors);
}

// A draft's shape for this target; its map covers the target's words first.
inline DraftShape shape_for(const TinyTarget& t) {
  DraftShape s = small_shape();
  s.hidden_size = s.target_hidden_size = t.width;
  s.vocab_size = t.vocab;
  s.draft_vocab_size = t.vocab * 3 / 5;
  s.context_length = t.context;
  return s;
}

// random_checkpoint() for this target, with a draft vocabulary of the ids 0..Vd-1 when the target speaks few words.
inline Checkpoint draft_for(const TinyTarget& t, uint64_t seed) {
  DraftShape shape = shape_for(t);
  if (t.words > 0) shape.draft_vocab_size = t.words;
  Checkpoint c = random_checkpoint(shape, seed);
  c.target_layer_count = t.layers;
  c.boundaries = {2, t.layers / 2, t.layers - 3};
  if (t.words > 0) {
    const std::vector<int64_t> zeros(static_cast<size_t>(t.words), 0);
    c.tensors.back() = tensor_i64("d2t", {t.words}, zeros);
  }
  return c;
}

}  // namespace aerie::test
