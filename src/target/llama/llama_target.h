// The embedded target: a GGUF file run by llama.cpp inside this process (libllama of the version in AERIE's bootstrap pins).
//
// What the file says about itself is read by our own strict reader first, so that a missing, foreign or cut file is refused
// in one sentence before llama.cpp sees it. Inner header of the target room; others use open_target().
#pragma once

#include <memory>

#include "target/target.h"

namespace aerie {

Result<std::unique_ptr<Target>> open_llama_target(const TargetConfig& config, const std::string& copies_folder);
Result<TargetFacts> read_llama_facts(const std::string& model);
std::string llama_library_version();

}  // namespace aerie
