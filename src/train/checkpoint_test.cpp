#include <gtest/gtest.h>

#include <limits>

#include "tensor/safetensors.h"
#include "train/draft_for_tests.h"
#include "train/draft_shape.h"

namespace aerie {
namespace {

using namespace testing_draft;

std::string path_of(const std::string& name) { return testing::TempDir() + "checkpoint_test_" + name + ".safetensors"; }

TEST(Checkpoint, ComesBackAsItWasWritten) {
  DraftShape shape = tiny_shape();
  shape.rope_theta = 100000.5;
  shape.rms_norm_eps = 1e-6;
  shape.norm_before_fc = true;
  shape.norm_output = true;
  Checkpoint c = tiny_draft(shape);
  c.step = 1234567890123;
  ASSERT_TRUE(write_checkpoint(real_file_system(), path_of("whole"), c).ok());
  const auto read = read_checkpoint(path_of("whole"));
  ASSERT_TRUE(read.ok()) << read.error().what;
  EXPECT_EQ(read->shape, c.shape);
  EXPECT_EQ(read->boundaries, c.boundaries);
  EXPECT_EQ(read->target_layer_count, c.target_layer_count);
  EXPECT_EQ(read->target_fingerprint, c.target_fingerprint);
  EXPECT_EQ(read->target_name, c.target_name);
  EXPECT_EQ(read->ttt_steps, c.ttt_steps);
  EXPECT_EQ(read->step, c.step);
  ASSERT_EQ(read->tensors.size(), c.tensors.size());
  for (const Tensor& t : c.tensors) {
    ASSERT_NE(read->find(t.name), nullptr) << t.name;
    EXPECT_EQ(read->find(t.name)->bytes, t.bytes) << t.name;
  }
}

TEST(Checkpoint, WillNotBeWrittenWithAMissingOrStrangeTensorOrAValueThatIsNotFinite) {
  const Checkpoint good = tiny_draft(tiny_shape());
  Checkpoint missing = good, strange = good, broken = good;
  missing.tensors.pop_back();
  strange.tensors.push_back(tensor_f32("visitor", {1}, std::vector<float>{1}));
  broken.tensors[0] = tensor_f32(broken.tensors[0].name, broken.tensors[0].shape,
                                 std::vector<float>(24 * 72, std::numeric_limits<float>::infinity()));
  for (const Checkpoint& c : {missing, strange, broken}) {
    EXPECT_FALSE(write_checkpoint(real_file_system(), path_of("refused"), c).ok());
    EXPECT_FALSE(*real_file_system().exists(path_of("refused")));
  }
}

TEST(Checkpoint, SaysWhatIsWrongWithAFileOfAnotherKind) {
  const Tensor t = tensor_f32("x", {1}, std::vector<float>{1});
  ASSERT_TRUE(write_safetensors(real_file_system(), path_of("other"), {t.view()}, {}).ok());
  const auto read = read_checkpoint(path_of("other"));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kInvalid);
  EXPECT_NE(read.error().what.find("no Aerie draft"), std::string::npos);
}

TEST(Checkpoint, RefusesSizesThatNoDraftCanHave) {
  ASSERT_TRUE(write_checkpoint(real_file_system(), path_of("sound"), tiny_draft(tiny_shape())).ok());
  const auto file = SafetensorsFile::open(path_of("sound"));
  ASSERT_TRUE(file.ok());
  for (const char* key : {"vocab_size", "hidden_size", "head_count", "kv_head_count"})
    for (const char* size : {"-5", "0", "2147483647", "4294967296"}) {
      Metadata metadata;
      for (const auto& [name, value] : file->metadata()) metadata[name] = name == key ? size : value;
      ASSERT_TRUE(metadata.contains(key)) << key;
      ASSERT_TRUE(write_safetensors(real_file_system(), path_of("size"), file->tensors(), metadata).ok());
      EXPECT_FALSE(read_checkpoint(path_of("size")).ok()) << key << " " << size;
    }
}

TEST(Checkpoint, RefusesAVocabularyThatMapsOneTokenTwice) {
  Checkpoint c = tiny_draft(tiny_shape());
  for (Tensor& t : c.tensors) {
    if (t.name != "d2t") continue;
    std::vector<int64_t> offsets(20, 0);
    offsets[1] = -1;
    t = tensor_i64("d2t", t.shape, offsets);
  }
  const auto written = write_checkpoint(real_file_system(), path_of("twice"), c);
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().what.find("d2t"), std::string::npos);
}

}  // namespace
}  // namespace aerie
