// Files that cannot be a target: one clear sentence each, never a crash. And models written with other weight types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "target/llama/dequantize.h"
#include "target/llama/facts.h"
#include "target/llama/tiny_model.h"

namespace aerie {
namespace {

using testing::HasSubstr;

class LlamaFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What is said of this file; a target that opens is a failure.
  std::string refusal(const std::string& path, Code code = Code::kInvalid) {
    TargetConfig config;
    config.model = path;
    config.context = 64;
    const auto opened = open_target(config);
    if (opened.ok()) return "(opened)";
    EXPECT_EQ(opened.error().code, code) << opened.error().what;
    EXPECT_EQ(opened.error().what.find('\n'), std::string::npos) << "one sentence";
    return opened.error().what;
  }
  std::string tiny(const test::TinyModel& model = {}) {
    const std::string path = folder_ + "/tiny.gguf";
    EXPECT_TRUE(test::write_tiny_model(path, model).ok());
    return path;
  }
  // The tiny model with its metadata changed.
  std::string changed(const std::function<void(std::vector<std::pair<std::string, GgufValue>>&)>& change) {
    const std::string path = tiny();
    const auto file = GgufFile::open(path);
    auto metadata = file->metadata();
    change(metadata);
    const std::string other = folder_ + "/changed.gguf";
    EXPECT_TRUE(write_gguf(real_file_system(), other, metadata, file->tensors()).ok());
    return other;
  }
  std::string folder_ = testing::TempDir() + "llama_files_" + std::to_string(getpid());
};

TEST_F(LlamaFiles, WithoutANameSaySo) { EXPECT_THAT(refusal(""), HasSubstr("target.model")); }

TEST_F(LlamaFiles, ThatAreNotThereAreNamed) { EXPECT_THAT(refusal(folder_ + "/absent.gguf", Code::kNotFound), HasSubstr("absent.gguf")); }

TEST_F(LlamaFiles, ThatAreNoGgufAreRefused) {
  std::ofstream(folder_ + "/text.gguf") << "this is not a model, it is a sentence";
  EXPECT_THAT(refusal(folder_ + "/text.gguf"), testing::AllOf(HasSubstr("text.gguf"), HasSubstr("GGUF")));
  std::ofstream(folder_ + "/empty.gguf").flush();
  EXPECT_THAT(refusal(folder_ + "/empty.gguf"), HasSubstr("empty.gguf"));
  EXPECT_NE(refusal(folder_), "(opened)") << "a folder";
}

TEST_F(LlamaFiles, ThatWereCutAnywhereAreRefused) {
  const std::string path = tiny();
  const auto size = std::filesystem::file_size(path);
  for (const double part : {0.01, 0.1, 0.5, 0.9}) {
    std::filesystem::resize_file(tiny(), static_cast<uintmax_t>(part * static_cast<double>(size)));
    EXPECT_THAT(refusal(path, Code::kCorrupt), HasSubstr("tiny.gguf")) << part;
  }
  std::filesystem::resize_file(tiny(), size - 1);
  EXPECT_THAT(refusal(path, Code::kCorrupt), HasSubstr("tiny.gguf"));
}

TEST_F(LlamaFiles, OfAnArchitectureThatLlamaCppDoesNotKnowAreRefusedWithItsName) {
  const std::string path = tiny({.architecture = "martian"});
  EXPECT_THAT(refusal(path), testing::AllOf(HasSubstr("martian"), HasSubstr("tiny.gguf")));
}

TEST_F(LlamaFiles, ThatLackATensorAreRefusedWithItsName) {
  const auto file = GgufFile::open(tiny());
  std::vector<GgufTensor> tensors = file->tensors();
  std::erase_if(tensors, [](const GgufTensor& tensor) { return tensor.name == "blk.3.ffn_up.weight"; });
  ASSERT_TRUE(write_gguf(real_file_system(), folder_ + "/less.gguf", file->metadata(), tensors).ok());
  EXPECT_THAT(refusal(folder_ + "/less.gguf"), HasSubstr("blk.3.ffn_up.weight"));
}

TEST_F(LlamaFiles, ThatAreOnePartOfAModelAreRefused) {
  const std::string path = changed([](auto& metadata) { metadata.push_back({"split.count", gguf_u32(3)}); });
  EXPECT_THAT(refusal(path), testing::AllOf(HasSubstr("3 parts"), HasSubstr("merge")));
}

TEST_F(LlamaFiles, ThatAreADraftAreRefusedAsATarget) {
  const std::string path = changed([](auto& metadata) { metadata[0].second = gguf_text("eagle3"); });
  EXPECT_THAT(refusal(path), HasSubstr("draft"));
}

TEST_F(LlamaFiles, OfAnEncoderAreRefused) {
  const std::string path = changed([](auto& metadata) { metadata.push_back({"llama.attention.causal", gguf_bool(false)}); });
  EXPECT_THAT(refusal(path), HasSubstr("left to right"));
}

TEST_F(LlamaFiles, WithoutATokenizerAreRefused) {
  const std::string path = changed([](auto& metadata) {
    std::erase_if(metadata, [](const auto& item) { return item.first == "tokenizer.ggml.tokens"; });
  });
  EXPECT_THAT(refusal(path), HasSubstr("tokenizer"));
}

TEST_F(LlamaFiles, TrainedForLessThanTheContextAskedForAreRefused) {
  TargetConfig config;
  config.model = tiny();
  config.context = 513;
  const auto opened = open_target(config);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().what, testing::AllOf(HasSubstr("513"), HasSubstr("512"), HasSubstr("target.context")));
}

