// What survives power cuts, kills, full and failing disks, tried at every operation on a simulated disk.
#include <cerrno>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sim_file.h"
#include "store/samples_for_tests.h"
#include "store/shard.h"
#include "store/store.h"

namespace aerie {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPath = "data/run/store";

StoreHeader tiny_header() {
  StoreHeader header = small_header("BF16", 8);
  header.boundaries = {2};
  return header;
}
Sample tiny_sample(const std::string& id) { return small_sample(tiny_header(), id, 5, std::hash<std::string>{}(id)); }

// What the writer has promised so far.
struct Promises {
  std::vector<std::string> stored, skipped;
  void take(const std::vector<std::string>& ids) { stored.insert(stored.end(), ids.begin(), ids.end()); }
};

// Puts what is missing of a to d into the store, two samples a shard, and skips x and y.
Status work(FileSystem& fs, Promises& promises) {
  TRY(auto writer, StoreWriter::open(fs, kPath, tiny_header(), {}));
  for (const char* id : {"a", "b", "x", "c", "y", "d"}) {
    if (writer->present().contains(id)) continue;
    if (*id >= 'x') {
      CHECKED(writer->skip(id, "not for training"));
      promises.skipped.push_back(id);
    } else {
      TRY(const auto durable, writer->add(tiny_sample(id)));
      promises.take(durable);
    }
    if (*id == 'b' || *id == 'd') {
      TRY(const auto durable, writer->seal());
      promises.take(durable);
    }
  }
  return ok_status();
}

// All that was promised is there, and all that is there is right.
void check(SimFileSystem& disk, const Promises& promises, const std::string& when) {
  auto reader = StoreReader::open(disk, kPath);
  if (!reader.ok()) {
    EXPECT_TRUE(promises.stored.empty()) << when << ": " << reader.error().what;
    // Before the folders are durable there is no store; nothing else may be wrong with it.
    EXPECT_EQ(reader.error().code, Code::kNotFound) << when << ": " << reader.error().what;
    return;
  }
  std::vector<std::string> found;
  for (size_t i = 0; i < (*reader)->samples().size(); ++i) {
    auto read = (*reader)->read(i);
    ASSERT_TRUE(read.ok()) << when << ": " << read.error().what;
    EXPECT_TRUE(same_sample(*read, tiny_sample(read->id))) << when;
    found.push_back(read->id);
  }
  EXPECT_THAT(found, testing::IsSupersetOf(promises.stored)) << when;
  const Status verified = (*reader)->verify();
  EXPECT_TRUE(verified.ok()) << when << ": " << verified.error().what;
}

// A new run finishes the work: everything is there once, and nothing unfinished lies about.
void check_going_on(SimFileSystem& disk, Promises promises, const std::string& when) {
  {
    auto writer = StoreWriter::open(disk, kPath, tiny_header(), {});
    ASSERT_TRUE(writer.ok()) << when << ": " << writer.error().what;
    for (const auto& id : promises.skipped) EXPECT_TRUE((*writer)->present().contains(id)) << when << ": " << id;
  }
  const Status done = work(disk, promises);
  ASSERT_TRUE(done.ok()) << when << ": " << done.error().what;
  promises.stored = {"a", "b", "c", "d"};
  auto cut = disk.after_crash(0, SimFileSystem::Survives::kSynced);
  check(*cut, promises, when + ", finished");
  EXPECT_EQ((*StoreReader::open(*cut, kPath))->samples().size(), 4u) << when;
  ASSERT_TRUE(StoreWriter::open(*cut, kPath, tiny_header(), {}).ok());  // removes what is unfinished
  auto names = cut->list(kPath + "/shards");
  ASSERT_TRUE(names.ok());
  for (const auto& name : *names) EXPECT_THAT(name, testing::EndsWith(".safetensors")) << when;
}

std::vector<std::pair<SimFileSystem::Survives, uint64_t>> crashes() {
  using S = SimFileSystem::Survives;
  return {{S::kSynced, 0}, {S::kAll, 0}, {S::kPrefix, 1}, {S::kPrefix, 2}, {S::kPrefix, 3},
          {S::kSubset, 1}, {S::kSubset, 2}, {S::kSubset, 3}, {S::kSubset, 4}};
}

TEST(StoreCrash, AtAnyOperationLosesNothingPromisedAndShowsNothingTorn) {
  int64_t operations = 0;
  for (int64_t op = 1;; ++op) {
    SimFileSystem disk;
    disk.stop_at(op);
    Promises promises;
    const bool done = work(disk, promises).ok();
    for (const auto& [survives, seed] : crashes()) {
      auto after = disk.after_crash(seed, survives);
      const std::string when = "stopped at operation " + std::to_string(op) + ", crash " +
                               std::to_string(static_cast<int>(survives)) + "/" + std::to_string(seed);
      check(*after, promises, when);
      check_going_on(*after, promises, when);
      if (HasFailure()) return;
    }
    operations = op;
    if (done) break;
  }
  EXPECT_GT(operations, 30);
}

TEST(StoreCrash, DuringTheRunAfterACrashLosesNothingEither) {
  for (int64_t op = 5;; op += 5) {
    SimFileSystem disk;
    disk.stop_at(op);
    Promises promises;
    const bool done = work(disk, promises).ok();
    for (int64_t second = 1;; second += 3) {
      auto again = disk.after_crash(static_cast<uint64_t>(op), SimFileSystem::Survives::kSubset);
      again->stop_at(again->operations() + second);
      Promises more = promises;
      const bool finished = work(*again, more).ok();
      auto after = again->after_crash(static_cast<uint64_t>(second), SimFileSystem::Survives::kSubset);
      const std::string when = "operations " + std::to_string(op) + " and " + std::to_string(second);
      check(*after, more, when);
      check_going_on(*after, more, when);
      if (HasFailure()) return;
      if (finished) break;
    }
    if (done) break;
  }
}

// Every call that changes the disk fails once, at every place; the writer is asked again and ends with everything stored.
TEST(StoreFault, OfAnyCallIsReportedAndTheSamplesAreWrittenAnew) {
  using Call = SimFileSystem::Call;
  for (const auto shows : {SimFileSystem::AfterFailedSync::kShowsNew, SimFileSystem::AfterFailedSync::kShowsOld}) {
    for (const Call call : {Call::kCreate, Call::kWrite, Call::kSync, Call::kClose, Call::kLink, Call::kSyncFolder}) {
      for (int64_t nth = 1; nth <= 12; ++nth) {
        SimFileSystem disk;
        disk.set_after_failed_sync(shows);
        auto writer = StoreWriter::open(disk, kPath, tiny_header(), {});
        ASSERT_TRUE(writer.ok());
        disk.fail(call, nth, EIO);
        Promises promises;
        int failures = 0;
        const auto until_done = [&](auto what) {
          for (int tries = 0; tries < 3; ++tries) {
            auto result = what();
            if (result.ok()) return;
            EXPECT_NE(result.error().code, Code::kInvalid) << result.error().what;
            ++failures;
          }
          ADD_FAILURE() << "failed three times";
        };
        const auto seal = [&]() -> Status {
          TRY(const auto durable, (*writer)->seal());
          promises.take(durable);
          return ok_status();
        };
        for (const char* id : {"a", "b"}) ASSERT_TRUE((*writer)->add(tiny_sample(id)).ok());
        until_done(seal);
        until_done([&] { return (*writer)->skip("x", "reason"); });
        ASSERT_TRUE((*writer)->add(tiny_sample("c")).ok());
        until_done(seal);
        EXPECT_LE(failures, 1);
        EXPECT_THAT(promises.stored, ElementsAre("a", "b", "c"));
        promises.skipped = {"x"};
        const std::string when = "call " + std::to_string(static_cast<int>(call)) + ", " + std::to_string(nth);
        for (const auto& [survives, seed] : crashes()) {
          auto after = disk.after_crash(seed, survives);
          check(*after, promises, when);
        }
        auto after = disk.after_crash(0, SimFileSystem::Survives::kSynced);
        check_going_on(*after, promises, when);
        if (HasFailure()) return;
      }
    }
  }
}

// A writer that ends between making the folders and syncing them leaves names that the next one finds, not durable yet.
TEST(StoreFault, WhileTheStoreIsMadeLeavesNothingThatTheNextWriterTrustsWrongly) {
  using Call = SimFileSystem::Call;
  for (const Call call : {Call::kMakeFolder, Call::kCreate, Call::kWrite, Call::kSync, Call::kRename, Call::kSyncFolder}) {
    for (int64_t nth = 1; nth <= 6; ++nth) {
      SimFileSystem disk;
      disk.fail(call, nth, EIO);
      Promises promises;
      (void)StoreWriter::open(disk, kPath, tiny_header(), {}).ok();
      const Status done = work(disk, promises);
      if (!done.ok()) continue;  // the failure came later than the store's making
      auto after = disk.after_crash(0, SimFileSystem::Survives::kSynced);
      check(*after, promises, "call " + std::to_string(static_cast<int>(call)) + ", " + std::to_string(nth));
    }
  }
}

TEST(StoreFault, AFullDiskIsKFullHurtsNothingAndTheWriterGoesOnWhenThereIsSpace) {
  for (uint64_t bytes = 1000; bytes < 80000; bytes += 3000) {
    SimFileSystem disk;
    auto writer = StoreWriter::open(disk, kPath, tiny_header(), {});
    ASSERT_TRUE(writer.ok());
    Promises promises;
    ASSERT_TRUE((*writer)->add(tiny_sample("a")).ok());
    promises.take(*(*writer)->seal());
    disk.limit_space(bytes);
    bool was_full = false;
    for (const char* id : {"b", "c", "d"}) {
      ASSERT_TRUE((*writer)->add(tiny_sample(id)).ok());
      auto sealed = (*writer)->seal();
      if (sealed.ok()) {
        promises.take(*sealed);
        continue;
      }
      was_full = true;
      EXPECT_EQ(sealed.error().code, Code::kFull) << sealed.error().what;
      EXPECT_THAT(sealed.error().what, HasSubstr("stay in memory"));
      check(disk, promises, "full at " + std::to_string(bytes));
      // Given again, as a caller that did not keep count would do: taken once.
      auto again = (*writer)->add(tiny_sample(id));
      EXPECT_EQ(again.error().code, Code::kFull);
      break;
    }
    disk.limit_space(1 << 30);
    promises.take(*(*writer)->seal());
    auto after = disk.after_crash(1, SimFileSystem::Survives::kSynced);
    check(*after, promises, "space again after " + std::to_string(bytes));
    check_going_on(*after, promises, "after " + std::to_string(bytes));
    if (HasFailure()) return;
    EXPECT_TRUE(was_full || promises.stored.size() == 4u) << bytes;
  }
}

TEST(StoreFault, AReadOnlyDiskIsNotTheSamplesFault) {
  SimFileSystem disk;
  auto writer = StoreWriter::open(disk, kPath, tiny_header(), {});
  ASSERT_TRUE((*writer)->add(tiny_sample("a")).ok());
  disk.set_read_only(true);
  EXPECT_EQ((*writer)->seal().error().code, Code::kUnavailable);
  EXPECT_EQ(StoreWriter::open(disk, "other", tiny_header(), {}).ok(), false);
  disk.set_read_only(false);
  EXPECT_THAT(*(*writer)->seal(), ElementsAre("a"));
}

TEST(StoreFault, DamageOnTheDiskIsNeverReadAsASample) {
  SimFileSystem disk;
  Promises promises;
  ASSERT_TRUE(work(disk, promises).ok());
  const std::string shard = kPath + "/shards/" + disk.list(kPath + "/shards")->front();
  const uint64_t size = disk.info(shard)->size_bytes;
  const std::vector<std::byte> zeros(512);
  for (uint64_t at = 0; at < size; at += 512) {
    auto copy = disk.after_crash(0, SimFileSystem::Survives::kAll);
    auto before = read_file(*copy, shard);
    ASSERT_TRUE(copy->damage(shard, at, zeros).ok());
    if (*before == *read_file(*copy, shard)) continue;  // zeros over zeros
    auto reader = StoreReader::open(*copy, kPath);
    if (!reader.ok()) continue;
    EXPECT_FALSE((*reader)->verify().ok()) << at;
  }
}

TEST(StoreShard, IsNeverReplacedByAnotherOfItsName) {
  SimFileSystem disk;
  ASSERT_TRUE(disk.make_folders("shards").ok());
  const ShardFacts facts{"uuid", "fp-1", {8, 1, 1000, 2, DType::kBF16}};
  const auto publish = [&](const std::string& id) -> Status {
    std::vector<Record> records;
    TRY(Record record, encode_record(facts.shape, tiny_sample(id), 0));
    records.push_back(std::move(record));
    TRY(const std::string head, lay_out_shard(facts, WriterId{}, records));
    return publish_shard(disk, "shards", "s1", head, records);
  };
  ASSERT_TRUE(publish("a").ok());
  EXPECT_EQ(publish("b").error().code, Code::kExists);
  EXPECT_EQ(read_shard_index(disk, "shards/s1.safetensors", facts)->entries[0].id, "a");
  EXPECT_THAT(*disk.list("shards"), ElementsAre("s1.safetensors"));
}

// A disk that lies about syncs cannot be outwitted, but what comes back must show it, not be taken for whole.
TEST(StoreFault, ALyingDiskShowsItsLossAfterTheCrash) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimFileSystem disk;
    disk.set_sync_lies(true);
    Promises promises;
    ASSERT_TRUE(work(disk, promises).ok());
    auto after = disk.after_crash(seed, SimFileSystem::Survives::kSubset);
    auto reader = StoreReader::open(*after, kPath);
    if (!reader.ok()) continue;
    for (size_t i = 0; i < (*reader)->samples().size(); ++i) {
      auto read = (*reader)->read(i);
      EXPECT_TRUE(!read.ok() || same_sample(*read, tiny_sample(read->id))) << seed;
    }
  }
}

}  // namespace
}  // namespace aerie
