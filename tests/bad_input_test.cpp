// What a person gets for bad input: one clear sentence, the right exit code, nothing lost. Runs the program (AERIE_PROGRAM).
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/child.h"
#include "base/file.h"
#include "base/text.h"
#include "target/target.h"  // says whether this build has llama.cpp

namespace aerie {
namespace {

namespace files = std::filesystem;

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "bad_input_" + std::to_string(getpid());
    files::remove_all(folder_);
    files::create_directories(folder_);
  }
  void TearDown() override { files::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) { std::ofstream(path(name), std::ios::binary) << text; }
  // The small model; empty when there is none, or no llama.cpp to run it.
  std::string model() {
#ifdef AERIE_HAVE_LLAMA
    const char* model = std::getenv("AERIE_MODEL");
    return model != nullptr && files::exists(model) ? model : "";
#else
    return "";
#endif
  }

  ChildResult run(std::vector<std::string> words) {
    words.insert(words.begin(), AERIE_PROGRAM);
    ChildOptions options;
    options.argv = std::move(words);
    options.timeout_s = 120;
    options.environment = {{"OMP_NUM_THREADS", "1"}};
    auto result = run_child(options);
    EXPECT_TRUE(result.ok()) << result.error().what;
    return result ? *result : ChildResult{};
  }

  // The last line on stderr is the sentence; it stands alone and says what was asked for.
  void expect_refusal(const ChildResult& result, int exit_code, const std::vector<std::string>& words) {
    EXPECT_EQ(result.signal, 0) << result.how_it_ended();
    EXPECT_EQ(result.exit_status, exit_code) << result.err;
    const auto lines = split(trim(result.err), '\n');
    const std::string last(lines.back());
    EXPECT_TRUE(last.starts_with("aerie: ")) << result.err;
    for (const std::string& word : words) EXPECT_NE(last.find(word), std::string::npos) << "'" << word << "' is not in: " << last;
  }

  std::string folder_;
};

TEST_F(BadInput, MissingModel) {
  write("prompts.txt", "Hello?\n");
  expect_refusal(run({"generate", "--folder", path("run"), "--model", path("absent.gguf"), "--prompts", path("prompts.txt")}), 2, {"absent.gguf"});
}

TEST_F(BadInput, NoModelAtAll) {
  write("prompts.txt", "Hello?\n");
  expect_refusal(run({"generate", "--folder", path("run"), "--prompts", path("prompts.txt")}), 2, {"--model"});
}

TEST_F(BadInput, ModelThatIsNoGguf) {
  if (model().empty()) GTEST_SKIP() << "this build has no llama.cpp, or AERIE_MODEL names no model (scripts/bootstrap --env prints it)";
  write("prompts.txt", "Hello?\n");
  write("text.gguf", "this is a text, and a rather short one");
  expect_refusal(run({"generate", "--folder", path("run"), "--model", path("text.gguf"), "--prompts", path("prompts.txt")}), 2, {"text.gguf", "GGUF"});
}

