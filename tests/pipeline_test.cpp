// The whole pipeline on the real small model, killed and continued. Sizes are tiny: what is tested is that everything fits
// together and that nothing is lost, not that the draft is good. Runs the program (AERIE_PROGRAM).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/child.h"
#include "base/file.h"
#include "base/text.h"
#include "train/train.h"  // a build without LibTorch has no pipeline: this test is left out there

namespace aerie {
namespace {

namespace files = std::filesystem;

class WholePipeline : public testing::Test {
 protected:
  void SetUp() override {
    const char* model = std::getenv("AERIE_MODEL");
    if (model == nullptr || !files::exists(model)) GTEST_SKIP() << "AERIE_MODEL names no model: scripts/bootstrap --env prints it";
    model_ = model;
    folder_ = testing::TempDir() + "pipeline_" + std::to_string(getpid());
    files::remove_all(folder_);
  }
  void TearDown() override { files::remove_all(folder_); }

  ChildOptions command(const std::string& example, std::vector<std::string> more = {}) {
    ChildOptions options;
    options.argv = {AERIE_PROGRAM, "run", std::string(AERIE_SOURCE_DIR) + "/examples/" + example, "--folder", folder_, "--model", model_};
    for (const char* setting : {"target.context=256", "target.parallel=4", "target.threads=2", "generate.limit=10", "generate.max_tokens=24",
                                "generate.prompts=data/prompts/train.jsonl", "train.max_steps=6", "train.epochs=1", "train.batch_tokens=256",
                                "train.ttt_steps=3", "train.draft_vocab=512", "train.eval_every=3", "train.checkpoint_every=2", "train.threads=2",
                                "bench.prompts=data/prompts/heldout.jsonl", "bench.count=2", "bench.max_tokens=12", "bench.draft_lengths=2",
                                "bench.context=256", "bench.threads=2", "bench.copies=[]"}) {
      options.argv.push_back("--set");
      options.argv.push_back(setting);
    }
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    options.folder = AERIE_SOURCE_DIR;
    options.timeout_s = 400;
    return options;
  }
  ChildResult run(const ChildOptions& options) {
    auto result = run_child(options);
    EXPECT_TRUE(result.ok()) << result.error().what;
    return result ? *result : ChildResult{};
  }
  std::string text(const std::string& name) {
    const auto content = read_file(real_file_system(), folder_ + "/" + name);
    return content ? *content : "";
  }

