#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/sim_file.h"
#include "base/text.h"

namespace aerie {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct TargetConfig {
  std::string kind = "llama", model, weights;
  bool verbose = false;
  int context = 2048;
  int64_t budget_bytes = 1 << 20;
  double timeout_s = 120;
  std::vector<int> boundaries{2, 15};
  std::vector<std::string> words{"a"};

  void fields(FieldList& v) {
    v("kind", kind, "which target").one_of({"llama", "vllm", "sglang"});
    v("model", model, "the model's file");
    v("verbose", verbose, "say more");
    v("context", context, "tokens of context").range(1, 100000);
    v("budget_bytes", budget_bytes, "bytes in flight");
    v("timeout_s", timeout_s, "longest wait").range(0, 3600);
    v("boundaries", boundaries, "layers to show").range(0, 1000);
    v("words", words, "some words");
    v("weights", weights, "type to run").one_of({"", "F16"});
  }
  bool operator==(const TargetConfig&) const = default;
};

struct TrainConfig {
  double lr = 1e-4;
  void fields(FieldList& v) { v("lr", lr, "learning rate"); }
};

class Configs : public testing::Test {
 protected:
  void SetUp() override {
    config.add("target", target);
    config.add("train", train);
  }
  std::string refusal(std::string_view text) {
    const Status status = config.load_toml_text(text, "pipeline.toml");
    EXPECT_FALSE(status.ok()) << text;
    if (status.ok()) return "";
    EXPECT_EQ(status.error().code, Code::kInvalid);
    return status.error().what;
  }

