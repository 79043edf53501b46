// Feeds any bytes to the safetensors parser; what it accepts must come back the same after writing.
#include <cstdlib>

#include "tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  auto header = aerie::parse_safetensors_header(bytes, size);
  if (!header.ok()) return 0;
  auto head = aerie::safetensors_header(header->tensors, header->metadata);
  if (!head.ok()) std::abort();
  const uint64_t data_bytes = size - header->header_bytes;
  auto again = aerie::parse_safetensors_header(aerie::as_bytes(*head), head->size() + data_bytes);
  if (!again.ok() || again->metadata != header->metadata || again->tensors.size() != header->tensors.size()) std::abort();
  for (size_t i = 0; i < again->tensors.size(); ++i) {
    const auto& a = again->tensors[i];
    const auto& b = header->tensors[i];
    if (a.name != b.name || a.dtype != b.dtype || a.shape != b.shape) std::abort();
  }
  return 0;
}
