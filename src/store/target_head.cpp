#include <algorithm>

#include "store/store.h"
#include "tensor/safetensors.h"

namespace aerie {
namespace {

std::string path_in(const std::string& store_path) { return store_path + "/target_head.safetensors"; }

TensorView named(TensorView view, const char* name) {
  view.name = name;
  return view;
}

Status check_shapes(const Shape& norm, const Shape& lm_head, const Shape* embeddings) {
  const auto refuse = [&](const char* what, const Shape& shape) {
    return invalid(std::string("target head: ") + what + " has shape " + shape_text(shape) + ", norm " + shape_text(norm) +
                   ", lm_head " + shape_text(lm_head));
  };
  if (norm.size() != 1) return refuse("norm", norm);
  if (lm_head.size() != 2 || lm_head[1] != norm[0]) return refuse("lm_head", lm_head);
  if (embeddings && *embeddings != lm_head) return refuse("embeddings", *embeddings);
  return ok_status();
}

Result<std::vector<float>> floats_at(ReadableFile& file, const SafetensorsHeader& header, size_t i) {
  TensorView view = header.tensors[i];
  const uint64_t end = i + 1 < header.offsets.size() ? header.offsets[i + 1] : file.size_bytes();
  std::vector<std::byte> bytes;
  if (view.dtype == DType::kF32) {  // straight into the floats: these tensors are large
    std::vector<float> values((end - header.offsets[i]) / sizeof(float));
    CHECKED(file.read_at(header.offsets[i], std::as_writable_bytes(std::span(values))));
    return values;
  }
  bytes.resize(end - header.offsets[i]);
  CHECKED(file.read_at(header.offsets[i], bytes));
  view.bytes = bytes;
  return to_floats(view);
}

Result<SafetensorsHeader> header_of(ReadableFile& file) {
  std::vector<std::byte> head(std::min<uint64_t>(file.size_bytes(), 64 * 1024));
  CHECKED(file.read_at(0, head));
  return parse_safetensors_header(head, file.size_bytes());
}

Result<StoredHead> head_of(ReadableFile& file) {
  TRY(const SafetensorsHeader header, header_of(file));
  StoredHead head;
  const Shape* norm = nullptr;
  const Shape* lm_head = nullptr;
  const Shape* embeddings = nullptr;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const auto& tensor = header.tensors[i];
    auto take = [&](std::vector<float>& into, const Shape*& shape) -> Status {
      shape = &tensor.shape;
      TRY(into, floats_at(file, header, i));
      return ok_status();
    };
    if (tensor.name == "norm") CHECKED(take(head.norm, norm));
    if (tensor.name == "lm_head") CHECKED(take(head.lm_head, lm_head));
    if (tensor.name == "embeddings") CHECKED(take(head.embeddings, embeddings));
  }
  if (!norm || !lm_head) return corrupt("norm or lm_head is missing");
  Status shapes = check_shapes(*norm, *lm_head, embeddings);
  if (!shapes) return corrupt(shapes.error().what);
  return head;
}

}  // namespace

Status write_target_head(FileSystem& fs, const std::string& store_path, const TensorView& norm, const TensorView& lm_head,
                         const TensorView& embeddings) {
  const bool tied = embeddings.bytes.empty();
  CHECKED(check_shapes(norm.shape, lm_head.shape, tied ? nullptr : &embeddings.shape));
  std::vector<TensorView> tensors{named(norm, "norm"), named(lm_head, "lm_head")};
  if (!tied) tensors.push_back(named(embeddings, "embeddings"));
  return write_safetensors(fs, path_in(store_path), tensors, {{"aerie", "target head 1"}});
}

Result<StoredHead> read_target_head(FileSystem& fs, const std::string& store_path) {
  const std::string path = path_in(store_path);
  TRY(auto file, fs.open(path));
  auto head = head_of(*file);
  if (!head) return std::move(head).error().under(path);
  return head;
}

}  // namespace aerie
