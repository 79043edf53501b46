// Private to the store room: store.json, which says what the samples of a store are.
//
// Plain functions. Fails as files do; a file that is no store.json is kCorrupt, another version kInvalid.
#pragma once

#include <string>

#include "base/file.h"
#include "store/shard.h"
#include "store/store.h"

namespace aerie {

struct Description {
  std::string uuid;
  StoreHeader header;
  ShardFacts facts() const;
};

Result<Description> read_description(FileSystem& fs, const std::string& store_path);
// Writes it atomically, under a new uuid.
Result<Description> create_description(FileSystem& fs, const std::string& store_path, const StoreHeader& header);
// kInvalid for sizes, boundaries or dtypes that cannot be.
Status check_header(const StoreHeader& header);
// kInvalid that names the first field that differs and both values.
Status check_same(const StoreHeader& stored, const StoreHeader& wanted);

// 16 random bytes of the system.
WriterId random_id();

}  // namespace aerie
