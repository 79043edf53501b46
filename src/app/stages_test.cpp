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
    made.work = {run_->file(name + ".out")};
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

TEST_F(Stages, AreNotGoneOnWithUnderOtherSettingsOnceTheyHaveBegun) {
  Stage fails = stage("one", "a.x = 1\n");
  fails.run = [this](std::stop_token) -> Result<StageOutcome> {
    // What a kill leaves: the record of an attempt that is still running.
    const auto record = read_stage_record(fs_, *run_, "one");
    EXPECT_EQ(record.ok() && *record ? (*record)->state : "none", "running");
    return full("no space");
  };
  EXPECT_FALSE(run_stages(fs_, *run_, {fails}, {}, {}).ok());
  // Nothing was made: the setting may have been what was wrong.
  Stage wrong = stage("one", "a.x = 2\n");
  wrong.run = [this](std::stop_token) -> Result<StageOutcome> {
    CHECKED(write_file_atomically(fs_, run_->file("one.out"), "half"));
    return full("no space");
  };
  EXPECT_EQ(run_stages(fs_, *run_, {wrong}, {}, {}).error().code, Code::kFull);
  const Status status = run_stages(fs_, *run_, {stage("one", "a.x = 3\n")}, {}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalid);
  EXPECT_NE(status.error().what.find("was begun with other settings (a.x was 2, is 3)"), std::string::npos) << status.error().what;
  EXPECT_TRUE(run_stages(fs_, *run_, {stage("one", "a.x = 2\n")}, {}, {}).ok());
}

TEST_F(Stages, ThatReadAnotherOnesResultAreRefusedOnceItWasMadeAnew) {
  std::vector<Stage> stages{stage("one"), stage("two")};
  stages[1].after = "one";
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  ASSERT_TRUE(fs_.remove(run_->file("one.out")).ok());
  const Status status = run_stages(fs_, *run_, stages, {}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().what.find("what stage one had made before"), std::string::npos) << status.error().what;
  EXPECT_EQ(ran_, (Names{"one", "two", "one"}));
  ASSERT_TRUE(redo(fs_, *run_, stages, "two").ok());
  EXPECT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
}

TEST_F(Stages, ThatMadeNothingNewDoNotAgeTheOnesBehindThem) {
  std::vector<Stage> stages{stage("one"), stage("two")};
  stages[1].after = "one";
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  stages[0].run = [this](std::stop_token) -> Result<StageOutcome> {
    CHECKED(write_file_atomically(fs_, run_->file("one.out"), "one"));
    return StageOutcome{.sentence = "the same", .outputs = {run_->file("one.out")}, .nothing_new = true};
  };
  ASSERT_TRUE(fs_.remove(run_->file("one.out")).ok());
  EXPECT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
}

TEST_F(Stages, ThatGrowGoOnWithMoreInputAndWithASettingThatSaysHowMuch) {
  std::vector<Stage> stages{stage("one"), stage("two")};
  stages[0].grows = stages[1].grows = true;
  stages[0].how_much = "one.limit = 5\n";
  stages[1].after = "one";
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  stages[0].how_much = "one.limit = 9\n";
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "two", "one", "two"}));
  ASSERT_TRUE(run_stages(fs_, *run_, stages, {}, {}).ok());
  EXPECT_EQ(ran_.size(), 4u);
}

TEST_F(Stages, EndedByATimeLimitGoOnOnlyWhenTheyAreNamed) {
  Stage one = stage("one");
  one.grows = true;
  one.run = [works = one.run](std::stop_token stop) {
    Result<StageOutcome> outcome = works(stop);
    outcome->more = true;
    return outcome;
  };
  ASSERT_TRUE(run_stages(fs_, *run_, {one}, {}, {}).ok());
  ASSERT_TRUE(run_stages(fs_, *run_, {one}, {}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one"}));
  ASSERT_TRUE(run_stages(fs_, *run_, {one}, {"one"}, {}).ok());
  EXPECT_EQ(ran_, (Names{"one", "one"}));
}

TEST_F(Stages, RedoMovesResultsThatLieElsewhereAsideWhereTheyLie) {
  Stage one = stage("one");
  const std::string elsewhere = path_ + "_elsewhere";
  one.work = {elsewhere};
  one.run = [&](std::stop_token) -> Result<StageOutcome> {
    CHECKED(write_file_atomically(fs_, elsewhere, "one"));
    return StageOutcome{"made", {elsewhere}};
  };
  ASSERT_TRUE(run_stages(fs_, *run_, {one}, {}, {}).ok());
  ASSERT_TRUE(redo(fs_, *run_, {one}, "one").ok());
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir()))
    if (entry.path().string().starts_with(elsewhere)) found.push_back(entry.path());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find(".old-"), std::string::npos) << found[0];
  std::filesystem::remove(found[0]);
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
