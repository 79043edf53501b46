// Whole training runs on a small store: learning, files, resume, and every way of ending.
#include "train/train.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tensor/safetensors.h"
#include "train/hanging_storage_for_tests.h"
#include "train/store_for_tests.h"
#include "train/trainer.h"

namespace aerie {
namespace {

using Json = nlohmann::json;

std::string fresh(const std::string& name) {
  const std::string path = testing::TempDir() + "aerie_train_run_" + name;
  std::filesystem::remove_all(path);
  return path;
}

TrainConfig small_config() {
  TrainConfig c;
  c.ttt_steps = 3;
  c.draft_vocab = 50;
  c.epochs = 4;
  c.batch_tokens = 80;
  c.lr = 3e-3;
  c.validation_share = 0.15;
  c.threads = 2;
  return c;
}

Result<TrainResult> train_in(const std::string& store, const TrainConfig& config, const std::string& folder,
                             std::stop_token stop = {}) {
  TRY(const std::unique_ptr<RunFolder> run, RunFolder::open(folder, {"test"}, ""));
  return train(store, config, *run, stop);
}

std::vector<Json> events_of(const std::string& folder, const std::string& name) {
  std::vector<Json> events;
  const auto text = read_file(real_file_system(), folder + "/events.jsonl");
  if (!text) return events;
  for (const std::string_view line : split(*text, '\n')) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == name) events.push_back(event);
  }
  return events;
}

void expect_same_weights(const std::string& a, const std::string& b) {
  const auto x = read_checkpoint(a), y = read_checkpoint(b);
  ASSERT_TRUE(x.ok()) << x.error().what;
  ASSERT_TRUE(y.ok()) << y.error().what;
  EXPECT_EQ(x->step, y->step);
  ASSERT_EQ(x->tensors.size(), y->tensors.size());
  for (const Tensor& t : x->tensors) EXPECT_EQ(t.bytes, y->find(t.name)->bytes) << t.name;
}

// Asks a run to stop once it has made so many steps.
Result<TrainResult> train_until(const std::string& store, const TrainConfig& config, const std::string& folder,
                                size_t steps) {
  std::stop_source source;
  std::jthread watcher([&](std::stop_token done) {
    while (!done.stop_requested() && events_of(folder, "train_step").size() < steps) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    source.request_stop();
  });
  return train_in(store, config, folder, source.get_token());
}

TEST(Train, LearnsAndLeavesADraftThatBindsToItsTarget) {
  const std::string store = testing_store::make("learns", {.samples = 60}), folder = fresh("learns");
  TrainConfig config = small_config();
  config.epochs = 12;
  const auto result = train_in(store, config, folder);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_EQ(result->accuracy.size(), 3u);
  EXPECT_GT(*result->acceptance_estimate, 2.5) << "the walk is fully predictable";
  EXPECT_EQ(result->vocabulary_coverage, 1);

  const auto steps = events_of(folder, "train_step"), validations = events_of(folder, "validation");
  ASSERT_EQ(static_cast<int64_t>(steps.size()), result->steps);
  EXPECT_LT(steps.back()["loss"].get<double>(), 0.5 * steps.front()["loss"].get<double>());
  for (const char* name : {"lr", "grad_norm", "tokens_per_s", "epoch", "step_loss"})
    EXPECT_TRUE(steps[0].contains(name)) << name;
  ASSERT_GE(validations.size(), 8u);
  EXPECT_EQ(validations.back()["accuracy"].size(), 3u);

  for (const std::string& path : {result->best_checkpoint, result->last_checkpoint}) {
    const auto c = read_checkpoint(path);
    ASSERT_TRUE(c.ok()) << c.error().what;
    EXPECT_EQ(c->target_fingerprint, "target A");
    EXPECT_EQ(c->boundaries, (std::vector<int>{2, 4, 5}));
    EXPECT_EQ(c->shape.draft_vocab_size, 50);
    EXPECT_EQ(c->shape.context_length, 128);
    EXPECT_EQ(c->ttt_steps, 3);
  }
}

