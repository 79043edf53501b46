// For fuzzers only: an input as files. Reading works, everything else is refused.
#pragma once

#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "base/file.h"

namespace aerie {

class MemoryFile : public ReadableFile {
 public:
  MemoryFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}
  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return bytes_.size(); }
  Status read_at(uint64_t offset, std::span<std::byte> into) override {
    if (offset > bytes_.size() || into.size() > bytes_.size() - offset) std::abort();  // reads beyond the end are our fault
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return ok_status();
  }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

// The same bytes under every name; a fuzzer that needs more than one file overrides content() and list().
class MemoryFiles : public FileSystem {
 public:
  explicit MemoryFiles(std::span<const std::byte> bytes) : bytes_(bytes) {}
  virtual std::span<const std::byte> content(const std::string&) { return bytes_; }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return std::unique_ptr<ReadableFile>(std::make_unique<MemoryFile>(path, content(path)));
  }
  Result<FileInfo> info(const std::string& path) override { return FileInfo{content(path).size(), false, 0}; }
  Result<std::vector<std::string>> list(const std::string&) override { return internal("no folders"); }
  Result<std::unique_ptr<WritableFile>> create(const std::string&, Create) override { return internal("read-only"); }
  Status make_folders(const std::string&) override { return internal("read-only"); }
  Status link(const std::string&, const std::string&) override { return internal("read-only"); }
  Status rename(const std::string&, const std::string&) override { return internal("read-only"); }
  Status remove(const std::string&) override { return internal("read-only"); }
  Status sync_folder(const std::string&) override { return internal("read-only"); }
  Result<SpaceInfo> space(const std::string&) override { return internal("no disk"); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace aerie
