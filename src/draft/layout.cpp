#include "draft/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace aerie::layout {
namespace {

struct NamePair {
  std::string_view checkpoint;
  std::string_view gguf;
};

constexpr std::array kGgufNames = {
    NamePair{"fc.weight", "fc.weight"},
    NamePair{"midlayer.self_attn.q_proj.weight", "blk.0.attn_q.weight"},
    NamePair{"midlayer.self_attn.k_proj.weight", "blk.0.attn_k.weight"},
    NamePair{"midlayer.self_attn.v_proj.weight", "blk.0.attn_v.weight"},
    NamePair{"midlayer.self_attn.o_proj.weight", "blk.0.attn_output.weight"},
    NamePair{"midlayer.mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
    NamePair{"midlayer.mlp.up_proj.weight", "blk.0.ffn_up.weight"},
    NamePair{"midlayer.mlp.down_proj.weight", "blk.0.ffn_down.weight"},
    NamePair{"midlayer.input_layernorm.weight", "blk.0.attn_norm.weight"},
    NamePair{"midlayer.hidden_norm.weight", "blk.0.attn_norm_2.weight"},
    NamePair{"midlayer.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
    NamePair{"norm.weight", "output_norm.weight"},
    NamePair{"lm_head.weight", "output.weight"},
    NamePair{"input_norm.weight", "enc.output_norm.weight"},
    NamePair{"d2t", "d2t"},
};

constexpr std::string_view kOurLayer = "midlayer.";
constexpr std::string_view kTheirLayer = "layers.0.";
constexpr int64_t kQ8Block = 32;
constexpr size_t kQ8Bytes = 34;  // one F16 scale and 32 signed bytes

// Q8_0 as ggml defines it: scale = largest magnitude / 127, stored as F16; values rounded to nearest.
void encode_q8(std::span<const float> block, std::byte* into) {
  float largest = 0;
  for (float v : block) largest = std::max(largest, std::fabs(v));
  const float scale = largest / 127.0f;
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  const uint16_t bits = f16_of(scale);
  std::memcpy(into, &bits, sizeof bits);
  for (size_t i = 0; i < block.size(); ++i) {
    into[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::lround(block[i] * inverse)));
  }
}

}  // namespace

std::string hf_name(std::string_view checkpoint_name, Flavor flavor) {
  if (flavor == Flavor::kSglang || !checkpoint_name.starts_with(kOurLayer)) return std::string(checkpoint_name);
  return std::string(kTheirLayer) + std::string(checkpoint_name.substr(kOurLayer.size()));
}

std::string from_hf_name(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  if (!name.starts_with(kTheirLayer)) return std::string(name);
  return std::string(kOurLayer) + std::string(name.substr(kTheirLayer.size()));
}

std::string gguf_name(std::string_view checkpoint_name) {
  for (const NamePair& pair : kGgufNames) {
    if (pair.checkpoint == checkpoint_name) return std::string(pair.gguf);
  }
  return "";
}

bool rows_are_permuted(std::string_view checkpoint_name) {
  return checkpoint_name.ends_with("q_proj.weight") || checkpoint_name.ends_with("k_proj.weight");
}

bool is_norm(const Shape& shape) { return shape.size() == 1; }

uint32_t ggml_number(WeightType type) {
  switch (type) {
    case WeightType::kF32: return static_cast<uint32_t>(GgmlType::kF32);
    case WeightType::kF16: return static_cast<uint32_t>(GgmlType::kF16);
    case WeightType::kBF16: return static_cast<uint32_t>(GgmlType::kBF16);
    case WeightType::kQ8: return static_cast<uint32_t>(GgmlType::kQ8_0);
  }
  return 0;
}

std::string ggml_text(uint32_t type) {
  for (WeightType known : {WeightType::kF32, WeightType::kF16, WeightType::kBF16, WeightType::kQ8}) {
    if (ggml_number(known) == type) return std::string(name_of(known));
  }
  return fmt::format("type {}", type);
}

Result<std::vector<std::byte>> encode(std::span<const float> values, WeightType type, int64_t columns,
                                      std::string_view name) {
  std::vector<std::byte> bytes;
  if (type == WeightType::kF32) {
    bytes.resize(values.size_bytes());
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size_bytes());
    return bytes;
  }
  if (type == WeightType::kQ8) {
    if (columns % kQ8Block != 0) {
      return invalid(
          fmt::format("tensor '{}' has rows of {} numbers, which Q8_0 cannot hold (multiples of 32); export as F16",
                      name, columns));
    }
    bytes.resize(values.size() / kQ8Block * kQ8Bytes);
    for (size_t b = 0; b * kQ8Block < values.size(); ++b) {
      encode_q8(values.subspan(b * kQ8Block, kQ8Block), bytes.data() + b * kQ8Bytes);
    }
    return bytes;
  }
  bytes.resize(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = type == WeightType::kF16 ? f16_of(values[i]) : bf16_of(values[i]);
    if (type == WeightType::kF16 && std::isinf(float_of_f16(bits))) {
      return invalid(fmt::format("tensor '{}' holds {}, which F16 cannot; export as BF16", name, values[i]));
    }
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

Result<std::vector<float>> decode_gguf(const GgufTensor& tensor) {
  const auto plain = [&](DType dtype) { return to_floats(TensorView{tensor.name, dtype, tensor.ne, tensor.bytes}); };
  if (tensor.type == static_cast<uint32_t>(GgmlType::kF32)) return plain(DType::kF32);
  if (tensor.type == static_cast<uint32_t>(GgmlType::kF16)) return plain(DType::kF16);
  if (tensor.type == static_cast<uint32_t>(GgmlType::kBF16)) return plain(DType::kBF16);
  if (tensor.type != static_cast<uint32_t>(GgmlType::kQ8_0)) {
    return invalid(fmt::format("tensor '{}' has ggml type {}; Aerie reads drafts in F32, F16, BF16 and Q8_0",
                               tensor.name, tensor.type));
  }
  std::vector<float> values(tensor.bytes.size() / kQ8Bytes * kQ8Block);
  for (size_t b = 0; b * kQ8Block < values.size(); ++b) {
    const std::byte* from = tensor.bytes.data() + b * kQ8Bytes;
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    for (size_t i = 0; i < kQ8Block; ++i) {
      values[b * kQ8Block + i] = float_of_f16(bits) * static_cast<float>(static_cast<int8_t>(from[2 + i]));
    }
  }
  return values;
}

namespace {

Status check_boundaries(const Checkpoint& checkpoint, std::string_view where) {
  constexpr int kMostLayers = 1 << 16;  // readers turn what no int holds into more
  const std::vector<int>& b = checkpoint.boundaries;
  const bool ascending = std::is_sorted(b.begin(), b.end()) && std::adjacent_find(b.begin(), b.end()) == b.end();
  if (b.size() != 3 || !ascending || b.front() < 0 || b.back() > std::min(checkpoint.target_layer_count, kMostLayers)) {
    return invalid(
        fmt::format("{}: an EAGLE-3 draft needs three different boundaries in ascending order within 0..{}, not [{}]",
                    where, checkpoint.target_layer_count, fmt::join(b, ", ")));
  }
  return ok_status();
}

Status check_map(const Checkpoint& checkpoint, std::string_view where) {
  const Tensor* map = checkpoint.find("d2t");
  TRY(const std::vector<int64_t> offsets, to_int64(map->view()));
  std::unordered_set<int64_t> seen;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto id = static_cast<int64_t>(static_cast<uint64_t>(offsets[i]) + i);  // any bytes: wraps, does not overflow
    if (id < 0 || id >= checkpoint.shape.vocab_size) {
      return invalid(fmt::format("{}: d2t[{}] leads to token {}, outside the vocabulary of {}", where, i, id,
                                 checkpoint.shape.vocab_size));
    }
    if (!seen.insert(id).second) return invalid(fmt::format("{}: d2t leads to token {} twice", where, id));
  }
  return ok_status();
}

}  // namespace

Status check_whole(const Checkpoint& checkpoint, std::string_view where) {
  const auto expected = expected_tensors(checkpoint.shape);
  for (const auto& [name, shape] : expected) {
    const Tensor* tensor = checkpoint.find(name);
    if (tensor == nullptr) return invalid(fmt::format("{}: tensor '{}' is missing", where, name));
    if (tensor->shape != shape) {
      return invalid(fmt::format("{}: tensor '{}' is {} and must be {}", where, name, shape_text(tensor->shape),
                                 shape_text(shape)));
    }
    if (name == "d2t") continue;
    TRY(const std::vector<float> values, to_floats(tensor->view()));
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      return invalid(fmt::format("{}: tensor '{}' holds a value that is not finite", where, name));
    }
  }
  for (const Tensor& tensor : checkpoint.tensors) {
    const bool known =
        std::any_of(expected.begin(), expected.end(), [&](const auto& e) { return e.first == tensor.name; });
    if (!known)
      return invalid(fmt::format("{}: tensor '{}' belongs to no EAGLE-3 draft of this shape", where, tensor.name));
  }
  CHECKED(check_map(checkpoint, where));
  // A GGUF or a checkpoint may hold any bytes there; JSON, into which every export writes them, may not.
  if (!valid_utf8(checkpoint.target_name) || !valid_utf8(checkpoint.target_fingerprint))
    return invalid(fmt::format("{}: the name or fingerprint of its target is not UTF-8", where));
  return checkpoint.boundaries.empty() ? ok_status() : check_boundaries(checkpoint, where);
}

std::string target_text(const Checkpoint& checkpoint) {
  return fmt::format("target '{}' ({} layers, width {}, {} tokens)", checkpoint.target_name,
                     checkpoint.target_layer_count, checkpoint.shape.target_hidden_size, checkpoint.shape.vocab_size);
}

}  // namespace aerie::layout
