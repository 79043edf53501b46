#include "train/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "samples/samples.h"
#include "train/hanging_storage_for_tests.h"
#include "train/schedule.h"
#include "train/store_for_tests.h"

namespace aerie {
namespace {

std::vector<SampleInfo> infos(int count) {
  std::vector<SampleInfo> samples;
  for (int i = 0; i < count; ++i) samples.push_back({"sample-" + std::to_string(i), 10 + i % 30, i % 10 == 9 ? 0 : 5});
  return samples;
}

TEST(SampleSplit, IsDisjointWholeAndLeavesOutWhatHasNoSupervision) {
  const auto samples = infos(1000);
  const SampleSplit split = split_samples(samples, 0.1);
  std::set<size_t> seen(split.train.begin(), split.train.end());
  for (const size_t i : split.validation) EXPECT_TRUE(seen.insert(i).second);
  EXPECT_EQ(seen.size(), 900u);
  EXPECT_NEAR(static_cast<double>(split.validation.size()) / 900, 0.1, 0.03);
}

TEST(SampleSplit, DoesNotMoveASampleWhenTheStoreGrows) {
  const auto few = infos(200), many = infos(400);
  const SampleSplit a = split_samples(few, 0.2), b = split_samples(many, 0.2);
  for (const size_t i : a.validation)
    EXPECT_TRUE(std::find(b.validation.begin(), b.validation.end(), i) != b.validation.end());
  for (const size_t i : a.train) EXPECT_TRUE(std::find(b.train.begin(), b.train.end(), i) != b.train.end());
}

TEST(SampleSplit, KeepsTheAnswersToOnePromptOnOneSide) {
  std::vector<SampleInfo> samples;
  for (int i = 0; i < 200; ++i)
    for (int n = 1; n <= 3; ++n) samples.push_back({answer_id("p" + std::to_string(i), n), 10, 5});
  const SampleSplit split = split_samples(samples, 0.3);
  std::map<size_t, int> of_prompt;
  for (const size_t i : split.validation) ++of_prompt[i / 3];
  ASSERT_FALSE(of_prompt.empty());
  for (const auto& [prompt, count] : of_prompt) EXPECT_EQ(count, 3) << "p" << prompt;
}

TEST(SampleSplit, TakesAHashInADatasetsOwnIdsForNothingElse) {
  std::vector<SampleInfo> samples;
  for (int i = 1; i <= 500; ++i) samples.push_back({"dolly#" + std::to_string(i), 10, 5});
  EXPECT_NEAR(static_cast<double>(split_samples(samples, 0.3).validation.size()), 150, 45);
}

TEST(SampleSplit, GivesASmallStoreOneSampleOnEachSide) {
  const auto samples = infos(3);
  EXPECT_EQ(split_samples(samples, 0.0001).validation.size(), 1u);
  EXPECT_EQ(split_samples(samples, 0.9999).train.size(), 1u);
  EXPECT_TRUE(split_samples(samples, 0).validation.empty());
}

TEST(DataOrder, HoldsEverySampleOnceAnEpochInBatchesOfAboutTheSameSize) {
  const auto samples = infos(300);
  const SampleSplit split = split_samples(samples, 0.1);
  const DataOrder order(samples, split.train, 25, 100, 7);
  const auto batches = order.epoch(0);
  EXPECT_EQ(static_cast<int64_t>(batches.size()), order.batches_an_epoch());
  std::multiset<size_t> seen;
  for (const Batch& batch : batches) {
    int64_t tokens = 0;
    for (const size_t i : batch) {
      tokens += std::min<int64_t>(samples[i].token_count, 25);
      seen.insert(i);
    }
    EXPECT_LT(tokens, 100 + 25);
    EXPECT_GT(tokens, 100 - 2 * 25);
  }
  EXPECT_EQ(seen, std::multiset<size_t>(split.train.begin(), split.train.end()));
}

TEST(DataOrder, FollowsFromSeedAndEpochAlone) {
  const auto samples = infos(50);
  const SampleSplit split = split_samples(samples, 0);
  DataOrder a(samples, split.train, 100, 64, 7);
  const DataOrder b(samples, split.train, 100, 64, 7), other(samples, split.train, 100, 64, 8);
  EXPECT_EQ(a.epoch(2), b.epoch(2));
  EXPECT_NE(a.epoch(2), a.epoch(3));
  EXPECT_NE(a.epoch(2), other.epoch(2));
  EXPECT_EQ(a.batch(3 * a.batches_an_epoch() + 1), b.epoch(3)[1]);
  EXPECT_EQ(a.batch(2 * a.batches_an_epoch()), b.epoch(2)[0]);
}

TEST(DataOrder, HasTheSameNumberOfBatchesInEveryEpochWhateverTheLengths) {
  std::vector<SampleInfo> samples = {{"a", 500, 5}, {"b", 3, 3}, {"c", 700, 5}, {"d", 5, 5}, {"e", 1, 1}};
  for (const int batch_tokens : {1, 10, 100, 400, 5000}) {
    const DataOrder order(samples, {0, 1, 2, 3, 4}, 1000, batch_tokens, 1);
    for (int64_t epoch = 0; epoch < 20; ++epoch) {
      const auto batches = order.epoch(epoch);
      ASSERT_EQ(static_cast<int64_t>(batches.size()), order.batches_an_epoch()) << batch_tokens;
      for (const Batch& batch : batches) ASSERT_FALSE(batch.empty());
    }
  }
}

TEST(BatchReader, ReadsInOrderAndThenSaysThatThereIsNoMore) {
  const std::string path = testing_store::make("reader", {.samples = 12});
  const std::shared_ptr<const StoreReader> store = *StoreReader::open(real_file_system(), path);
  DataOrder order(store->samples(), {3, 1, 0, 5, 6, 7}, 16, 32, 1);
  const int64_t from = 1, to = 3 * order.batches_an_epoch() + 1;
  BatchReader reader(store, order, from, to, 16, 1);  // one byte: never more than one batch waits
  for (int64_t step = from; step < to; ++step) {
    const Batch batch = order.batch(step);
    const auto samples = reader.next();
    ASSERT_TRUE(samples.ok()) << samples.error().what;
    ASSERT_EQ(samples->size(), batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ((*samples)[i].id, store->samples()[batch[i]].id);
      EXPECT_LE((*samples)[i].input_ids.size(), 16u);
      EXPECT_EQ((*samples)[i].aux.size(), (*samples)[i].input_ids.size() * 3 * testing_store::kHidden);
    }
  }
  EXPECT_EQ(reader.next().error().code, Code::kNotFound);
}

TEST(BatchReader, StopsWithoutBeingReadToTheEnd) {
  const std::string path = testing_store::make("dropped", {.samples = 12});
  const std::shared_ptr<const StoreReader> store = *StoreReader::open(real_file_system(), path);
  const BatchReader reader(store, DataOrder(store->samples(), {0, 1, 2, 3}, 16, 16, 1), 0, 1'000'000'000, 16, 1);
}

TEST(BatchReader, EndsSoonWhenAskedOnAStorageThatHangs) {
  const std::string path = testing_store::make("hangs", {.samples = 12});
  auto& storage = *new testing_store::HangingStorage(2);
  std::shared_ptr<const StoreReader> store = *StoreReader::open(storage, path);
  const auto before = std::chrono::steady_clock::now();
  {
    // A sample a batch: two are read, the third hangs.
    BatchReader reader(store, DataOrder(store->samples(), {0, 1, 2, 3}, 16, 1, 1), 0, 4, 16, 1 << 20);
    store.reset();  // what the thread uses, it owns
    ASSERT_TRUE(storage.wait_until_reached());
    std::stop_source source;
    EXPECT_TRUE(reader.next(source.get_token()).ok());
    source.request_stop();
    EXPECT_TRUE(reader.next(source.get_token()).ok()) << "what is there is given";
    const auto none = reader.next(source.get_token());
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, Code::kCancelled) << none.error().what;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10)) << "the thread was given up";
  storage.release();
}

TEST(BatchReader, WaitsForABatchNoLongerThanItsDeadline) {
  const std::string path = testing_store::make("late", {.samples = 12});
  auto& storage = *new testing_store::HangingStorage(0);
  const std::shared_ptr<const StoreReader> store = *StoreReader::open(storage, path);
  BatchReader reader(store, DataOrder(store->samples(), {0, 1}, 16, 1, 1), 0, 2, 16, 1, 0.3);
  const auto late = reader.next();
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kTimeout) << late.error().what;
  storage.release();
}

TEST(LearningRate, RisesLinearlyAndFallsByACosine) {
  EXPECT_DOUBLE_EQ(learning_rate(1, 0.1, 0.2, 0.05), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(1, 0.1, 0.2, 0.1), 1);
  EXPECT_NEAR(learning_rate(1, 0.1, 0.2, 0.55), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(1, 0.1, 0.2, 1), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(1, 0, 0.2, 1), 0.2);
}

}  // namespace
}  // namespace aerie
