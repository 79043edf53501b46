#include "extract/extract.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "extract/generate.h"
#include "extract/test_support.h"
#include "target/fake_target.h"
#include "target/probe.h"
#include "target/tampered_target.h"

namespace aerie {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Extract : public ExtractRoom {
 protected:
  void SetUp() override {
    ExtractRoom::SetUp();
    config_.conversations = path("c.jsonl");
    config_.store = path("store");
    config_.dtype = "F32";
    store_config_.seal_after_s = 0;  // every sample its own shard, so that a few samples tell about many seals
  }

  // `count` conversations of the target's own, with ids c0, c1, ...
  void generate_conversations(int count, FakeTarget& target) {
    std::vector<Prompt> prompts;
    for (int i = 0; i < count; ++i) prompts.push_back({"c" + std::to_string(i), {{"user", std::string(5 + i % 7, 'q')}}});
    GenerateConfig config;
    config.max_tokens = 10;
    ASSERT_TRUE(generate(target, prompts, config, config_.conversations, *run_, {}));
  }
  void append(const std::string& line) { std::ofstream(config_.conversations, std::ios::app) << line << "\n"; }
  void append(const Conversation& conversation) { append(conversation_json(conversation)); }
  static Conversation ours(const std::string& id, std::vector<int32_t> ids, std::vector<Span> spans) {
    Conversation c;
    c.id = id;
    c.token_ids = std::move(ids);
    c.loss_spans = std::move(spans);
    return c;
  }

  Result<ExtractStats> run(Target& target, FileSystem& fs = real_file_system()) {
    return extract(target, config_, store_config_, *run_, stop_.get_token(), fs);
  }
  std::unique_ptr<StoreReader> store() {
    auto reader = StoreReader::open(fs_, config_.store);
    EXPECT_TRUE(reader) << reader.error().what;
    return reader ? *std::move(reader) : nullptr;
  }
  // Ids of the store, ordered; each must stand once.
  std::vector<std::string> stored_ids() {
    std::vector<std::string> ids;
    const auto reader = store();
    for (const SampleInfo& sample : reader->samples()) ids.push_back(sample.id);
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
    return ids;
  }
  Sample stored(const std::string& id) {
    const auto reader = store();
    for (size_t i = 0; i < reader->samples().size(); ++i)
      if (reader->samples()[i].id == id) return *reader->read(i);
    ADD_FAILURE() << id << " is not in the store";
    return {};
  }
  // How many captures the probe takes, so that faults can begin after it.
  static int captures_of_probe() {
    FakeTarget target;
    const auto boundaries = default_boundaries(target.facts().layer_count);
    EXPECT_TRUE(probe(target, *boundaries, {}));
    return target.captures();
  }

  ExtractConfig config_;
  StoreConfig store_config_;
  std::stop_source stop_;
};

TEST_F(Extract, StoresWhatTheTargetShowsRowByRow) {
  FakeTarget target;
  generate_conversations(4, target);
  const auto stats = run(target);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->stored, 4);
  EXPECT_THAT(stored_ids(), ElementsAre("c0", "c1", "c2", "c3"));
  int64_t tokens = 0;
  for (const Conversation& c : conversations(config_.conversations)) {
    const Sample sample = stored(c.id);
    tokens += static_cast<int64_t>(c.token_ids.size());
    EXPECT_EQ(sample.input_ids, c.token_ids);
    EXPECT_EQ(sample.loss_mask, *loss_mask(c));
    const auto shown = target.capture(c.token_ids, std::vector<int>{2, 4, 5}, {});
    ASSERT_TRUE(shown);
    EXPECT_EQ(sample.last, shown->last);
    const size_t width = 32;
    ASSERT_EQ(sample.aux.size(), c.token_ids.size() * 3 * width);
    for (size_t row = 0; row < c.token_ids.size(); ++row)
      for (size_t boundary = 0; boundary < 3; ++boundary)
        for (size_t i = 0; i < width; ++i)
          ASSERT_EQ(sample.aux[(row * 3 + boundary) * width + i], shown->states[boundary][row * width + i]);
  }
  EXPECT_EQ(stats->tokens, tokens);
}

