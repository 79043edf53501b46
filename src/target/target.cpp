#include "target/target.h"

#include "base/hash.h"
#include "base/text.h"
#ifdef AERIE_HAVE_LLAMA
#include "target/llama/llama_target.h"
#endif

namespace aerie {

void TargetConfig::fields(FieldList& v) {
  v("kind", kind, "which engine: llama (a GGUF file, embedded)").one_of({"llama"});
  v("model", model, "the target's GGUF file");
  v("unpack", unpack,
    "runs a copy of the model with its quantised weights unpacked to this type, which takes more memory and may be faster "
    "(docs/performance.md); empty = as the file has them")
      .one_of({"", "F16", "F32"});
  v("context", context, "tokens of prompt and answer together").range(16, 1 << 22);
  v("batch", batch, "tokens of one pass through the model").range(8, 1 << 16);
  v("threads", threads, "threads of the engine; 0 = all cores").range(0, 4096);
  v("parallel", parallel, "answers written side by side").range(1, 256);
  v("kv_type", kv_type, "number type of the key-value cache").one_of({"f16", "f32", "q8_0"});
  v("flash_attention", flash_attention, "uses flash attention where the engine has it");
}

Result<std::vector<int>> default_boundaries(int layer_count) {
  if (layer_count < 7)
    return invalid("a target of " + std::to_string(layer_count) +
                   " layers has no three different default boundaries {2, n/2, n-3}: name boundaries, at least 7 layers are needed without");
  return std::vector<int>{2, layer_count / 2, layer_count - 3};
}

std::string target_fingerprint(const TargetFacts& facts, std::span<const int> boundaries) {
  Sha256 hash;
  hash.add("aerie-target-1\n").add(facts.weights_fingerprint).add("\nboundaries");
  for (int boundary : boundaries) hash.add(" " + std::to_string(boundary));
  hash.add("\nlast pre-norm rms\n");
  return hash.hex().substr(0, 32);
}

Result<std::unique_ptr<Target>> open_target(const TargetConfig& config, [[maybe_unused]] const std::string& copies_folder) {
#ifdef AERIE_HAVE_LLAMA
  if (config.model.empty()) return invalid("no target is named: set target.model to a GGUF file");
  return open_llama_target(config, copies_folder);
#else
  return invalid("opening " + config.model + " needs llama.cpp, and this binary was built without it: run scripts/bootstrap and build again");
#endif
}

Result<TargetFacts> read_target_facts(const std::string& model) {
#ifdef AERIE_HAVE_LLAMA
  return read_llama_facts(model);
#else
  return invalid("reading " + model + " needs llama.cpp, and this binary was built without it: run scripts/bootstrap and build again");
#endif
}

std::string llama_version_text() {
#ifdef AERIE_HAVE_LLAMA
  return llama_library_version();
#else
  return "";
#endif
}

}  // namespace aerie
