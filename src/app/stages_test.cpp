#include "app/stages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace aerie {
namespace {

class Stages : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "stages_" + std::to_string(getpid());
    std::filesystem::remove_all(path_);
    open();
  }
  void TearDown() override {
    run_.reset();
    std::filesystem::remove_all(path_);
  }
  void open() {
    run_.reset();
    auto run = RunFolder::open(path_, {"test"}, "");
    ASSERT_TRUE(run.ok()) << run.error().what;
    run_ = *std::move(run);
  }

  Stage stage(const std::string& name, const std::string& settings = "") {
    Stage made;
    made.name = name;
    made.purpose = "tests " + name;
    made.settings = settings;
    made.work = {name + ".out"};
    made.run = [this, name](std::stop_token) -> Result<StageOutcome> {
      ran_.push_back(name);
      CHECKED(write_file_atomically(fs_, run_->file(name + ".out"), name));
      return StageOutcome{"made " + name, {run_->file(name + ".out")}, {{"count", 3}}};
    };
    return made;
  }

  FileSystem& fs_ = real_file_system();
  std::string path_;
  std::unique_ptr<RunFolder> run_;
  std::vector<std::string> ran_;
};

using Names = std::vector<std::string>;

TEST_F(Stages, RunInOrderOnceAndAreSkippedWhenDone) {
  const std::vector<Stage> stages{stage("one"), stage("two")};
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "two"}));
}

TEST_F(Stages, AreDoneAgainWhenTheirOutputIsGone) {
  const std::vector<Stage> stages{stage("one"), stage("two")};
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  ASSERT_TRUE(fs_.remove(run_->file("two.out")).ok());
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "two", "two"}));
}

TEST_F(Stages, ThatOnlyLookAtTheOthersAreDoneEveryTime) {
  std::vector<Stage> stages{stage("one"), stage("look")};
  stages.back().always = true;
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "look", "look"}));
}

TEST_F(Stages, RefuseAChangedSettingAndNameBothValues) {
  ASSERT_TRUE(run_stages(fs_, *run_, {stage("one", "a.x = 1\na.y = 2\n")}, {}, {}).ok());
  const Status status = run_stages(fs_, *run_, {stage("one", "a.x = 1\na.y = 3\n")}, {}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalid);
  EXPECT_NE(status.error().what.find("a.y was 2, is 3"), std::string::npos) << status.error().what;
}

TEST_F(Stages, KeepTheReasonOfAFailureAndGoOnFromThere) {
  Stage second = stage("two");
  const auto works = second.run;
  second.run = [](std::stop_token) -> Result<StageOutcome> { return full("disk: no space"); };
  const Status failed = run_stages(fs_, *run_, {stage("one"), second}, {}, {});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().what, "two: disk: no space");
  auto record = read_stage_record(fs_, *run_, "two");
  ASSERT_TRUE(record.ok() && record->has_value());
  EXPECT_EQ((*record)->state, "failed");
  second.run = works;
  ASSERT_TRUE(run_stages(fs_, *run_, {stage("one"), second}, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "two"}));
}

TEST_F(Stages, StopBeforeTheNextOneWhenAsked) {
  std::stop_source source;
  Stage first = stage("one");
  first.run = [&, works = first.run](std::stop_token stop) {
    source.request_stop();
    return works(stop);
  };
  const Status status = run_stages(fs_, *run_, {first, stage("two")}, {}, source.get_token());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(exit_code(status.error()), 130);
  EXPECT_EQ(ran_, (Names{"one"}));
}

TEST_F(Stages, RedoMovesResultsAsideAndRemovesNone) {
  const std::vector<Stage> stages{stage("one"), stage("two")};
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  ASSERT_TRUE(redo(fs_, *run_, stages, "two").ok());
  EXPECT_FALSE(*fs_.exists(run_->file("two.out")));
  const auto olds = fs_.list(run_->file("old"));
  ASSERT_TRUE(olds.ok());
  ASSERT_EQ(olds->size(), 1u);
  EXPECT_TRUE(*fs_.exists(run_->file("old/" + (*olds)[0] + "/two.out")));
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "two", "two"}));
}

TEST_F(Stages, RedoOfAnUnknownStageNamesTheKnownOnes) {
  const Status status = redo(fs_, *run_, {stage("one"), stage("two")}, "thre");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().what.find("stages are one, two"), std::string::npos);
}

TEST_F(Stages, ADamagedRecordIsCorruptAndSaysWhatToDo) {
  ASSERT_TRUE(fs_.make_folders(run_->file("stages")).ok());
  ASSERT_TRUE(write_file_atomically(fs_, run_->file("stages/one.json"), "{\"state\":").ok());
  const Status status = run_stages(fs_, *run_, {stage("one")}, {}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace aerie
