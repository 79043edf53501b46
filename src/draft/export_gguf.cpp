// GGUF of architecture eagle3, as llama.cpp's loader wants it (its src/models/eagle3.cpp).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "draft/export.h"
#include "draft/layout.h"
#include "tensor/gguf.h"

namespace aerie {
namespace {

using MetadataList = std::vector<std::pair<std::string, GgufValue>>;

Status refuse_what_llama_cannot(const Checkpoint& checkpoint) {
  const DraftShape& shape = checkpoint.shape;
  const auto refuse = [](std::string_view what) {
    return invalid(
        fmt::format("this draft cannot become a GGUF: llama.cpp's eagle3 has no {}; export it as hf, or train "
                    "without it",
                    what));
  };
  if (shape.fc_norm) return refuse("norm of each boundary in front of fc (fc_norm)");
  if (shape.norm_output) return refuse("feeding back of normed states (norm_output)");
  if (!shape.normed_logits) return refuse("head that reads un-normed states (normed_logits = false)");
  if (checkpoint.boundaries.size() != 3) {
    return invalid(fmt::format("llama.cpp's eagle3 takes exactly three boundaries, not [{}]",
                               fmt::join(checkpoint.boundaries, ", ")));
  }
  if (checkpoint.boundaries.back() >= checkpoint.target_layer_count) {
    return invalid(
        fmt::format("boundary {} is the target's last output, which llama.cpp cannot capture for an EAGLE-3 draft; "
                    "train with boundaries below {}",
                    checkpoint.boundaries.back(), checkpoint.target_layer_count));
  }
  return ok_status();
}

// The target's file must be the target that the draft was trained for, as far as its metadata can tell.
Status check_target_file(const Checkpoint& checkpoint, const GgufFile& target, const std::string& path) {
  TRY(const std::string architecture, target.text("general.architecture"));
  TRY(const int64_t layers, target.integer(architecture + ".block_count"));
  TRY(const int64_t width, target.integer(architecture + ".embedding_length"));
  const GgufValue* tokens = target.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || !tokens->array()) return invalid(fmt::format("{} holds no tokenizer to copy", path));
  const auto vocab = static_cast<int64_t>(tokens->values.size());
  if (layers != checkpoint.target_layer_count || width != checkpoint.shape.target_hidden_size ||
      vocab != checkpoint.shape.vocab_size) {
    return invalid(fmt::format("the draft was trained for {}, but {} has {} layers, width {} and {} tokens",
                               layout::target_text(checkpoint), path, layers, width, vocab));
  }
  return ok_status();
}

MetadataList draft_metadata(const Checkpoint& checkpoint, WeightType type) {
  const DraftShape& s = checkpoint.shape;
  const auto u32 = [](int value) { return gguf_u32(static_cast<uint32_t>(value)); };
  const auto f32 = [](double value) { return gguf_f32(static_cast<float>(value)); };
  // llama.cpp's file types: 0 all F32, 1 mostly F16, 7 mostly Q8_0, 32 mostly BF16.
  const uint32_t file_type = type == WeightType::kF32   ? 0
                             : type == WeightType::kF16 ? 1
                             : type == WeightType::kQ8  ? 7
                                                        : 32;
  return {
      {"general.architecture", gguf_text("eagle3")},
      {"general.type", gguf_text("model")},
      {"general.name", gguf_text(fmt::format("EAGLE-3 draft for {}", checkpoint.target_name))},
      {"general.file_type", gguf_u32(file_type)},
      {"general.quantization_version", gguf_u32(2)},
      {"eagle3.block_count", gguf_u32(1)},
      {"eagle3.context_length", u32(s.context_length)},
      {"eagle3.embedding_length", u32(s.hidden_size)},
      {"eagle3.feed_forward_length", u32(s.intermediate_size)},
      {"eagle3.attention.head_count", u32(s.head_count)},
      {"eagle3.attention.head_count_kv", u32(s.kv_head_count)},
      {"eagle3.attention.key_length", u32(s.head_size)},
      {"eagle3.attention.value_length", u32(s.head_size)},
      {"eagle3.attention.layer_norm_rms_epsilon", f32(s.rms_norm_eps)},
      {"eagle3.rope.dimension_count", u32(s.head_size)},
      {"eagle3.rope.freq_base", f32(s.rope_theta)},
      {"eagle3.vocab_size", u32(s.vocab_size)},
      {"eagle3.target_layers", gguf_i32_array({checkpoint.boundaries.begin(), checkpoint.boundaries.end()})},
      {"eagle3.target_hidden_size", u32(s.target_hidden_size)},
      {"eagle3.norm_before_residual", gguf_bool(s.norm_before_residual)},
      {"eagle3.norm_before_fc", gguf_bool(s.norm_before_fc)},
      {"aerie.version", gguf_text(AERIE_VERSION)},
      {"aerie.target_fingerprint", gguf_text(checkpoint.target_fingerprint)},
      {"aerie.target_name", gguf_text(checkpoint.target_name)},
      {"aerie.target_layer_count", u32(checkpoint.target_layer_count)},
      {"aerie.boundaries", gguf_i32_array({checkpoint.boundaries.begin(), checkpoint.boundaries.end()})},
      {"aerie.layer_outputs", gguf_i32_array([&] {
         const std::vector<int> ids = output_layer_ids(checkpoint.boundaries);
         return std::vector<int32_t>(ids.begin(), ids.end());
       }())},
      {"aerie.ttt_steps", u32(checkpoint.ttt_steps)},
      {"aerie.step", gguf_u32(static_cast<uint32_t>(checkpoint.step))},
  };
}

// Bytes live in `held`, views in `tensors`.
struct Packed {
  std::vector<std::vector<std::byte>> held;
  std::vector<GgufTensor> tensors;