TEST_F(Extract, KeepsProbeHeadAndFactsBesideTheSamples) {
  FakeTarget target;
  generate_conversations(1, target);
  ASSERT_TRUE(run(target));
  const StoreHeader header = store()->header();
  EXPECT_EQ(header.boundaries, (std::vector<int>{2, 4, 5}));
  EXPECT_EQ(header.target_fingerprint, target_fingerprint(target.facts(), header.boundaries));
  EXPECT_THAT(header.probe_json, Not(testing::IsEmpty()));
  EXPECT_THAT(header.facts_json, HasSubstr("\"rope_theta\""));
  const auto kept = read_target_head(fs_, config_.store);
  ASSERT_TRUE(kept) << kept.error().what;
  const auto head = target.head();
  EXPECT_EQ(kept->norm, head->norm);
  EXPECT_EQ(kept->lm_head, head->lm_head);
  EXPECT_EQ(kept->embeddings, head->embeddings);
}

TEST_F(Extract, LeavesOutTheEmbeddingsOfATiedTarget) {
  FakeTarget target({.tied_embeddings = true});
  generate_conversations(1, target);
  ASSERT_TRUE(run(target));
  const auto kept = read_target_head(fs_, config_.store);
  ASSERT_TRUE(kept) << kept.error().what;
  EXPECT_TRUE(kept->embeddings.empty());
}

TEST_F(Extract, GoesOnAfterAFailureAtAnyCapture) {
  FakeTarget maker;
  generate_conversations(6, maker);
  const int probe_captures = captures_of_probe();
  for (int round = 0; round < 6; ++round) {
    FakeTarget target;
    target.faults().fail_capture_at = probe_captures + 2;  // one sample a round, then the engine fails
    const auto stats = run(target);
    if (round < 5) {
      ASSERT_FALSE(stats) << round;
      EXPECT_EQ(stats.error().code, Code::kUnavailable);
    } else {
      ASSERT_TRUE(stats) << stats.error().what;
      EXPECT_EQ(stats->already_there, 5);
    }
    EXPECT_EQ(stored_ids().size(), static_cast<size_t>(round + 1)) << "what was captured is sealed, however it ends";
  }
  FakeTarget target;
  const auto again = run(target);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stored, 0);
  EXPECT_EQ(again->already_there, 6);
  EXPECT_EQ(target.captures(), probe_captures) << "nothing is captured twice";
}

TEST_F(Extract, LosesAndDoublesNothingWhenKilledAtAnyStepOnDisk) {
  FakeTarget maker;
  generate_conversations(3, maker);
  const std::string header_of_run = run_->path();
  int finished_at = 0;
  for (int step = 1; finished_at == 0 && step < 300; step += step < 8 ? 1 : 7) {
    std::filesystem::remove_all(config_.store);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::atomic<int> steps = 0;
      WatchedFileSystem dying([&](const std::string&, uint64_t) -> Status {
        if (++steps == step) _exit(9);
        return ok_status();
      });
      auto own = RunFolder::open(header_of_run + "_child", {"test"}, "");
      FakeTarget target;
      _exit(own && extract(target, config_, store_config_, **own, {}, dying) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 1) << "step " << step;
    if (WEXITSTATUS(status) == 0) finished_at = step;
    FakeTarget target;
    const auto stats = run(target);
    ASSERT_TRUE(stats) << "step " << step << ": " << stats.error().what;
    EXPECT_EQ(stats->stored + stats->already_there, 3) << step;
    ASSERT_THAT(stored_ids(), ElementsAre("c0", "c1", "c2")) << step;
    ASSERT_TRUE(store()->verify()) << step;
  }
  EXPECT_GT(finished_at, 10) << "a run has this many steps on disk at least";
}

TEST_F(Extract, RecordsBadSamplesWithTheirReasonsAndStoresTheRest) {
  FakeTarget target({.context_length = 120});
  generate_conversations(2, target);
  append("{broken");
  append(ours("no such token", {1, 2, 9999}, {{1, 3}}));
  append(ours("too long", std::vector<int32_t>(121, 65), {{1, 121}}));
  append(ours("nothing said", {1, 2, 3}, {}));
  append(ours("good", {65, 66, 67}, {{1, 3}}));
  for (int round = 0; round < 2; ++round) {
    const auto stats = run(target);
    ASSERT_TRUE(stats) << stats.error().what;
    EXPECT_EQ(stats->conversations, 7);
    EXPECT_EQ(stats->skipped, round == 0 ? 4 : 0);
    EXPECT_EQ(stats->skipped_before, round == 0 ? 0 : 4);
    EXPECT_EQ(stats->already_there, round == 0 ? 0 : 3) << "only samples, not what was left out";
    EXPECT_THAT(stored_ids(), ElementsAre("c0", "c1", "good"));
  }
  const std::string skipped = text_of(config_.store + "/skipped.jsonl");
  EXPECT_THAT(skipped, AllOf(HasSubstr("c.jsonl:3"), HasSubstr("not valid JSON"), HasSubstr("9999"),
                             HasSubstr("longer than the context of 120"), HasSubstr("no token of an answer")));
  EXPECT_THAT(text_of(run_->file("events.jsonl")), HasSubstr("\"already_there\":3,\"skipped_before\":4"));
  EXPECT_EQ(std::count(skipped.begin(), skipped.end(), '\n'), 4);
}