TEST(Train, StartsFromARegressionThatKnowsMoreThanRandomWeights) {
  const std::string store = testing_store::make("start", {.samples = 60});
  TrainConfig config = small_config();
  config.max_steps = 1;
  config.lr = 0;
  double loss[3] = {};
  const char* starts[3] = {"fitted", "target", "random"};
  for (int i = 0; i < 3; ++i) {
    config.init = starts[i];
    const std::string folder = fresh(std::string("start_") + starts[i]);
    const auto result = train_in(store, config, folder);
    ASSERT_TRUE(result.ok()) << result.error().what;
    loss[i] = *result->validation_loss;
    EXPECT_EQ(events_of(folder, "fitted").size(), i == 0 ? 1u : 0u);
  }
  EXPECT_LT(loss[0], 0.6 * loss[1]);
  EXPECT_LT(loss[0], loss[2]);
}

TEST(Train, ResumedRunIsBitwiseTheStraightOne) {
  const std::string store = testing_store::make("resume", {.samples = 40});
  const TrainConfig config = small_config();
  const std::string straight = fresh("straight"), broken = fresh("broken");
  const auto whole = train_in(store, config, straight);
  ASSERT_TRUE(whole.ok()) << whole.error().what;
  ASSERT_GT(whole->steps, 12);

  const auto first = train_until(store, config, broken, 4);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code, Code::kCancelled) << first.error().what;
  const auto second = train_until(store, config, broken, 9);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kCancelled) << second.error().what;
  const auto rest = train_in(store, config, broken);
  ASSERT_TRUE(rest.ok()) << rest.error().what;

  EXPECT_EQ(events_of(broken, "train_step").size(), static_cast<size_t>(whole->steps)) << "no step was done twice";
  expect_same_weights(straight + "/checkpoints/last/draft.safetensors", broken + "/checkpoints/last/draft.safetensors");
  EXPECT_EQ(rest->train_loss, whole->train_loss);
}

TEST(Train, StopsAndSavesWhileItsStorageHangs) {
  const std::string store = testing_store::make("storage"), folder = fresh("storage");
  TrainConfig config = small_config();
  config.checkpoint_every = 1000;
  auto& storage = *new testing_store::HangingStorage(20);  // some steps' samples
  std::stop_source source;
  const std::jthread watcher([&] {
    storage.wait_until_reached();
    // Until the trainer waits, too: it makes no more steps of what was read before.
    for (size_t before = 0, now = 0;; before = now) {
      now = events_of(folder, "train_step").size();
      if (now > 0 && now == before) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    source.request_stop();
  });
  const auto before = std::chrono::steady_clock::now();
  const auto run = RunFolder::open(folder, {"test"}, "");
  ASSERT_TRUE(run.ok()) << run.error().what;
  const auto result = Trainer(storage, store, config, **run, source.get_token()).go();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kCancelled) << result.error().what;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
  const auto saved = read_checkpoint(folder + "/checkpoints/last/draft.safetensors");
  ASSERT_TRUE(saved.ok()) << saved.error().what;
  EXPECT_GT(saved->step, 0);
  EXPECT_EQ(static_cast<size_t>(saved->step), events_of(folder, "train_step").size());
  storage.release();
}

// Before the first step, where nothing of TttModel::run() catches what the allocator throws.
TEST(Train, SaysSoWhenThereIsNotEnoughMemoryForTheDraft) {
  const std::string store = testing_store::make("memory");
  TrainConfig config = small_config();
  config.intermediate_size = 1 << 27;  // 13 GB a matrix
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit little = before;
  little.rlim_cur = 8ull << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const auto result = train_in(store, config, fresh("memory"));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kFull) << result.error().what;
}

// As a kill between the best draft and the save after it leaves them: the draft is newer than the state.
TEST(Train, TakesTheBestDraftForWhatItsFileHolds) {
  const std::string store = testing_store::make("best", {.samples = 40});
  const std::string straight = fresh("best"), broken = fresh("best_broken");
  TrainConfig config = small_config();
  const auto whole = train_in(store, config, straight);
  ASSERT_TRUE(whole.ok()) << whole.error().what;
  ASSERT_FALSE(train_until(store, config, broken, 4).ok());
  const std::string best = "/checkpoints/best/draft.safetensors";
  std::filesystem::copy_file(straight + best, broken + best, std::filesystem::copy_options::overwrite_existing);
  config.time_limit_s = 1e-3;  // not a step more
  const auto rest = train_in(store, config, broken);
  ASSERT_TRUE(rest.ok()) << rest.error().what;
  EXPECT_LT(rest->steps, whole->steps);
  EXPECT_EQ(rest->acceptance_estimate, whole->acceptance_estimate);
  EXPECT_EQ(rest->accuracy, whole->accuracy);
  EXPECT_EQ(rest->best_checkpoint, broken + best);
}

