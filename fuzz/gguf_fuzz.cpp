// Feeds any bytes to the GGUF parser; every tensor it accepts must lie inside the input and be as long as its type says.
#include <cstdlib>

#include "tensor/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  auto file = aerie::GgufFile::parse(bytes, "input");
  if (!file.ok()) return 0;
  for (const auto& tensor : file->tensors()) {
    const auto expected = aerie::ggml_bytes(tensor.type, tensor.ne);
    if (!expected.ok() || *expected != tensor.bytes.size()) std::abort();
    if (tensor.bytes.empty()) continue;
    if (tensor.bytes.data() < bytes.data() || tensor.bytes.data() + tensor.bytes.size() > bytes.data() + size) std::abort();
  }
  for (const auto& [key, value] : file->metadata()) {
    if (file->find(key) != &value) std::abort();
    (void)file->text(key).ok();
    (void)file->integer(key).ok();
    (void)file->number(key).ok();
  }
  return 0;
}
