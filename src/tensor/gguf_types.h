// Private to the tensor room: numbers that stand in GGUF files. Never change one; they are on disk.
#pragma once

#include <cstdint>

namespace aerie {

enum GgufType : uint32_t {
  kGgufU8 = 0, kGgufI8 = 1, kGgufU16 = 2, kGgufI16 = 3, kGgufU32 = 4, kGgufI32 = 5, kGgufF32 = 6, kGgufBool = 7,
  kGgufString = 8, kGgufArray = 9, kGgufU64 = 10, kGgufI64 = 11, kGgufF64 = 12,
};

// Bytes of one scalar on disk; 8 (the length alone) for a string, 0 for a number that names no scalar type.
constexpr uint64_t gguf_scalar_bytes(uint32_t type) {
  switch (type) {
    case kGgufU8: case kGgufI8: case kGgufBool: return 1;
    case kGgufU16: case kGgufI16: return 2;
    case kGgufU32: case kGgufI32: case kGgufF32: return 4;
    case kGgufString: case kGgufU64: case kGgufI64: case kGgufF64: return 8;
    default: return 0;
  }
}

constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kGgufDefaultAlignment = 32;
constexpr uint64_t kGgufMaxKeyBytes = 65535;
constexpr uint64_t kGgufMaxNameBytes = 63;  // ggml keeps 64 with the terminator
constexpr uint64_t kGgufMaxDimensions = 4;
constexpr uint64_t kGgufMaxValues = 8'388'608;

}  // namespace aerie
