// Quantised weights as floats, by ggml's own routines, and whole models written with other weight types.
//
// Plain functions; one thread a call; memory is that of the written file.
#pragma once

#include <vector>

#include "base/file.h"
#include "tensor/gguf.h"

namespace aerie {

// All elements of the tensor, in storage order; kInvalid for a type that ggml cannot turn into floats.
Result<std::vector<float>> floats_of(const GgufTensor& tensor);

// The model at `from` with every quantised or float matrix as `type` (kF32 or kF16) and every vector (and what llama.cpp
// wants so) as F32; metadata is kept, general.file_type fixed. The weights are those of the quantised model: nothing is regained. Written atomically.
Status write_dequantized_gguf(FileSystem& fs, const std::string& from, const std::string& to, GgmlType type);

}  // namespace aerie
