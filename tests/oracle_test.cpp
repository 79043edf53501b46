// Captured hidden states against another implementation: transformers, on the same weights in fp32. Runs where
// AERIE_ORACLE_PYTHON names a Python of an environment of its own, made by
//   python3 -m venv DIR && DIR/bin/pip install torch transformers accelerate gguf safetensors
// with the model AERIE_MODEL; about a minute and 2 GB of memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/child.h"
#include "base/file.h"
#include "target/target.h"
#include "tensor/safetensors.h"
#ifdef AERIE_HAVE_LLAMA
#include "target/llama/dequantize.h"
#endif

namespace aerie {
namespace {

#ifdef AERIE_HAVE_LLAMA
std::string variable(const char* name) { return std::getenv(name) ? std::getenv(name) : ""; }

constexpr const char* kText =
    "The lighthouse keeper wrote every evening: wind from the west, sea calm, two sails in sight. In March 1911 he counted 14 storms,\n"
    "and after each he repaired the lamp himself.\n\nfor i in range(10):\n    print(i ** 2)\n\nWhat is the capital of Portugal? Lisbon.";

void capture_into(const std::string& path, TargetConfig config) {
  auto target = open_target(config);
  ASSERT_TRUE(target.ok()) << target.error().what;
  const auto ids = (*target)->tokenize(kText, false);
  ASSERT_TRUE(ids.ok());
  std::vector<int> boundaries;
  for (int b = 0; b <= (*target)->facts().layer_count; ++b) boundaries.push_back(b);
  const auto captured = (*target)->capture(*ids, boundaries, {});
  ASSERT_TRUE(captured.ok()) << captured.error().what;
  const Shape shape = {captured->row_count, (*target)->facts().hidden_size};
  std::vector<Tensor> tensors = {tensor_i32("ids", {captured->row_count}, *ids), tensor_f32("last", shape, captured->last)};
  for (size_t i = 0; i < boundaries.size(); ++i)
    tensors.push_back(tensor_f32("boundary." + std::to_string(boundaries[i]), shape, captured->states[i]));
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  const Status written = write_safetensors(real_file_system(), path, views, {});
  ASSERT_TRUE(written.ok()) << written.error().what;
}

TEST(Oracle, HiddenStatesAreThoseOfTransformers) {
  const std::string python = variable("AERIE_ORACLE_PYTHON"), model = variable("AERIE_MODEL");
  if (python.empty()) GTEST_SKIP() << "AERIE_ORACLE_PYTHON names no Python with torch, transformers, accelerate, gguf and safetensors";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "AERIE_MODEL names no model: scripts/bootstrap --env prints it";
  const std::string folder = testing::TempDir() + "oracle_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  TargetConfig config;
  config.context = 256;
  config.batch = 64;  // the text takes more than one pass
  config.threads = 1;
  config.model = model;
  capture_into(folder + "/quantised.safetensors", config);
  config.model = folder + "/f32.gguf";
  ASSERT_TRUE(write_dequantized_gguf(real_file_system(), model, config.model, GgmlType::kF32).ok());
  config.kv_type = "f32";
  config.flash_attention = false;
  capture_into(folder + "/exact.safetensors", config);

  ChildOptions child;
  child.argv = {python, AERIE_SOURCE_DIR "/tests/oracle/compare_hidden_states.py", model, folder + "/exact.safetensors", folder + "/quantised.safetensors"};
  child.environment = {{"OMP_NUM_THREADS", "2"}, {"HF_HUB_OFFLINE", "1"}, {"TRANSFORMERS_OFFLINE", "1"}};
  child.timeout_s = 500;
  const auto compared = run_child(child);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(compared.ok()) << compared.error().what;
  EXPECT_TRUE(compared->ok()) << compared->how_it_ended() << "\n" << compared->out << compared->err;
  printf("%s", compared->out.c_str());
}
#else
TEST(Oracle, HiddenStatesAreThoseOfTransformers) { GTEST_SKIP() << "this build has no llama.cpp"; }
#endif

}  // namespace
}  // namespace aerie