TEST(Train, WithoutValidationSamplesSaysNothingOfWhatTheyTellAndHasNoBestDraft) {
  const std::string store = testing_store::make("unknown"), folder = fresh("unknown");
  TrainConfig config = small_config();
  config.max_steps = 2;
  const std::string old = folder + "/checkpoints/best/draft.safetensors";
  std::filesystem::create_directories(folder_of(old));
  ASSERT_TRUE(write_file_atomically(real_file_system(), old, "of an attempt that left no state").ok());
  config.validation_share = 0;
  const auto result = train_in(store, config, folder);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_EQ(result->validation_loss, std::nullopt);
  EXPECT_EQ(result->acceptance_estimate, std::nullopt);
  EXPECT_TRUE(result->train_loss.has_value());
  EXPECT_EQ(result->best_checkpoint, result->last_checkpoint);
  EXPECT_FALSE(std::filesystem::exists(old)) << "aerie export would take it";
  const auto vocabulary = events_of(folder, "vocabulary");
  ASSERT_EQ(vocabulary.size(), 1u);
  EXPECT_EQ(vocabulary[0]["coverage"], 1);
  EXPECT_FALSE(vocabulary[0].contains("validation_coverage"));
  const auto again = train_in(store, config, folder);  // through the state's file
  ASSERT_TRUE(again.ok()) << again.error().what;
  EXPECT_EQ(again->acceptance_estimate, std::nullopt);
  EXPECT_EQ(again->train_loss, result->train_loss);
}

TEST(Train, DoesNotTakeALossOfNothingForZero) {
  const std::string store = testing_store::make("nothing"), folder = fresh("nothing");
  TrainConfig config = small_config();
  config.max_length = 2;  // every sample's answer is cut off
  config.max_steps = 2;
  const auto result = train_in(store, config, folder);
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_EQ(result->train_loss, std::nullopt);
  EXPECT_EQ(result->validation_loss, std::nullopt);
  EXPECT_EQ(result->vocabulary_coverage, std::nullopt);
  for (const Json& step : events_of(folder, "train_step")) EXPECT_FALSE(step.contains("loss"));
  for (const Json& validation : events_of(folder, "validation")) {
    EXPECT_FALSE(validation.contains("loss"));
    EXPECT_FALSE(validation.contains("acceptance_estimate"));
  }
}

TEST(Train, AFinishedRunIsNotTrainedAgain) {
  const std::string store = testing_store::make("again"), folder = fresh("again");
  const auto once = train_in(store, small_config(), folder);
  ASSERT_TRUE(once.ok()) << once.error().what;
  const auto twice = train_in(store, small_config(), folder);
  ASSERT_TRUE(twice.ok()) << twice.error().what;
  EXPECT_EQ(events_of(folder, "train_step").size(), static_cast<size_t>(once->steps));
  EXPECT_EQ(twice->acceptance_estimate, once->acceptance_estimate);
  EXPECT_EQ(twice->accuracy, once->accuracy);
}

TEST(Train, RefusesToGoOnWithAnotherSettingStoreOrTarget) {
  const std::string store = testing_store::make("differs"), folder = fresh("differs");
  TrainConfig config = small_config();
  config.max_steps = 3;
  ASSERT_TRUE(train_in(store, config, folder).ok());

  TrainConfig other = config;
  other.lr = 1e-3;
  const auto setting = train_in(store, other, folder);
  ASSERT_FALSE(setting.ok());
  EXPECT_EQ(setting.error().code, Code::kInvalid);
  EXPECT_NE(setting.error().what.find("lr = 0.003"), std::string::npos) << setting.error().what;
  EXPECT_NE(setting.error().what.find("0.001"), std::string::npos) << setting.error().what;

  const auto target = train_in(testing_store::make("differs", {.fingerprint = "target B"}), config, folder);
  ASSERT_FALSE(target.ok());
  EXPECT_NE(target.error().what.find("target A"), std::string::npos) << target.error().what;
  EXPECT_NE(target.error().what.find("target B"), std::string::npos) << target.error().what;

  const auto grown = train_in(testing_store::make("differs", {.samples = 50}), config, folder);
  ASSERT_FALSE(grown.ok());
  EXPECT_NE(grown.error().what.find("samples"), std::string::npos) << grown.error().what;
}

