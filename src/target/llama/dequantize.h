// Quantised weights as floats, by ggml's own routines, and whole models written with other weight types.
//
// Plain functions; one thread a call; memory is that of the written file.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/gguf.h"

namespace aerie {

// All elements of the tensor, in storage order; kInvalid for a type that ggml cannot turn into floats.
Result<std::vector<float>> floats_of(const GgufTensor& tensor);

// The model at `from` with every quantised or float matrix as `type` (kF32 or kF16) and every vector (and what llama.cpp
// wants so) as F32; metadata is kept, general.file_type fixed. The weights are those of the quantised model: nothing is
// regained. Written atomically.
Status write_dequantized_gguf(FileSystem& fs, const std::string& from, const std::string& to, GgmlType type);

// The path of such a copy in `folder`, made when it is not there yet; its name carries type ("F16" or "F32") and
// fingerprint of the model, so that a copy is never taken for another model's.
Result<std::string> unpacked_copy(FileSystem& fs, const std::string& model, const std::string& type,
                                  const std::string& folder);

}  // namespace aerie