TEST_F(BadInput, TruncatedModel) {
  if (model().empty()) GTEST_SKIP() << "this build has no llama.cpp, or AERIE_MODEL names no model (scripts/bootstrap --env prints it)";
  std::ifstream in(model(), std::ios::binary);
  std::string head(6 << 20, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  write("cut.gguf", head);
  write("prompts.txt", "Hello?\n");
  expect_refusal(run({"generate", "--folder", path("run"), "--model", path("cut.gguf"), "--prompts", path("prompts.txt")}), 4, {"cut.gguf"});
}

TEST_F(BadInput, PromptsWithBadJsonOnLine17) {
  std::string lines;
  for (int i = 1; i <= 20; ++i)
    lines += i == 17 ? "{\"id\": \"p17\", \"prompt\": \n" : "{\"id\": \"p" + std::to_string(i) + "\", \"prompt\": \"Hello " + std::to_string(i) + "\"}\n";
  write("prompts.jsonl", lines);
  expect_refusal(run({"generate", "--folder", path("run"), "--model", path("absent.gguf"), "--prompts", path("prompts.jsonl")}), 2, {"prompts.jsonl:17"});
}

TEST_F(BadInput, EmptyPrompts) {
  write("prompts.jsonl", "");
  expect_refusal(run({"generate", "--folder", path("run"), "--model", path("absent.gguf"), "--prompts", path("prompts.jsonl")}), 2, {"prompts.jsonl"});
}

TEST_F(BadInput, PromptLongerThanTheContextIsRecordedAndTheOthersAreAnswered) {
  if (model().empty()) GTEST_SKIP() << "this build has no llama.cpp, or AERIE_MODEL names no model (scripts/bootstrap --env prints it)";
  std::string words;
  for (int i = 0; i < 400; ++i) words += "harbour " + std::to_string(i) + " ";
  write("prompts.jsonl", "{\"id\": \"long\", \"prompt\": \"" + words + "\"}\n{\"id\": \"short\", \"prompt\": \"Say hello.\"}\n");
  const ChildResult result = run({"generate", "--folder", path("run"), "--model", model(), "--prompts", path("prompts.jsonl"), "--set",
                                  "target.context=128", "--set", "target.parallel=2", "--set", "target.threads=1", "--set", "generate.max_tokens=4"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  const auto skipped = read_file(real_file_system(), path("run/skipped.jsonl"));
  const auto answered = read_file(real_file_system(), path("run/conversations.jsonl"));
  ASSERT_TRUE(skipped.ok() && answered.ok());
  EXPECT_NE(skipped->find("\"long\""), std::string::npos);
  EXPECT_NE(answered->find("\"short\""), std::string::npos);
}

TEST_F(BadInput, ConfigWithATypo) {
  write("pipeline.toml", "[target]\n\nmodle = \"x.gguf\"\n");
  expect_refusal(run({"run", path("pipeline.toml"), "--folder", path("run")}), 2, {"pipeline.toml:3", "modle", "did you mean 'model'"});
  EXPECT_FALSE(files::exists(path("run"))) << "nothing is begun with settings that are not understood";
}

TEST_F(BadInput, ConfigWithAWrongType) {
  write("pipeline.toml", "[generate]\nmax_tokens = \"many\"\n");
  expect_refusal(run({"run", path("pipeline.toml")}), 2, {"pipeline.toml:2", "max_tokens", "integer"});
}

TEST_F(BadInput, UnknownCommandAndFlag) {
  EXPECT_EQ(run({"trian"}).exit_status, 2);
  EXPECT_EQ(run({"train", "--no-such-flag"}).exit_status, 2);
  EXPECT_EQ(run({}).exit_status, 2);
}

TEST_F(BadInput, SettingOutOfRange) {
  expect_refusal(run({"generate", "--set", "generate.max_tokens=-5"}), 2, {"generate.max_tokens", "-5"});
}

TEST_F(BadInput, RunFolderThatIsAFile) {
  write("run", "x");
  write("prompts.txt", "Hello?\n");
  expect_refusal(run({"generate", "--folder", path("run"), "--model", "m.gguf", "--prompts", path("prompts.txt")}), 2, {path("run")});
}

// A small file system of its own, so that it can really be full or read-only. Needs the right to mount.
class SmallDisk : public BadInput {
 protected:
  void SetUp() override {
    BadInput::SetUp();
    files::create_directories(path("disk"));
    if (mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=256k") != 0) GTEST_SKIP() << "this user may not mount a tmpfs";
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) umount(path("disk").c_str());
    BadInput::TearDown();
  }
  bool mounted_ = false;
};

TEST_F(SmallDisk, ReadOnlyFolder) {
  ASSERT_EQ(mount("tmpfs", path("disk").c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=256k"), 0);
  write("prompts.txt", "Hello?\n");
  expect_refusal(run({"generate", "--folder", path("disk/run"), "--model", "m.gguf", "--prompts", path("prompts.txt")}), 2, {path("disk/run"), "ead-only"});
}

TEST_F(SmallDisk, FullDiskSaysTryLaterAndTheRunGoesOnOnceThereIsSpace) {
  if (model().empty()) GTEST_SKIP() << "this build has no llama.cpp, or AERIE_MODEL names no model (scripts/bootstrap --env prints it)";
  write("prompts.txt", "Say hello.\nName a colour.\n");
  const std::vector<std::string> command = {"generate", "--folder", path("disk/run"), "--model", model(), "--prompts", path("prompts.txt"),
                                            "--set", "target.context=128", "--set", "target.parallel=1", "--set", "target.threads=1",
                                            "--set", "generate.max_tokens=4"};
  {
    std::ofstream filler(path("disk/filler"), std::ios::binary);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  const ChildResult full = run(command);
  EXPECT_EQ(full.exit_status, 3) << full.err;
  EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;
  files::remove(path("disk/filler"));
  const ChildResult after = run(command);
  EXPECT_EQ(after.exit_status, 0) << after.err;
}

}  // namespace
}  // namespace aerie
