// Digests. SHA-256 (OpenSSL) names things: models, configs, fingerprints. XXH3-128 (xxHash) finds damage in bulk data.
//
// Plain functions and values; one thread an object. SHA-256 of a file fails as reading does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"

namespace aerie {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(as_bytes(text)); }
  std::string hex();  // ends it; 64 lowercase digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  std::string hex() const;
};
Hash128 xxh3_128(std::span<const std::byte> bytes);

}  // namespace aerie
