// What is relied on of llama.cpp beyond its public header. Fails when another llama.cpp comes, so that somebody reads again.
#include "target/llama/llama_private.h"

#include <gtest/gtest.h>

#include "build-info.h"  // libllama-common
#include "llama.h"

namespace aerie {
namespace {

TEST(LlamaPrivate, IsOfTheCommitThatWasRead) {
  EXPECT_EQ(std::string(llama_commit()).substr(0, 7), "0c1e570")
      << "llama.cpp " << llama_version() << ": read src/llama-ext.h, and in src/models/*.cpp which set t_layer_inp for every layer; then "
      << "change llama_private.* and this line. TinyLlama.HooksAndCallbackGiveTheSameBits says whether the hooks still do the same.";
}

TEST(LlamaPrivate, ArchitecturesAreNamedAsFilesNameThem) {
  for (const char* hooked : {"llama", "qwen3", "gpt-oss", "nemotron_h", "hunyuan_vl"}) EXPECT_TRUE(has_layer_input_hooks(hooked)) << hooked;
  for (const char* other : {"qwen2", "gemma3", "phi3", "", "llama4"}) EXPECT_FALSE(has_layer_input_hooks(other)) << other;
}

}  // namespace
}  // namespace aerie
