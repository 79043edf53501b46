#include "draft/export.h"

#include <algorithm>

#include <fmt/format.h>

#include "draft/layout.h"
#include "target/boundaries.h"
#include "target/target.h"

namespace aerie {

std::string_view name_of(Flavor flavor) {
  switch (flavor) {
    case Flavor::kSglang: return "sglang";
    case Flavor::kVllm: return "vllm";
    case Flavor::kSpeculators: return "speculators";
  }
  return "unknown";
}

Result<Flavor> flavor_named(std::string_view name) {
  for (Flavor flavor : {Flavor::kSglang, Flavor::kVllm, Flavor::kSpeculators}) {
    if (name_of(flavor) == name) return flavor;
  }
  return invalid(fmt::format("there is no export flavor '{}'; the flavors are sglang, vllm and speculators", name));
}

std::string_view name_of(WeightType type) {
  switch (type) {
    case WeightType::kF32: return "F32";
    case WeightType::kF16: return "F16";
    case WeightType::kBF16: return "BF16";
    case WeightType::kQ8: return "Q8_0";
  }
  return "unknown";
}

Result<WeightType> weight_type_named(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16, WeightType::kQ8}) {
    if (name_of(type) == upper) return type;
  }
  return invalid(fmt::format("there is no export type '{}'; the types are F32, F16, BF16 and, for GGUF, Q8_0", name));
}

std::vector<int> output_layer_ids(const std::vector<int>& boundaries) {
  std::vector<int> ids;
  for (int b : boundaries) ids.push_back(output_id_of_boundary(b));
  return ids;
}

bool boundaries_are_default(const std::vector<int>& boundaries, int layer_count) {
  const auto usual = default_boundaries(layer_count);
  return usual && boundaries == *usual;
}

namespace {

// Moves row `from(i, j)` of each head for every pair index i and half j.
template <class Place>
std::vector<float> reorder(std::span<const float> matrix, int64_t columns, int head_size, Place place) {
  std::vector<float> out(matrix.size());
  const int64_t rows = static_cast<int64_t>(matrix.size()) / columns;
  const int half = head_size / 2;
  for (int64_t head = 0; head < rows; head += head_size) {
    for (int i = 0; i < half; ++i) {
      for (int j = 0; j < 2; ++j) {
        const auto [from, to] = place(2 * i + j, j * half + i);
        std::copy_n(matrix.begin() + (head + from) * columns, columns, out.begin() + (head + to) * columns);
      }
    }
  }
  return out;
}

}  // namespace

std::vector<float> to_interleaved_rows(std::span<const float> matrix, int64_t columns, int head_size) {
  return reorder(matrix, columns, head_size, [](int interleaved, int split) { return std::pair(split, interleaved); });
}

std::vector<float> to_half_split_rows(std::span<const float> matrix, int64_t columns, int head_size) {
  return reorder(matrix, columns, head_size, [](int interleaved, int split) { return std::pair(interleaved, split); });
}

}  // namespace aerie
