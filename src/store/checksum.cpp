#include "store/checksum.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace aerie {

uint32_t crc32c(std::span<const std::byte> bytes) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // the library counts in int
  uint32_t crc = ~0u;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMostAtOnce));
    // The library's signature lacks a const; it only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

std::vector<uint32_t> crc32c_chunks(std::span<const std::byte> bytes, size_t chunk_bytes) {
  std::vector<uint32_t> sums;
  sums.reserve((bytes.size() + chunk_bytes - 1) / chunk_bytes);
  for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    sums.push_back(crc32c(bytes.subspan(at, std::min(chunk_bytes, bytes.size() - at))));
  }
  return sums;
}

}  // namespace aerie