  void add(std::string name, uint32_t type, const Shape& shape, std::vector<std::byte> bytes) {
    held.push_back(std::move(bytes));
    tensors.push_back({std::move(name), type, {shape.rbegin(), shape.rend()}, held.back()});
  }
};

Status pack_weight(const Tensor& tensor, const DraftShape& shape, WeightType type, Packed& packed) {
  TRY(std::vector<float> values, to_floats(tensor.view()));
  const int64_t columns = tensor.shape.back();
  if (layout::rows_are_permuted(tensor.name)) values = to_interleaved_rows(values, columns, shape.head_size);
  const WeightType stored = layout::is_norm(tensor.shape) ? WeightType::kF32 : type;
  TRY(auto bytes, layout::encode(values, stored, columns, tensor.name));
  packed.add(layout::gguf_name(tensor.name), layout::ggml_number(stored), tensor.shape, std::move(bytes));
  return ok_status();
}

Status pack_map(const Tensor& tensor, Packed& packed) {
  TRY(std::vector<int64_t> ids, to_int64(tensor.view()));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] += static_cast<int64_t>(i);  // GGUF holds target ids, not offsets
  const Tensor absolute = tensor_i64("d2t", tensor.shape, ids);
  packed.add("d2t", static_cast<uint32_t>(GgmlType::kI64), tensor.shape, absolute.bytes);
  return ok_status();
}

}  // namespace

Result<ExportReport> export_gguf(FileSystem& fs, const Checkpoint& checkpoint, const std::string& target_gguf,
                                 const std::string& path, const ExportOptions& options,
                                 std::span<const float> embeddings) {
  TRY(const bool there, fs.exists(path));
  if (there && !options.overwrite) {
    return exists(fmt::format("{} is there already; export under another name, or ask for overwriting", path));
  }
  CHECKED(layout::check_whole(checkpoint, "export to " + path));
  CHECKED(refuse_what_llama_cannot(checkpoint));
  TRY(const GgufFile target, GgufFile::open(target_gguf));
  CHECKED(check_target_file(checkpoint, target, target_gguf));

  MetadataList metadata = draft_metadata(checkpoint, options.type);
  for (const auto& [key, value] : target.metadata()) {
    if (key.starts_with("tokenizer.")) metadata.emplace_back(key, value);
  }
  Packed packed;
  packed.held.reserve(checkpoint.tensors.size() + 1);  // views into it must not move
  for (const Tensor& tensor : checkpoint.tensors) {
    CHECKED(tensor.name == "d2t" ? pack_map(tensor, packed)
                                 : pack_weight(tensor, checkpoint.shape, options.type, packed));
  }
  if (!embeddings.empty()) {
    const Shape table{checkpoint.shape.vocab_size, checkpoint.shape.target_hidden_size};
    TRY(const int64_t count, count_of(table));
    if (static_cast<int64_t>(embeddings.size()) != count) {
      return invalid(
          fmt::format("the embedding table has {} numbers and must be {}", embeddings.size(), shape_text(table)));
    }
    TRY(auto bytes, layout::encode(embeddings, options.type, table.back(), "token_embd.weight"));
    packed.add("token_embd.weight", layout::ggml_number(options.type), table, std::move(bytes));
  }

  CHECKED(fs.make_folders(folder_of(path)));
  CHECKED(write_gguf(fs, path, metadata, packed.tensors));
  ExportReport report;
  report.path = path;
  report.layer_ids = checkpoint.boundaries;
  for (const GgufTensor& tensor : packed.tensors) report.names.push_back(tensor.name);
  TRY(const FileInfo info, fs.info(path));
  report.size_bytes = info.size_bytes;
  return report;
}

}  // namespace aerie
