// Private to the store room: CRC32C (Castagnoli, as in iSCSI), by ISA-L.
//
// Pure functions, safe from any thread, nothing fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace aerie {

uint32_t crc32c(std::span<const std::byte> bytes);
// One for each `chunk_bytes` of the bytes; the last chunk may be short.
std::vector<uint32_t> crc32c_chunks(std::span<const std::byte> bytes, size_t chunk_bytes);

}  // namespace aerie