TEST_F(LlamaFiles, WrittenAsF16KeepFactsAndValuesAndOpen) {
  const std::string from = tiny(), to = folder_ + "/half.gguf";
  ASSERT_TRUE(write_dequantized_gguf(real_file_system(), from, to, GgmlType::kF16).ok());
  const auto before = GgufFile::open(from), after = GgufFile::open(to);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->tensors().size(), after->tensors().size());
  EXPECT_EQ(before->metadata().size(), after->metadata().size());
  EXPECT_EQ(*after->integer("general.file_type"), 1);
  EXPECT_EQ(llama::read_facts(*after, to)->weight_type, "F16");
  EXPECT_EQ(after->find_tensor("output_norm.weight")->type, static_cast<uint32_t>(GgmlType::kF32));
  EXPECT_EQ(after->find_tensor("blk.0.attn_norm.weight")->type, static_cast<uint32_t>(GgmlType::kF32));
  const auto old_values = floats_of(*before->find_tensor("blk.3.ffn_up.weight"));
  const auto new_values = floats_of(*after->find_tensor("blk.3.ffn_up.weight"));
  ASSERT_TRUE(old_values.ok() && new_values.ok());
  ASSERT_EQ(old_values->size(), new_values->size());
  for (size_t i = 0; i < old_values->size(); ++i) ASSERT_NEAR((*old_values)[i], (*new_values)[i], 1e-3 * std::fabs((*old_values)[i]) + 1e-6);
  TargetConfig config;
  config.model = to;
  config.context = 64;
  config.threads = 1;
  const auto opened = open_target(config);
  ASSERT_TRUE(opened.ok()) << opened.error().what;
}

TEST_F(LlamaFiles, RunUnpackedAreTheSameTargetWithTheSameStatesAndOneCopy) {
  TargetConfig config;
  config.model = tiny();
  config.context = 64;
  config.threads = 1;
  const auto plain = open_target(config);
  config.unpack = "F16";
  const std::string copies = folder_ + "/copies";
  ASSERT_TRUE(real_file_system().make_folders(copies).ok());
  const auto unpacked = open_target(config, copies);
  ASSERT_TRUE(plain.ok()) << plain.error().what;
  ASSERT_TRUE(unpacked.ok()) << unpacked.error().what;
  EXPECT_EQ((*unpacked)->facts().weights_fingerprint, (*plain)->facts().weights_fingerprint);
  EXPECT_THAT((*unpacked)->facts().engine_version, HasSubstr("unpacked to F16"));
  const std::vector<int32_t> ids = {5, 9, 11, 3};
  const std::vector<int> boundaries = {2, 3};
  const auto a = (*plain)->capture(ids, boundaries, {}), b = (*unpacked)->capture(ids, boundaries, {});
  ASSERT_TRUE(a.ok() && b.ok());
  double error = 0, size = 0;
  for (size_t i = 0; i < a->last.size(); ++i) {
    error += std::pow(a->last[i] - b->last[i], 2);
    size += std::pow(a->last[i], 2);
  }
  EXPECT_LT(std::sqrt(error / size), 0.01);
  ASSERT_TRUE(open_target(config, copies).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(copies), {}), 1) << "the copy is made once";
}

TEST_F(LlamaFiles, QuantisedWeightsWrittenAsF32AreExactlyTheirValues) {
  // One block of Q8_0: scale 0.5 and the numbers -16 to 15.
  std::vector<std::byte> block(34);
  block[0] = std::byte{0x00}, block[1] = std::byte{0x38};
  for (size_t i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(static_cast<int>(i) - 16));
  const GgufTensor tensor{"blk.0.ffn_up.weight", static_cast<uint32_t>(GgmlType::kQ8_0), {32, 1}, block};
  ASSERT_TRUE(write_gguf(real_file_system(), folder_ + "/q8.gguf", {{"general.file_type", gguf_u32(7)}}, {tensor}).ok());
  ASSERT_TRUE(write_dequantized_gguf(real_file_system(), folder_ + "/q8.gguf", folder_ + "/f32.gguf", GgmlType::kF32).ok());
  const auto after = GgufFile::open(folder_ + "/f32.gguf");
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(*after->integer("general.file_type"), 0);
  const auto values = floats_of(*after->find_tensor("blk.0.ffn_up.weight"));
  ASSERT_TRUE(values.ok());
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ((*values)[i], 0.5f * (static_cast<float>(i) - 16));
}

TEST_F(LlamaFiles, CannotBeWrittenInATypeThatIsNotF32OrF16) {
  EXPECT_FALSE(write_dequantized_gguf(real_file_system(), tiny(), folder_ + "/x.gguf", GgmlType::kQ8_0).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/x.gguf"));
}

}  // namespace
}  // namespace aerie
