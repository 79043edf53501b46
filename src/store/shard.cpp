#include "store/shard.h"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "store/checksum.h"
#include "tensor/safetensors.h"

namespace aerie {
namespace {

constexpr const char* kFormat = "store shard 1";
constexpr uint64_t kFirstRead = 64 * 1024;  // holds most headers

std::string tensor_name(uint64_t ordinal, std::string_view role) {
  return std::to_string(ordinal) + "/" + std::string(role);
}

TensorView described(std::string name, DType dtype, Shape shape) { return {std::move(name), dtype, std::move(shape), {}}; }

// [[ordinal, id, T, supervised, hash], ...]
std::string samples_json(const std::vector<Record>& records) {
  std::string json = "[";
  for (const auto& record : records) {
    const RecordBlock& block = record.block;
    if (json.size() > 1) json += ',';
    json += '[' + std::to_string(block.ordinal) + ',' + json_string(block.id) + ',' + std::to_string(block.token_count) +
            ',' + std::to_string(block.supervised_count) + ",\"" + block.id_hash.hex() + "\"]";
  }
  return json + "]";
}

Result<std::vector<ShardEntry>> entries_of(const std::string& json) {
  std::vector<ShardEntry> entries;
  try {
    for (const auto& row : nlohmann::json::parse(json)) {
      ShardEntry entry;
      entry.ordinal = row.at(0).get<uint64_t>();
      entry.id = row.at(1).get<std::string>();
      entry.token_count = row.at(2).get<uint32_t>();
      entry.supervised_count = row.at(3).get<uint32_t>();
      entry.hash_hex = row.at(4).get<std::string>();
      entries.push_back(std::move(entry));
    }
  } catch (const std::exception& e) {
    return corrupt(std::string("the list of samples cannot be read: ") + e.what());
  }
  return entries;
}

Status check_metadata(const Metadata& metadata, const ShardFacts& facts) {
  const auto expect = [&](const char* key, const std::string& wanted) -> Status {
    const auto found = metadata.find(key);
    if (found == metadata.end()) return corrupt(std::string("the header lacks \"") + key + "\": no shard of a store");
    if (found->second != wanted) {
      return invalid(std::string("its ") + key + " is \"" + found->second + "\", the store's is \"" + wanted +
                     "\": it belongs to another store; move it there");
    }
    return ok_status();
  };
  CHECKED(expect("aerie", kFormat));
  CHECKED(expect("store", facts.store_uuid));
  return expect("fingerprint", facts.fingerprint);
}

// Finds each sample's tensors, which stand in file order, six a sample.
Status place_entries(std::vector<ShardEntry>& entries, const SafetensorsHeader& header, const RecordShape& shape) {
  if (header.tensors.size() != entries.size() * (kRecordTensors + 1)) {
    return corrupt(std::to_string(entries.size()) + " samples but " + std::to_string(header.tensors.size()) + " tensors");
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    ShardEntry& entry = entries[i];
    const size_t first = i * (kRecordTensors + 1);
    const TensorView& rec = header.tensors[first];
    entry.offset = header.offsets[first];
    entry.block_bytes = header.offsets[first + 1] - entry.offset;
    if (rec.name != tensor_name(entry.ordinal, "rec") || rec.dtype != DType::kU8 || entry.offset % kPageBytes != 0 ||
        entry.block_bytes == 0 || entry.block_bytes % kPageBytes != 0) {
      return corrupt("sample " + entry.id + ": its record does not stand where it should");
    }
    const auto expected = record_tensors(shape, entry.token_count, entry.block_bytes);
    for (size_t k = 0; k < expected.size(); ++k) {
      const TensorView& found = header.tensors[first + 1 + k];
      if (found.name != tensor_name(entry.ordinal, expected[k].role) || found.dtype != expected[k].dtype ||
          found.shape != expected[k].shape || header.offsets[first + 1 + k] != entry.offset + expected[k].offset) {
        return corrupt("sample " + entry.id + ": tensor " + found.name + " " + shape_text(found.shape) +
                       " is not what the store's header says");
      }
    }
    entry.record_bytes = expected.back().offset + expected.back().bytes;
  }
  return ok_status();
}

Result<ShardIndex> index_of(ReadableFile& file, const ShardFacts& facts) {
  const uint64_t file_bytes = file.size_bytes();
  std::vector<std::byte> head(std::min(file_bytes, kFirstRead));
  CHECKED(file.read_at(0, head));
  if (head.size() >= 8) {
    uint64_t length = 0;
    std::memcpy(&length, head.data(), 8);
    // An absurd length is for the parser to name; only one that can be is worth reading.
    if (length <= 100'000'000 && length <= file_bytes - 8 && 8 + length > head.size()) {
      head.resize(8 + length);
      CHECKED(file.read_at(0, head));
    }
  }
  TRY(const SafetensorsHeader header, parse_safetensors_header(head, file_bytes));
  CHECKED(check_metadata(header.metadata, facts));
  const auto samples = header.metadata.find("samples");
  if (samples == header.metadata.end()) return corrupt("the header lacks \"samples\"");
  ShardIndex index;
  index.header_bytes = header.header_bytes;
  TRY(index.entries, entries_of(samples->second));
  CHECKED(place_entries(index.entries, header, facts.shape));
  return index;
}

Status write_unfinished(FileSystem& fs, const std::string& path, const std::string& head, std::vector<Record>& records) {
  TRY(auto file, fs.create(path, Create::kNew));
  const std::string unsealed = std::string(8, '\0') + head.substr(8);
  CHECKED(file->write(as_bytes(unsealed)));
  for (auto& record : records) CHECKED(file->write(record.bytes));
  CHECKED(file->sync());
  CHECKED(file->write_at(0, as_bytes(head).first(8)));
  CHECKED(file->sync());
  return file->close();
}

Status verify_record(ReadableFile& file, const ShardEntry& entry, uint32_t header_crc, const RecordShape& shape) {
  TRY(const RecordBlock block, read_block(file, entry));
  if (block.header_crc != header_crc) return corrupt("the shard's header is not the one that was written");
  TRY(const Sample tokens, read_record(file, entry, block, shape, false));
  return ok_status();
}

}  // namespace

std::string hex_of(const WriterId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : id) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

Result<std::string> lay_out_shard(const ShardFacts& facts, const WriterId& writer, std::vector<Record>& records) {
  std::vector<TensorView> tensors;
  for (const auto& record : records) {
    const RecordBlock& block = record.block;
    tensors.push_back(
        described(tensor_name(block.ordinal, "rec"), DType::kU8, {static_cast<int64_t>(block.block_bytes)}));
    for (const auto& tensor : block.tensors) {
      tensors.push_back(described(tensor_name(block.ordinal, tensor.role), tensor.dtype, tensor.shape));
    }
  }
  const Metadata metadata{{"aerie", kFormat},      {"store", facts.store_uuid},  {"fingerprint", facts.fingerprint},
                          {"writer", hex_of(writer)}, {"unit", "0"}, {"attempt", "0"}, {"samples", samples_json(records)}};
  TRY(std::string head, safetensors_header(tensors, metadata, kPageBytes));
  const uint32_t header_crc = crc32c(as_bytes(head));
  uint64_t offset = head.size();
  for (auto& record : records) {
    record.block.writer = writer;
    record.block.file_offset = offset;
    record.block.header_crc = header_crc;
    seal_record(record);
    offset += record.block.record_bytes;
  }
  return head;
}

Status publish_shard(FileSystem& fs, const std::string& folder, const std::string& name, const std::string& head,
                     std::vector<Record>& records) {
  const std::string temporary = folder + "/" + name + ".part";
  Status status = write_unfinished(fs, temporary, head, records);
  if (status) status = fs.link(temporary, folder + "/" + name + ".safetensors");
  if (status) status = fs.sync_folder(folder);
  // Whether this works decides nothing: the name stands already, or the first failure is the one to report. The next
  // writer removes what stays.
  (void)fs.remove(temporary);
  return status;
}

Result<ShardIndex> read_shard_index(FileSystem& fs, const std::string& path, const ShardFacts& facts) {
  const auto read = [&]() -> Result<ShardIndex> {
    TRY(auto file, fs.open(path));
    return index_of(*file, facts);
  };
  auto index = read();
  if (!index) return std::move(index).error().under("shard " + path);
  return index;
}

Result<RecordBlock> read_block(ReadableFile& file, const ShardEntry& entry) {
  std::vector<std::byte> bytes(entry.block_bytes);
  CHECKED(file.read_at(entry.offset, bytes));
  TRY(RecordBlock block, decode_block(bytes));
  if (block.file_offset != entry.offset || block.ordinal != entry.ordinal || block.id != entry.id ||
      block.record_bytes != entry.record_bytes || block.token_count != entry.token_count ||
      block.supervised_count != entry.supervised_count || block.id_hash.hex() != entry.hash_hex) {
    return corrupt("its record block (offset " + std::to_string(block.file_offset) + ", id " + block.id +
                   ") is not the one that the shard's header names");
  }
  return block;
}

Result<Sample> read_record(ReadableFile& file, const ShardEntry& entry, const RecordBlock& block, const RecordShape& shape,
                           bool with_states) {
  TRY(RecordDecoder decoder, RecordDecoder::open(shape, block, with_states));
  const uint64_t payload = entry.record_bytes - entry.block_bytes;
  // Small enough to stay in the cache between reading, checking and converting.
  std::vector<std::byte> chunk(std::min(payload, kChunkBytes));
  for (uint64_t at = 0; at < payload; at += kChunkBytes) {
    const auto bytes = std::span(chunk).first(std::min(kChunkBytes, payload - at));
    CHECKED(file.read_at(entry.offset + entry.block_bytes + at, bytes));
    CHECKED(decoder.take(bytes));
  }
  return decoder.finish();
}

Status verify_shard(FileSystem& fs, const std::string& path, const ShardFacts& facts) {
  const auto verify = [&]() -> Status {
    TRY(auto file, fs.open(path));
    TRY(const ShardIndex index, index_of(*file, facts));
    std::vector<std::byte> head(index.header_bytes);
    CHECKED(file->read_at(0, head));
    const uint32_t header_crc = crc32c(head);
    for (const auto& entry : index.entries) {
      Status status = verify_record(*file, entry, header_crc, facts.shape);
      if (!status) return std::move(status).error().under("sample " + entry.id);
    }
    return ok_status();
  };
  Status status = verify();
  if (!status) return std::move(status).error().under("shard " + path);
  return status;
}

Result<std::vector<std::string>> shard_names(FileSystem& fs, const std::string& store_path) {
  TRY(std::vector<std::string> names, fs.list(store_path + "/shards"));
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace aerie