TEST_F(Extract, LetsNoStateThatIsNotFiniteOrMissesRowsIntoTheStore) {
  FakeTarget target;
  generate_conversations(3, target);
  FakeTarget broken;
  broken.faults().nan = true;
  broken.faults().from_capture = captures_of_probe() + 2;
  auto stats = run(broken);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->stored, 1);
  EXPECT_EQ(stats->skipped, 2);
  EXPECT_THAT(text_of(config_.store + "/skipped.jsonl"), AllOf(HasSubstr("boundary 2"), HasSubstr("not finite")));

  config_.store = path("second");
  FakeTarget shorter;
  shorter.faults().drop_last_row = true;
  shorter.faults().from_capture = captures_of_probe() + 2;
  stats = run(shorter);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->stored, 1);
  EXPECT_THAT(text_of(config_.store + "/skipped.jsonl"), HasSubstr("rows for"));
}

TEST_F(Extract, GivesUpWhenEverythingInARowIsBad) {
  FakeTarget target;
  generate_conversations(1, target);
  for (int i = 0; i < 150; ++i) append(ours("bad" + std::to_string(i), {1, 2, 9999}, {{1, 3}}));
  const auto stats = run(target);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kInvalid);
  EXPECT_THAT(stats.error().what, AllOf(HasSubstr("100 conversations in a row"), HasSubstr("9999")));
  EXPECT_THAT(stored_ids(), ElementsAre("c0"));
}

TEST_F(Extract, TriesAgainWhatATargetThatBrokeCouldNotExtract) {
  FakeTarget maker;
  generate_conversations(120, maker);
  FakeTarget broken;
  broken.faults().nan = true;
  broken.faults().from_capture = captures_of_probe() + 3;
  const auto stats = run(broken);
  ASSERT_FALSE(stats);
  EXPECT_THAT(stats.error().what, HasSubstr("100 conversations in a row"));
  EXPECT_FALSE(*fs_.exists(config_.store + "/skipped.jsonl")) << "the target's fault, not the conversations'";
  const auto again = run(maker);
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(again->already_there, 2);
  EXPECT_EQ(again->stored, 118);
}

TEST_F(Extract, RecordsNothingAsBadWhenStoppedOrWhenNothingWasGood) {
  FakeTarget maker;
  generate_conversations(60, maker);
  FakeTarget broken;
  broken.faults().nan = true;
  broken.faults().from_capture = captures_of_probe() + 1;
  auto stats = run(broken);
  ASSERT_FALSE(stats);
  EXPECT_THAT(stats.error().what, AllOf(HasSubstr("none of the 60 conversations"), HasSubstr("not finite")));
  FakeTarget slow;
  slow.faults() = broken.faults();
  slow.faults().delay_s = 0.01;
  std::jthread stopper([&] {
    while (slow.captures() < captures_of_probe() + 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop_.request_stop();
  });
  stats = run(slow);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kCancelled);
  EXPECT_FALSE(*fs_.exists(config_.store + "/skipped.jsonl"));
  stop_ = std::stop_source();
  stats = run(maker);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->stored, 60);
}

TEST_F(Extract, SealsWhatIsCapturedWhenItsEventsCannotBeWritten) {
  FakeTarget target;
  generate_conversations(4, target);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  // The first seal takes long and leaves events.jsonl no room to grow: it is larger than any other file here.
  std::ofstream(run_->file("events.jsonl"), std::ios::app) << std::string(4 << 20, ' ') << "\n";
  run_.reset();
  run_ = *RunFolder::open(folder_ + "/run", {"test"}, "");
  WatchedFileSystem slow([&](const std::string& what, uint64_t) -> Status {
    if (what != "link") return ok_status();
    const rlimit now{std::filesystem::file_size(run_->file("events.jsonl")), before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return ok_status();
  });
  ASSERT_TRUE(fs_.make_folders(config_.store));
  const auto stats = run(target, slow);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kFull) << stats.error().what;
  EXPECT_THAT(stats.error().what, HasSubstr("events.jsonl"));
  EXPECT_THAT(stored_ids(), ElementsAre("c0", "c1", "c2", "c3"));
}

