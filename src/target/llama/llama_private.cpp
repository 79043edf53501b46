#include "target/llama/llama_private.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace aerie {

bool has_layer_input_hooks(const std::string& architecture) {
  static constexpr std::array<std::string_view, 19> kHooked = {
      "bailingmoe3", "deepseek4", "gemma4",         "hunyuan_vl", "lfm2",    "llama",  "mimo2",    "minimax-01", "minimax-m2", "muse-glimmer",
      "nanbeige",    "nemotron_h", "gpt-oss",       "qwen3",      "qwen35",  "qwen35moe", "qwen3moe", "qwen3next", "qwen4exp"};
  return std::find(kHooked.begin(), kHooked.end(), architecture) != kHooked.end();
}

}  // namespace aerie
