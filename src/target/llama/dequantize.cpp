#include "target/llama/dequantize.h"

#include <algorithm>
#include <string_view>

#include "base/log.h"
#include "ggml.h"
#include "target/llama/facts.h"

namespace aerie {
namespace {

int64_t elements_of(const GgufTensor& tensor) {
  int64_t count = 1;
  for (int64_t n : tensor.ne) count *= n;
  return count;
}

bool whole_number_type(uint32_t type) {
  return type == GGML_TYPE_I8 || type == GGML_TYPE_I16 || type == GGML_TYPE_I32 || type == GGML_TYPE_I64;
}

// What stays F32 whatever the matrices become: vectors, and the small matrices that llama.cpp's own quantiser leaves alone
// because some of its operations take no other type.
bool stays_f32(const GgufTensor& tensor) {
  if (tensor.ne.size() < 2 || !tensor.name.ends_with("weight")) return true;
  static constexpr std::string_view kKept[] = {"_norm.weight", "ffn_gate_inp", "ssm_conv1d", "shortconv.conv", "time_mix_", "attn_rel_b",
                                               "altup", "laurel", "per_layer_model_proj"};
  return std::any_of(std::begin(kKept), std::end(kKept), [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
}

// llama.cpp's numbers for general.file_type: 0 = all F32, 1 = mostly F16.
GgufValue file_type(GgmlType type) { return gguf_u32(type == GgmlType::kF32 ? 0 : 1); }

std::vector<std::byte> bytes_of(const std::vector<float>& values, bool half) {
  std::vector<std::byte> bytes(values.size() * (half ? sizeof(ggml_fp16_t) : sizeof(float)));
  if (half)
    ggml_fp32_to_fp16_row(values.data(), reinterpret_cast<ggml_fp16_t*>(bytes.data()), static_cast<int64_t>(values.size()));
  else
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), bytes.size(), bytes.data());
  return bytes;
}

}  // namespace

Result<std::vector<float>> floats_of(const GgufTensor& tensor) {
  const int64_t count = elements_of(tensor);
  std::vector<float> values(static_cast<size_t>(count));
  if (tensor.type == GGML_TYPE_F32) {
    std::copy_n(tensor.bytes.data(), values.size() * sizeof(float), reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
  const ggml_type_traits* traits = tensor.type < GGML_TYPE_COUNT ? ggml_get_type_traits(static_cast<ggml_type>(tensor.type)) : nullptr;
  if (traits == nullptr || traits->to_float == nullptr)
    return invalid("tensor " + tensor.name + " has type " + std::to_string(tensor.type) + ", which ggml cannot turn into floats");
  traits->to_float(tensor.bytes.data(), values.data(), count);
  return values;
}

Status write_dequantized_gguf(FileSystem& fs, const std::string& from, const std::string& to, GgmlType type) {
  if (type != GgmlType::kF32 && type != GgmlType::kF16) return invalid("weights can be written as F32 or F16 only");
  TRY(const GgufFile gguf, GgufFile::open(from));
  auto metadata = gguf.metadata();
  for (auto& [key, value] : metadata)
    if (key == "general.file_type") value = file_type(type);
  std::vector<std::vector<std::byte>> held;  // what the new tensors point at
  held.reserve(gguf.tensors().size());
  std::vector<GgufTensor> tensors;
  for (const GgufTensor& tensor : gguf.tensors()) {
    GgufTensor written = tensor;
    if (!whole_number_type(tensor.type)) {
      TRY(const std::vector<float> values, floats_of(tensor));
      const bool half = type == GgmlType::kF16 && !stays_f32(tensor);
      held.push_back(bytes_of(values, half));
      written.type = static_cast<uint32_t>(half ? GgmlType::kF16 : GgmlType::kF32);
      written.bytes = held.back();
    }
    tensors.push_back(std::move(written));
  }
  return write_gguf(fs, to, metadata, tensors);
}

Result<std::string> unpacked_copy(FileSystem& fs, const std::string& model, const std::string& type,
                                  const std::string& folder) {
  if (type != "F16" && type != "F32") return invalid("weights can be unpacked to F16 or F32 only, not to \"" + type + "\"");
  if (folder.empty()) return internal("no folder is named for a copy of " + model);
  TRY(const GgufFile gguf, GgufFile::open(model));
  TRY(const TargetFacts facts, llama::read_facts(gguf, model));
  std::string path = folder + "/target-" + type + "-" + facts.weights_fingerprint.substr(0, 8) + ".gguf";
  TRY(const bool there, fs.exists(path));
  if (there) return path;
  log_info("unpack", "writing the target's weights as " + type + " into " + path);
  CHECKED(write_dequantized_gguf(fs, model, path, type == "F32" ? GgmlType::kF32 : GgmlType::kF16));
  return path;
}

}  // namespace aerie