  std::string model_, folder_;
};

TEST_F(WholePipeline, GoesOnAfterKillsAndEndsWithADraftAndAReport) {
  // Killed without warning at several moments; each start goes on from the last.
  for (double after_s : {1.0, 3.0, 6.0}) {
    ChildOptions killed = command("gguf.toml");
    killed.timeout_s = after_s;
    killed.grace_s = 0;
    run(killed);
  }
  const ChildResult result = run(command("gguf.toml"));
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::string conversations = text("conversations.jsonl");
  EXPECT_EQ(std::count(conversations.begin(), conversations.end(), '\n'), 10) << "each prompt is answered once";
  for (const char* made : {"store/store.json", "store/target_head.safetensors", "draft/draft.gguf", "draft/sglang/config.json",
                           "draft/vllm/model.safetensors", "draft/speculators/config.json", "report.html"})
    EXPECT_TRUE(files::exists(folder_ + "/" + made)) << made;
  EXPECT_NE(text("run.json").find("\"state\":\"done\""), std::string::npos);

  const ChildResult again = run(command("gguf.toml"));
  EXPECT_EQ(again.exit_status, 0) << again.err;
  EXPECT_LT(again.wall_s, 60);
  EXPECT_NE(again.err.find("done before"), std::string::npos) << again.err;

  const ChildResult other = run(command("gguf.toml", {"--set", "generate.max_tokens=25"}));
  EXPECT_EQ(other.exit_status, 2);
  EXPECT_NE(other.err.find("generate.max_tokens was 24, is 25"), std::string::npos) << other.err;

  // More prompts join what is there; the draft that was trained without them is neither kept silently nor lost.
  const ChildResult more = run(command("gguf.toml", {"--set", "generate.limit=12"}));
  EXPECT_EQ(more.exit_status, 2) << more.err;
  EXPECT_NE(more.err.find("--redo train"), std::string::npos) << more.err;
  EXPECT_NE(more.err.find("12 samples in"), std::string::npos) << more.err;
  EXPECT_TRUE(files::exists(folder_ + "/draft/draft.gguf"));

  const std::string events = text("events.jsonl");
  EXPECT_NE(events.find("generate.max_tokens=25"), std::string::npos) << "what each command was given is kept";

  // The draft file and its target are all that bench needs.
  ChildOptions bench = command("gguf.toml", {"--draft", folder_ + "/draft/draft.gguf"});
  bench.argv[1] = "bench";
  bench.argv[2] = "--config=" + bench.argv[2];
  bench.argv[4] = folder_ + "/elsewhere";
  const ChildResult benched = run(bench);
  EXPECT_EQ(benched.exit_status, 0) << benched.err;

  ChildOptions verify;
  verify.argv = {AERIE_PROGRAM, "store", "verify", folder_ + "/store"};
  EXPECT_EQ(run(verify).exit_status, 0);

  ChildOptions info;
  info.argv = {AERIE_PROGRAM, "info", folder_ + "/draft/vllm"};
  EXPECT_EQ(run(info).exit_status, 0);
  files::remove(folder_ + "/draft/vllm/model.safetensors");
  const ChildResult damaged = run(info);
  EXPECT_NE(damaged.exit_status, 0);
  EXPECT_NE(damaged.err.find("model.safetensors"), std::string::npos) << "says why the draft cannot be read: " << damaged.err;
}

TEST_F(WholePipeline, StopsOnRequestWithTheRightExitCode) {
  ChildOptions options = command("long.toml");
  options.timeout_s = 4;   // then SIGTERM
  options.grace_s = 60;
  const ChildResult stopped = run(options);
  EXPECT_TRUE(stopped.timed_out);
  EXPECT_EQ(stopped.exit_status, 130) << stopped.how_it_ended() << "\n" << stopped.err;
  EXPECT_NE(text("run.json").find("\"state\":\"interrupted\""), std::string::npos) << text("run.json");
}

TEST_F(WholePipeline, StartsFromConversationsThatAreGiven) {
  ChildOptions options = command("conversations.toml", {"--set", "generate.prompts=", "--set", "run.conversations=" + folder_ + "-chats.jsonl", "--set", "bench.prompts="});
  std::string lines;
  for (int i = 0; i < 8; ++i)
    lines += "{\"id\":\"c" + std::to_string(i) + "\",\"conversations\":[{\"from\":\"human\",\"value\":\"Name " + std::to_string(i + 2) +
             " animals.\"},{\"from\":\"gpt\",\"value\":\"The cat, the dog, and number " + std::to_string(i) + " is the owl that sleeps by day.\"}]}\n";
  std::string endless;
  for (int i = 0; i < 200; ++i) endless += "and then another animal came by, ";
  lines += R"({"id":"longer-than-the-context","conversations":[{"from":"human","value":"Go on."},{"from":"gpt","value":")" + endless + "\"}]}\n";
  ASSERT_TRUE(write_file_atomically(real_file_system(), folder_ + "-chats.jsonl", lines).ok());
  const ChildResult result = run(options);
  files::remove(folder_ + "-chats.jsonl");
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(result.err.find("9 samples in"), std::string::npos) << "what does not fit the context is cut\n" << result.err;
  EXPECT_TRUE(files::exists(folder_ + "/draft/draft.gguf"));
  EXPECT_TRUE(files::exists(folder_ + "/report.html"));
}

}  // namespace
}  // namespace aerie