TEST_F(Extract, TakesRowsOfZerosForATargetThatIsBroken) {
  FakeTarget maker;
  generate_conversations(120, maker);
  test::TamperedTarget broken(maker);
  broken.tamper([&, captures = 0, good = captures_of_probe()](Captured& captured) mutable {
    if (++captures > good) std::fill_n(captured.last.begin(), captured.last.size() / static_cast<size_t>(captured.row_count), 0.0f);
  });
  const auto stats = run(broken);
  ASSERT_FALSE(stats);
  EXPECT_THAT(stats.error().what, AllOf(HasSubstr("100 conversations in a row"), HasSubstr("all zeros in the row of token 0")));
  EXPECT_FALSE(*fs_.exists(config_.store + "/skipped.jsonl"));
}

TEST_F(Extract, RefusesATargetThatFailsTheProbeBeforeMakingAStore) {
  FakeTarget target;
  generate_conversations(1, target);
  FakeTarget broken;
  broken.faults().swap_rows = true;
  const auto stats = run(broken);
  ASSERT_FALSE(stats);
  EXPECT_FALSE(*fs_.exists(config_.store));
}

TEST_F(Extract, OnAFullDiskStopsWithThreeAndGoesOnWhenThereIsRoom) {
  FakeTarget target;
  generate_conversations(30, target);
  WatchedFileSystem disk = disk_with_room(200000);
  const auto stats = run(target, disk);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kFull) << stats.error().what;
  EXPECT_EQ(exit_code(stats.error()), 3);
  const size_t kept = stored_ids().size();
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, 30u);
  const auto rest = run(target);
  ASSERT_TRUE(rest) << rest.error().what;
  EXPECT_EQ(rest->already_there, static_cast<int64_t>(kept));
  EXPECT_EQ(stored_ids().size(), 30u);
}

TEST_F(Extract, SealsWhatIsCapturedWhenStopped) {
  FakeTarget maker;
  generate_conversations(60, maker);
  store_config_.seal_after_s = 1000;  // nothing is sealed before the end
  FakeTarget target;
  target.faults().delay_s = 0.01;
  const int enough = captures_of_probe() + 5;
  std::jthread stopper([&] {
    while (target.captures() < enough) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop_.request_stop();
  });
  const auto stats = run(target);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kCancelled);
  const size_t kept = stored_ids().size();
  EXPECT_GE(kept, 4u);
  EXPECT_LT(kept, 60u);
  stop_ = std::stop_source();
  const auto rest = run(maker);
  ASSERT_TRUE(rest) << rest.error().what;
  EXPECT_EQ(rest->stored, static_cast<int64_t>(60 - kept));
}

TEST_F(Extract, LearnsFromForeignConversationsOnlyWhatAnAssistantSaid) {
  FakeTarget target;
  append(R"({"id":"f","conversations":[{"from":"system","value":"S"},{"from":"human","value":"Q1"},{"from":"gpt","value":"First answer"},{"from":"human","value":"Q2"},{"from":"gpt","value":"Second"}]})");
  ASSERT_TRUE(run(target));
  const Sample sample = stored("f");
  const std::string text = "<|start|>system\nS<|end|>\n<|start|>user\nQ1<|end|>\n<|start|>assistant\nFirst answer<|end|>\n"
                           "<|start|>user\nQ2<|end|>\n<|start|>assistant\nSecond<|end|>\n";
  EXPECT_EQ(sample.input_ids, *target.tokenize(text, true));
  std::vector<int32_t> learned;
  for (size_t i = 0; i < sample.input_ids.size(); ++i)
    if (sample.loss_mask[i]) learned.push_back(sample.input_ids[i]);
  EXPECT_EQ(*target.detokenize(learned), "First answer<|end|>Second<|end|>") << "the line end after a turn is not said";
}

TEST_F(Extract, SkipsForeignConversationsWhoseTurnsChangeLater) {
  FakeTarget target;
  target.faults().reversed_history = true;  // an earlier answer vanishes once more follows
  append(R"({"id":"two turns","messages":[{"role":"user","content":"Q1"},{"role":"assistant","content":"A1"},{"role":"user","content":"Q2"},{"role":"assistant","content":"A2"}]})");
  append(R"({"id":"one turn","messages":[{"role":"user","content":"Q1"},{"role":"assistant","content":"A1"}]})");
  const auto stats = run(target);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_THAT(stored_ids(), ElementsAre("one turn"));
  EXPECT_THAT(text_of(config_.store + "/skipped.jsonl"), AllOf(HasSubstr("two turns"), HasSubstr("renders message 2 otherwise")));
}

