// safetensors files in and out, by the exact rules of the reference implementation (huggingface/safetensors 0.8):
// u64 header length <= 100,000,000; JSON object; no holes, no overlaps, no trailing bytes; sizes that match shapes.
//
// A SafetensorsFile maps the file read-only; views live as long as it does. Reading is safe from several threads.
// A file that breaks a rule is kCorrupt with the rule and the tensor in the sentence; nothing is guessed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace aerie {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<TensorView> tensors;  // in order of offset; bytes are empty spans, offsets stand beside
  std::vector<uint64_t> offsets;    // of each tensor's first byte from the start of the file
  uint64_t header_bytes = 0;        // 8 + N
};

// Parses and checks a header: `head` are the first bytes of the file (8 + N at least), `file_bytes` its whole length.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head, uint64_t file_bytes);

// The 8 + N bytes in front of the tensors' bytes, laid out in the given order; N is padded with spaces so that 8 + N is a
// multiple of `align`.
Result<std::string> safetensors_header(const std::vector<TensorView>& tensors, const Metadata& metadata, size_t align = 8);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  const std::vector<TensorView>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // kNotFound names the tensor and the file.
  Result<TensorView> find(std::string_view name) const;
  const std::string& path() const { return file_.path(); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header) : file_(std::move(file)), header_(std::move(header)) {}
  MappedFile file_;
  SafetensorsHeader header_;
};

// Writes a whole file atomically (temporary name, sync, rename, folder sync).
Status write_safetensors(FileSystem& fs, const std::string& path, const std::vector<TensorView>& tensors,
                         const Metadata& metadata);

}  // namespace aerie
