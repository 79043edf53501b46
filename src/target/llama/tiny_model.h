// For tests: a model small enough to be written by the test, in F32, with a byte tokenizer, so that results are exact and
// take milliseconds. Random weights; nothing it says means anything. Failures are the file system's.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "tensor/gguf.h"

namespace aerie::test {

struct TinyModel {
  std::string architecture = "llama";  // "qwen2" has no layer-input hooks; "gemma" scales its embeddings
  int layers = 8;
  int width = 64;
  int heads = 4;
  int kv_heads = 2;
  int inner = 96;
  int context = 512;
  bool add_bos = false;
  std::string chat_template = {};  // Jinja; empty = none
  uint64_t seed = 1;
};

constexpr int kTinyEnd = 256, kTinyStart = 257, kTinyVocab = 259;  // ids below 256 are bytes

// GPT-2's letters for bytes: printable ones stand for themselves, the others come from U+0100 on.
inline std::string letter_of_byte(int byte) {
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); };
  int point = byte;
  if (!printable(byte)) {
    point = 256;
    for (int b = 0; b < byte; ++b) point += printable(b) ? 0 : 1;
  }
  if (point < 128) return std::string(1, static_cast<char>(point));
  return {static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3f))};
}

inline GgufValue texts(const std::vector<std::string>& values) {
  GgufValue value;
  value.type = 9;
  value.element_type = 8;
  for (const std::string& text : values) value.values.emplace_back(text);
  return value;
}

inline std::vector<std::pair<std::string, GgufValue>> tiny_metadata(const TinyModel& m) {
  const auto u32 = [](int v) { return gguf_u32(static_cast<uint32_t>(v)); };
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(letter_of_byte(byte));
  std::vector<int32_t> types(256, 1);
  for (const char* special : {"<|end|>", "<|start|>"}) tokens.push_back(special), types.push_back(3);
  tokens.push_back("he"), types.push_back(1);
  const std::string a = m.architecture + ".";
  std::vector<std::pair<std::string, GgufValue>> metadata = {
      {"general.architecture", gguf_text(m.architecture)},
      {"general.name", gguf_text("tiny " + m.architecture)},
      {"general.file_type", gguf_u32(0)},
      {a + "block_count", u32(m.layers)},
      {a + "context_length", u32(m.context)},
      {a + "embedding_length", u32(m.width)},
      {a + "feed_forward_length", u32(m.inner)},
      {a + "attention.head_count", u32(m.heads)},
      {a + "attention.head_count_kv", u32(m.kv_heads)},
      {a + "attention.layer_norm_rms_epsilon", gguf_f32(1e-5f)},
      {a + "rope.freq_base", gguf_f32(10000.0f)},
      {"tokenizer.ggml.model", gguf_text("gpt2")},
      {"tokenizer.ggml.pre", gguf_text("gpt-2")},
      {"tokenizer.ggml.tokens", texts(tokens)},
      {"tokenizer.ggml.token_type", gguf_i32_array(types)},
      {"tokenizer.ggml.merges", texts({"h e"})},
      {"tokenizer.ggml.eos_token_id", u32(kTinyEnd)},
      {"tokenizer.ggml.bos_token_id", u32(kTinyStart)},
      {"tokenizer.ggml.add_bos_token", gguf_bool(m.add_bos)},
  };
  if (!m.chat_template.empty()) metadata.push_back({"tokenizer.chat_template", gguf_text(m.chat_template)});
  return metadata;
}

inline Status write_tiny_model(const std::string& path, const TinyModel& m) {
  Random random(m.seed);
  std::vector<std::vector<float>> held;
  std::vector<GgufTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> ne, double scale, double around) {
    int64_t count = 1;
    for (int64_t n : ne) count *= n;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(around + scale * random.normal());
    held.push_back(std::move(values));
    tensors.push_back({name, static_cast<uint32_t>(GgmlType::kF32), std::move(ne), std::as_bytes(std::span(held.back()))});
  };
  const auto matrix = [&](const std::string& name, int columns, int rows, double gain) {
    add(name, {columns, rows}, gain / std::sqrt(columns), 0);
  };
  const auto norm = [&](const std::string& name) { add(name, {m.width}, 0.3, 1.2); };
  held.reserve(4 + 9 * static_cast<size_t>(m.layers));
  const int kv = m.width / m.heads * m.kv_heads;
  matrix("token_embd.weight", m.width, kTinyVocab, 4.0);
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string b = "blk." + std::to_string(layer) + ".";
    norm(b + "attn_norm.weight");
    matrix(b + "attn_q.weight", m.width, m.width, 1.0);
    matrix(b + "attn_k.weight", m.width, kv, 1.0);
    matrix(b + "attn_v.weight", m.width, kv, 1.0);
    matrix(b + "attn_output.weight", m.width, m.width, 1.0);
    norm(b + "ffn_norm.weight");
    matrix(b + "ffn_gate.weight", m.width, m.inner, 1.0);
    matrix(b + "ffn_up.weight", m.width, m.inner, 1.0);
    matrix(b + "ffn_down.weight", m.inner, m.width, 1.0);
  }
  norm("output_norm.weight");
  if (m.architecture != "gemma") matrix("output.weight", m.width, kTinyVocab, 3.0);
  return write_gguf(real_file_system(), path, tiny_metadata(m), tensors);
}

}  // namespace aerie::test