TEST(Train, StopsAtALossThatIsNotFiniteAndNamesStepAndSamples) {
  const std::string store = testing_store::make("nan", {.samples = 12}), folder = fresh("nan");
  const TrainConfig config = small_config();
  ASSERT_FALSE(train_until(store, config, folder, 1).ok());
  // A state whose weights have run away.
  const std::string path = folder + "/checkpoints/last/resume.safetensors";
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok());
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  for (const TensorView& t : file->tensors()) {
    tensors.push_back({t.name, t.dtype, t.shape, {t.bytes.begin(), t.bytes.end()}});
    if (t.name != "midlayer.mlp.down_proj.weight") continue;
    tensors.back() = tensor_f32(t.name, t.shape, std::vector<float>(t.bytes.size() / 4, 3e38f));
  }
  for (const Tensor& t : tensors) views.push_back(t.view());
  ASSERT_TRUE(write_safetensors(real_file_system(), path, views, file->metadata()).ok());
  const size_t done = events_of(folder, "train_step").size();
  const auto result = train_in(store, config, folder);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().what.find("step " + std::to_string(done + 1)), std::string::npos) << result.error().what;
  EXPECT_NE(result.error().what.find("sample-"), std::string::npos) << result.error().what;
  EXPECT_EQ(events_of(folder, "train_step").size(), done);
}

TEST(Train, KeepsToATimeLimit) {
  const std::string store = testing_store::make("limit"), folder = fresh("limit");
  TrainConfig config = small_config();
  config.epochs = 100000;
  config.time_limit_s = 2;
  const auto begun = std::chrono::steady_clock::now();
  const auto result = train_in(store, config, folder);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  ASSERT_TRUE(result.ok()) << result.error().what;
  EXPECT_LT(seconds, 15);
  const auto steps = events_of(folder, "train_step");
  ASSERT_GT(steps.size(), 3u);
  EXPECT_LT(steps.back()["lr"].get<double>(), 0.6 * config.lr) << "the schedule ends where the time does";
}

TEST(Train, RefusesCudaAndAStoreWithoutSupervision) {
  const std::string store = testing_store::make("refuses", {.samples = 0});
  TrainConfig config = small_config();
  EXPECT_EQ(train_in(store, config, fresh("empty")).error().code, Code::kInvalid);
  config.device = "cuda";
  const auto cuda = train_in(store, config, fresh("cuda"));
  ASSERT_FALSE(cuda.ok());
  EXPECT_NE(cuda.error().what.find("CPU"), std::string::npos);
}

// Run as a child by the next test, and killed there.
TEST(TrainVictim, DISABLED_TrainsUntilKilled) {
  TrainConfig config = small_config();
  config.epochs = 100000;
  config.checkpoint_every = 1;
  ASSERT_TRUE(train_in(std::getenv("AERIE_TEST_STORE"), config, std::getenv("AERIE_TEST_RUN")).ok());
}

TEST(Train, AKillAtAnyMomentLeavesACheckpointToGoOnFrom) {
  const std::string store = testing_store::make("killed"), folder = fresh("killed");
  setenv("AERIE_TEST_STORE", store.c_str(), 1);
  setenv("AERIE_TEST_RUN", folder.c_str(), 1);
  int64_t before = 0;
  for (int round = 0; round < 4; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "train_test", "--gtest_filter=TrainVictim.DISABLED_TrainsUntilKilled",
            "--gtest_also_run_disabled_tests", nullptr);
      _exit(127);
    }
    ASSERT_GT(child, 0);
    // Until it has saved something newer, then a little longer, a different while each round.
    for (int wait = 0; wait < 2000; ++wait) {
      const auto saved = read_checkpoint(folder + "/checkpoints/last/draft.safetensors");
      if (saved.ok() && saved->step > before) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1700 * round));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    const auto saved = read_checkpoint(folder + "/checkpoints/last/draft.safetensors");
    ASSERT_TRUE(saved.ok()) << saved.error().what;
    EXPECT_GT(saved->step, before) << "round " << round << " went on from the one before";
    before = saved->step;
  }
  TrainConfig config = small_config();
  config.epochs = 100000;
  const auto rest = train_until(store, config, folder, 1);
  EXPECT_EQ(rest.error().code, Code::kCancelled) << rest.error().what;
}

}  // namespace
}  // namespace aerie