TEST_F(Extract, NamesBothTargetsWhenAnswersAreNotItsOwn) {
  FakeTarget maker({.seed = 2});
  generate_conversations(1, maker);
  FakeTarget target;
  const auto stats = run(target);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, Code::kInvalid);
  EXPECT_THAT(stats.error().what, AllOf(HasSubstr(maker.facts().weights_fingerprint), HasSubstr("c.jsonl:1"),
                                        HasSubstr(target.facts().weights_fingerprint)));
}

TEST_F(Extract, CountsTheFirstOfARepeatedId) {
  FakeTarget target;
  append(ours("a", {65, 66, 67}, {{1, 3}}));
  append(ours("a", {70, 71, 72}, {{1, 3}}));
  const auto stats = run(target);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->repeated, 1);
  EXPECT_THAT(stored("a").input_ids, ElementsAre(65, 66, 67));
}

TEST_F(Extract, CutsAtTheMaximumLength) {
  FakeTarget target;
  config_.max_length = 4;
  append(ours("long", {65, 66, 67, 68, 69, 70}, {{2, 6}}));
  append(ours("late", {65, 66, 67, 68, 69, 70}, {{4, 6}}));
  const auto stats = run(target);
  ASSERT_TRUE(stats) << stats.error().what;
  EXPECT_EQ(stats->cut, 1);
  EXPECT_THAT(stored("long").loss_mask, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(text_of(config_.store + "/skipped.jsonl"), HasSubstr("no token of an answer lies within its first 4 tokens"));
}

TEST_F(Extract, RefusesBoundariesThatAreNone) {
  FakeTarget target;
  append(ours("a", {65, 66}, {{1, 2}}));
  config_.boundaries = {2, 9, 10};
  auto stats = run(target);
  ASSERT_FALSE(stats);
  EXPECT_THAT(stats.error().what, HasSubstr("9 is outside 0..8"));
  config_.boundaries = {4, 2, 5};
  stats = run(target);
  ASSERT_FALSE(stats);
  EXPECT_THAT(stats.error().what, HasSubstr("must ascend, but 2 follows 4"));
}

TEST_F(Extract, RefusesAFileWithoutConversations) {
  FakeTarget target;
  EXPECT_EQ(run(target).error().code, Code::kNotFound);
  append("");
  EXPECT_THAT(run(target).error().what, HasSubstr("c.jsonl holds no conversation"));
}

TEST_F(Extract, TellsOneEventAShard) {
  FakeTarget target;
  generate_conversations(5, target);
  ASSERT_TRUE(run(target));
  const std::string events = text_of(run_->file("events.jsonl"));
  size_t seals = 0;
  for (size_t at = events.find("shard_sealed"); at != std::string::npos; at = events.find("shard_sealed", at + 1)) ++seals;
  EXPECT_EQ(seals, 5u);
  EXPECT_THAT(events, AllOf(HasSubstr("\"probe\""), HasSubstr("extract_started"), HasSubstr("extract_done")));
}

TEST_F(Extract, DoesNotHangWithAStorageThatHangs) {
  FakeTarget target;
  generate_conversations(3, target);
  config_.patience_s = 1;
  // Never destroyed: the writing thread is given up, not joined, and may still run while the program ends.
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    std::atomic<bool> reached = false;
  };
  static Gate& gate = *new Gate;
  static WatchedFileSystem& hanging = *new WatchedFileSystem([](const std::string& what, uint64_t) -> Status {
    if (what == "link") {
      gate.reached = true;
      std::unique_lock lock(gate.mutex);
      gate.changed.wait_for(lock, std::chrono::seconds(60), [] { return gate.open; });
    }
    return ok_status();
  });
  ASSERT_TRUE(fs_.make_folders(config_.store));
  const auto before = std::chrono::steady_clock::now();
  const auto stats = run(target, hanging);
  ASSERT_FALSE(stats);
  EXPECT_TRUE(gate.reached);
  EXPECT_EQ(stats.error().code, Code::kTimeout) << stats.error().what;
  EXPECT_THAT(stats.error().what, HasSubstr("its storage hangs"));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
  const std::lock_guard lock(gate.mutex);
  gate.open = true;
  gate.changed.notify_all();
}

}  // namespace
}  // namespace aerie