  TargetConfig target;
  TrainConfig train;
  Config config;
};

TEST_F(Configs, ReadEveryTypeFromToml) {
  const Status status = config.load_toml_text(R"(
# a comment
[target]
kind = "vllm"
model = 'C:\x'
verbose = true
context = 4_096
budget_bytes = 9_000_000_000
timeout_s = 5
boundaries = [1, 2, 3]
words = ["x", "y z"]
[train]
lr = 2e-4
)",
                                              "pipeline.toml");
  ASSERT_TRUE(status.ok()) << status.error().what;
  EXPECT_EQ(target.kind, "vllm");
  EXPECT_EQ(target.model, "C:\\x");
  EXPECT_TRUE(target.verbose);
  EXPECT_EQ(target.context, 4096);
  EXPECT_EQ(target.budget_bytes, 9'000'000'000);
  EXPECT_EQ(target.timeout_s, 5);
  EXPECT_THAT(target.boundaries, ElementsAre(1, 2, 3));
  EXPECT_THAT(target.words, ElementsAre("x", "y z"));
  EXPECT_EQ(train.lr, 2e-4);
}

TEST_F(Configs, NameTheLineAndTheNearestKeyOfATypo) {
  EXPECT_EQ(refusal("# 1\n\n[target]\nmodle = \"x\"\n"),
            "pipeline.toml:4: unknown key 'modle' in [target]; did you mean 'model'?");
  EXPECT_EQ(refusal("[traget]\n"), "pipeline.toml:1: unknown table [traget]; did you mean 'target'?");
  EXPECT_THAT(refusal("[target]\nqqqqqq = 1\n"), HasSubstr("unknown key 'qqqqqq' in [target]; known are kind, model"));
  EXPECT_THAT(refusal("target = 3\n"), HasSubstr("pipeline.toml:1: target must be a table"));
}

TEST_F(Configs, RefuseWrongTypesRangesAndChoicesWithTheirLine) {
  EXPECT_EQ(refusal("[target]\ncontext = \"7\"\n"), "pipeline.toml:2: target.context must be an integer");
  EXPECT_EQ(refusal("[target]\n\ncontext = 0\n"), "pipeline.toml:3: target.context is 0, allowed is 1 to 100000");
  EXPECT_EQ(refusal("[target]\nkind = \"lama\"\n"),
            "pipeline.toml:2: target.kind is 'lama', allowed is one of llama, vllm, sglang");
  EXPECT_EQ(refusal("[target]\nverbose = 1\n"), "pipeline.toml:2: target.verbose must be true or false");
  EXPECT_EQ(refusal("[target]\ncontext = 1.5\n"), "pipeline.toml:2: target.context must be an integer");
  EXPECT_EQ(refusal("[target]\nboundaries = [1, \"2\"]\n"),
            "pipeline.toml:2: target.boundaries must be a list of integers");
  EXPECT_EQ(refusal("[target]\nboundaries = [1, -2]\n"),
            "pipeline.toml:2: target.boundaries is -2, allowed is 0 to 1000");
  EXPECT_EQ(refusal("[target]\nwords = \"x\"\n"), "pipeline.toml:2: target.words must be a list of texts");
  EXPECT_EQ(refusal("[train]\nlr = nan\n"), "pipeline.toml:2: train.lr must be a number");
  EXPECT_THAT(refusal("[target]\ncontext = 1\ncontext = 2\n"), HasSubstr("pipeline.toml:3: not TOML"));
  EXPECT_THAT(refusal("[target\n"), HasSubstr("pipeline.toml:1: not TOML"));
}

TEST_F(Configs, WriteAResolvedFileThatLoadsBackToTheSame) {
  target.kind = "sglang";
  target.model = "quote \" back \\ tab \t nul " + std::string(1, '\0') + " \xC3\xA9";
  target.verbose = true;
  target.timeout_s = 0.1;
  target.boundaries = {};
  target.words = {"", "a,b", "\"", "]"};
  train.lr = 3;
  for (const double lr : {3.0, 1e-300, 1.0 / 3, -std::numeric_limits<double>::infinity()}) {
    train.lr = lr;
    TargetConfig target_again;
    TrainConfig train_again;
    Config again;
    again.add("target", target_again);
    again.add("train", train_again);
    const Status status = again.load_toml_text(config.resolved_toml(), "resolved");
    ASSERT_TRUE(status.ok()) << status.error().what << "\n" << config.resolved_toml();
    EXPECT_EQ(target_again, target);
    EXPECT_EQ(train_again.lr, lr);
  }
  EXPECT_THAT(config.resolved_toml(), HasSubstr("# longest wait\ntimeout_s = 0.1\n"));
}

TEST_F(Configs, TakeSettingsWithAndWithoutQuotes) {
  for (const char* setting : {"target.kind=vllm", "target.model = a = b.gguf", "target.context=7",
                              "target.verbose=true", "train.lr=3e-4", "target.boundaries=1,2,3", "target.words=x, y"}) {
    const Status status = config.set(setting);
    ASSERT_TRUE(status.ok()) << status.error().what;
  }
  EXPECT_EQ(target.kind, "vllm");
  EXPECT_EQ(trim(target.model), "a = b.gguf");
  EXPECT_EQ(target.context, 7);
  EXPECT_TRUE(target.verbose);
  EXPECT_EQ(train.lr, 3e-4);
  EXPECT_THAT(target.boundaries, ElementsAre(1, 2, 3));
  EXPECT_THAT(target.words, ElementsAre("x", "y"));
  ASSERT_TRUE(config.set("target.model=\"quoted\"").ok());
  EXPECT_EQ(target.model, "quoted");
  ASSERT_TRUE(config.set("target.boundaries=[4]").ok());
  EXPECT_THAT(target.boundaries, ElementsAre(4));
}

TEST_F(Configs, RefuseBadSettings) {
  const auto refused = [&](const char* setting) { return config.set(setting).error().what; };
  EXPECT_EQ(refused("target.modle=x"), "setting 'target.modle=x': unknown key 'modle'; did you mean 'model'?");
  EXPECT_EQ(refused("tarqet.model=x"), "setting 'tarqet.model=x': unknown room 'tarqet'; did you mean 'target'?");
  EXPECT_THAT(refused("model=x.y"), HasSubstr("is not of the form ROOM.KEY=VALUE"));
  EXPECT_THAT(refused("target.model"), HasSubstr("is not of the form ROOM.KEY=VALUE"));
  EXPECT_EQ(refused("target.context=lots"), "setting target.context must be an integer");
  EXPECT_EQ(refused("target.context=0"), "setting target.context is 0, allowed is 1 to 100000");
  EXPECT_FALSE(config.set("target.context=7\nmodel = \"smuggled\"").ok());
}

TEST_F(Configs, ReadTheEnvironmentButOnlyWhatIsTheirs) {
  std::string a = "AERIE_TARGET_TIMEOUT_S=7", b = "AERIE_TORCH_ROOT=/x", c = "PATH=/bin", d = "AERIE_TARGETS=9",
              e = "AERIE_MODEL=m.gguf";
  char* environment[] = {a.data(), b.data(), c.data(), d.data(), e.data(), nullptr};
  const Status status = config.load_environment(environment);
  ASSERT_TRUE(status.ok()) << status.error().what;
  EXPECT_EQ(target.timeout_s, 7);
  std::string wrong = "AERIE_TARGET_TIMEOT_S=7";
  char* with_typo[] = {wrong.data(), nullptr};
  EXPECT_EQ(config.load_environment(with_typo).error().what,
            "environment variable AERIE_TARGET_TIMEOT_S names no setting; did you mean 'AERIE_TARGET_TIMEOUT_S'?");
  std::string bad = "AERIE_TARGET_CONTEXT=many";
  char* with_bad[] = {bad.data(), nullptr};
  EXPECT_EQ(config.load_environment(with_bad).error().what,
            "environment variable AERIE_TARGET_CONTEXT must be an integer");
}

TEST_F(Configs, PrintHelpWithTypeDefaultAndLimits) {
  target.context = 1;  // help shows defaults, not what was loaded since
  const std::string help = config.help("target");
  EXPECT_THAT(help, HasSubstr("context                 integer (2048)  tokens of context; 1 to 100000\n"));
  EXPECT_THAT(help, HasSubstr("kind                    text (\"llama\")  which target; one of llama, vllm, sglang\n"));
  EXPECT_THAT(help, HasSubstr("text (\"\")  type to run; one of \"\", F16\n"));
  EXPECT_THAT(help, HasSubstr("list of integers ([2, 15])"));
  EXPECT_EQ(config.help("none"), "");
  EXPECT_THAT(config.rooms(), ElementsAre("target", "train"));
}

TEST_F(Configs, SayWhichFileIsMissing) {
  SimFileSystem fs;
  const Status absent = config.load_toml(fs, "none.toml");
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().what, HasSubstr("none.toml"));
  ASSERT_TRUE(write_file_atomically(fs, "p.toml", "[train]\nlr = 0.5\n").ok());
  ASSERT_TRUE(config.load_toml(fs, "p.toml").ok());
  EXPECT_EQ(train.lr, 0.5);
}

}  // namespace
}  // namespace aerie
