// Any bytes as the only shard of a store: opening, reading and verifying it ends, stays inside the file, and either gives
// samples or says kCorrupt or kInvalid. Tried twice: as it is, and with the sums of its record blocks mended, because
// else no changed block would ever come beyond its checksum.
//
// Seeds were written by StoreWriter into a store with the store.json below, then cut or changed.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "memory_files.h"
#include "store/checksum.h"
#include "store/store.h"

namespace {

using namespace aerie;

constexpr std::string_view kDescription =
    R"({"format":"aerie-store","version":1,"uuid":"00112233445566778899aabbccddeeff","target_fingerprint":"f",)"
    R"("target_name":"tiny","architecture":"llama","engine":"fake","weight_type":"F32","layer_count":4,"hidden_size":4,)"
    R"("vocab_size":100,"boundaries":[0,2],"last_is_prenorm":true,"dtype":"BF16","probe":null,"facts":null})";

class OneShard : public MemoryFiles {
 public:
  using MemoryFiles::MemoryFiles;
  std::span<const std::byte> content(const std::string& path) override {
    return path == "s/store.json" ? as_bytes(kDescription) : MemoryFiles::content(path);
  }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>{"s000001-00000000.safetensors"};
  }
};

void expect_damage(const Error& error) {
  if ((error.code != Code::kCorrupt && error.code != Code::kInvalid) || error.what.empty()) std::abort();
}

enum class Blocks { kAsTheyAre, kMended };

void check(std::span<const std::byte> shard, Blocks blocks) {
  OneShard fs(shard);
  const auto store = StoreReader::open(fs, "s");
  if (!store) return expect_damage(store.error());
  const Status verified = (*store)->verify();
  if (!verified) expect_damage(verified.error());
  for (size_t i = 0; i < (*store)->samples().size(); ++i) {
    const auto whole = (*store)->read(i), tokens = (*store)->read_tokens(i);
    if (!whole) expect_damage(whole.error());
    if (!tokens) expect_damage(tokens.error());
    if (verified && !whole) std::abort();
    // A mended block may hold wrong sums of single tensors, which only who reads these alone looks at.
    if (verified && !tokens && blocks == Blocks::kAsTheyAre) std::abort();
    if (whole && tokens && (whole->input_ids != tokens->input_ids || whole->loss_mask != tokens->loss_mask)) std::abort();
    if (whole && (whole->last.size() != whole->input_ids.size() * 4 || whole->aux.size() != 2 * whole->last.size()))
      std::abort();
  }
}

// Every block (docs/store.md) gets the checksum of what it holds.
std::vector<std::byte> mended(std::span<const std::byte> shard) {
  constexpr size_t kPage = 4096;
  std::vector<std::byte> bytes(shard.begin(), shard.end());
  for (size_t at = 0; at + kPage <= bytes.size(); at += kPage) {
    if (std::memcmp(bytes.data() + at, "AERIEREC", 8) != 0) continue;
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at + 12, sizeof length);
    if (length < kPage || length % kPage != 0 || length > bytes.size() - at) continue;
    const uint32_t crc = crc32c(std::span(bytes).subspan(at, length - sizeof crc));
    std::memcpy(bytes.data() + at + length - sizeof crc, &crc, sizeof crc);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes, Blocks::kAsTheyAre);
  check(mended(bytes), Blocks::kMended);
  return 0;
}
