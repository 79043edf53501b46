#include "base/sim_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace aerie {
namespace {

using Survives = SimFileSystem::Survives;
using Call = SimFileSystem::Call;
using testing::ElementsAre;
using testing::HasSubstr;

std::string content(FileSystem& fs, const std::string& path) {
  const auto text = read_file(fs, path);
  return text ? *text : "(" + std::string(code_name(text.error().code)) + ")";
}

std::unique_ptr<WritableFile> made(FileSystem& fs, const std::string& path, Create how = Create::kNew) {
  auto file = fs.create(path, how);
  EXPECT_TRUE(file.ok()) << file.error().what;
  return file ? std::move(*file) : nullptr;
}

void put(FileSystem& fs, const std::string& path, std::string_view text) {
  const auto file = made(fs, path, Create::kTruncate);
  ASSERT_TRUE(file->write(as_bytes(text)).ok());
  ASSERT_TRUE(file->close().ok());
}

void put_synced(FileSystem& fs, const std::string& path, std::string_view text) {
  const auto file = made(fs, path, Create::kTruncate);
  ASSERT_TRUE(file->write(as_bytes(text)).ok());
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(fs.sync_folder(folder_of(path)).ok());
}

TEST(SimFileSystem, BehavesLikeAFileSystem) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.make_folders("/a/b").ok());
  put(fs, "/a/b/one", "1");
  EXPECT_EQ(content(fs, "a//b/./one"), "1");
  ASSERT_TRUE(fs.link("/a/b/one", "/a/two").ok());
  EXPECT_EQ(fs.link("/a/b/one", "/a/two").error().code, Code::kExists);
  ASSERT_TRUE(fs.rename("/a/two", "/a/three").ok());
  EXPECT_EQ(content(fs, "/a/two"), "(not_found)");
  EXPECT_THAT(*fs.list("/a"), ElementsAre("b", "three"));
  EXPECT_TRUE(fs.info("/a/b")->folder);
  EXPECT_FALSE(fs.remove("/a/b").ok()) << "it is not empty";
  ASSERT_TRUE(fs.remove("/a/b/one").ok());
  ASSERT_TRUE(fs.remove("/a/b").ok());
  EXPECT_EQ(content(fs, "/a/three"), "1") << "the other name of the file stays";
  EXPECT_EQ(fs.create("/a/three", Create::kNew).error().code, Code::kExists);
  EXPECT_EQ(fs.create("/no/file", Create::kNew).error().code, Code::kNotFound);
  EXPECT_EQ(fs.open("/a").error().code, Code::kInvalid);
  EXPECT_FALSE(fs.list("/a/three").ok());
  EXPECT_FALSE(fs.make_folders("/a/three/x").ok());
  EXPECT_FALSE(fs.rename("/a", "/a/inside").ok()) << "a folder cannot go into itself";
}

TEST(SimFileSystem, AppendsAndOverwritesAndReadsBack) {
  SimFileSystem fs;
  put(fs, "f", "hello");
  auto file = made(fs, "f", Create::kAppend);
  ASSERT_TRUE(file->write(as_bytes(" you")).ok());
  ASSERT_TRUE(file->write_at(0, as_bytes("J")).ok());
  ASSERT_TRUE(file->write_at(11, as_bytes("!")).ok());
  ASSERT_TRUE(file->write(as_bytes("?")).ok());
  EXPECT_EQ(content(fs, "f"), std::string("Jello you\0\0!?", 13));
  std::byte beyond[20];
  EXPECT_EQ((*fs.open("f"))->read_at(0, beyond).error().code, Code::kCorrupt);
}

TEST(SimFileSystem, LosesAWriteThatWasNotSyncedThoughTheFileWasClosed) {
  SimFileSystem fs;
  put_synced(fs, "f", "old");
  {
    auto file = made(fs, "f", Create::kTruncate);
    ASSERT_TRUE(file->write(as_bytes("new")).ok());
    ASSERT_TRUE(file->close().ok());
  }
  EXPECT_EQ(content(fs, "f"), "new");
  EXPECT_EQ(content(*fs.after_crash(1, Survives::kSynced), "f"), "old");
  EXPECT_EQ(content(*fs.after_crash(1, Survives::kAll), "f"), "new");
}

TEST(SimFileSystem, LosesANameWhoseFolderWasNotSyncedThoughTheFileWas) {
  SimFileSystem fs;
  auto file = made(fs, "f");
  ASSERT_TRUE(file->write(as_bytes("x")).ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_FALSE(*fs.after_crash(1, Survives::kSynced)->exists("f"));
  ASSERT_TRUE(fs.sync_folder(".").ok());
  EXPECT_EQ(content(*fs.after_crash(1, Survives::kSynced), "f"), "x");
}

TEST(SimFileSystem, KeepsASyncedNameOnlyIfItsFoldersOwnNameIsSynced) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.make_folders("a/b").ok());
  put_synced(fs, "a/b/f", "x");
  EXPECT_FALSE(*fs.after_crash(1, Survives::kSynced)->exists("a"));
  ASSERT_TRUE(fs.sync_folder("a").ok());
  ASSERT_TRUE(fs.sync_folder(".").ok());
  EXPECT_EQ(content(*fs.after_crash(1, Survives::kSynced), "a/b/f"), "x");
}

TEST(SimFileSystem, MovesANameWhollyOrNotAtAll) {
  SimFileSystem fs;
  ASSERT_TRUE(fs.make_folders("a").ok());
  ASSERT_TRUE(fs.make_folders("b").ok());
  ASSERT_TRUE(fs.sync_folder(".").ok());
  put_synced(fs, "a/f", "x");
  ASSERT_TRUE(fs.rename("a/f", "b/f").ok());
  int moved = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    auto after = fs.after_crash(seed);
    EXPECT_NE(*after->exists("a/f"), *after->exists("b/f")) << seed;
    moved += *after->exists("b/f") ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
  EXPECT_LT(moved, 40);
}

// The states that seeds lead to must hold the nasty ones, or the tests that build on them prove nothing.
TEST(SimFileSystem, TearsAWriteAtSectorsInEveryWayThatADiskMay) {
  SimFileSystem fs;
  put_synced(fs, "f", std::string(2048, 'o'));
  auto file = made(fs, "f", Create::kAppend);
  ASSERT_TRUE(file->write_at(0, as_bytes(std::string(2048, 'n'))).ok());
  bool none = false, all = false, first_only = false, hole = false;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = content(*fs.after_crash(seed), "f");
    ASSERT_EQ(text.size(), 2048u);
    std::string sectors;
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_EQ(text.substr(512 * i, 512), std::string(512, text[512 * i])) << "no sector is torn inside";
      sectors += text[512 * i];
    }
    none |= sectors == "oooo";
    all |= sectors == "nnnn";
    first_only |= sectors == "nooo";
    hole |= sectors == "nono" || sectors == "onon" || sectors == "noon";
  }
  EXPECT_TRUE(none && all && first_only && hole) << none << all << first_only << hole;
}

TEST(SimFileSystem, MayLeaveASizeThatIsAheadOfItsData) {
  SimFileSystem fs;
  put_synced(fs, "f", "");
  put(fs, "f", std::string(1000, 'x'));
  bool zeros = false;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = content(*fs.after_crash(seed), "f");
    zeros |= text.size() == 1000 && text.find('\0') != std::string::npos;
  }
  EXPECT_TRUE(zeros);
}

TEST(SimFileSystem, GivesTheSameDiskForTheSameSeed) {
  SimFileSystem fs;
  for (int i = 0; i < 20; ++i) put(fs, "f" + std::to_string(i), std::string(2000, 'x'));
  for (uint64_t seed = 0; seed < 5; ++seed) {
    auto a = fs.after_crash(seed), b = fs.after_crash(seed);
    ASSERT_EQ(*a->list("/"), *b->list("/"));
    const std::vector<std::string> names = *a->list("/");
    for (const std::string& name : names) EXPECT_EQ(content(*a, name), content(*b, name));
  }
}

TEST(SimFileSystem, SyncsAgainWithoutErrorAfterAFailedSyncButTheDataIsLost) {
  for (const auto shows : {SimFileSystem::AfterFailedSync::kShowsNew, SimFileSystem::AfterFailedSync::kShowsOld}) {
    SimFileSystem fs;
    fs.set_after_failed_sync(shows);
    put_synced(fs, "f", "old");
    auto file = made(fs, "f", Create::kAppend);
    ASSERT_TRUE(file->write_at(0, as_bytes("new")).ok());
    fs.fail(Call::kSync, 1, EIO);
    const Status failed = file->sync();
    ASSERT_FALSE(failed.ok());
    EXPECT_THAT(failed.error().what, HasSubstr("syncing f: Input/output error"));
    EXPECT_EQ(content(fs, "f"), shows == SimFileSystem::AfterFailedSync::kShowsNew ? "new" : "old");
    auto again = made(fs, "f", Create::kAppend);
    EXPECT_TRUE(again->sync().ok()) << "the kernel reports the loss once";
    EXPECT_EQ(content(*fs.after_crash(1, Survives::kAll), "f"), "old");
  }
}

TEST(SimFileSystem, RefusesFurtherUseOfAFileThatFailed) {
  SimFileSystem fs;
  for (const Call call : {Call::kWrite, Call::kSync, Call::kClose}) {
    auto file = made(fs, "f", Create::kTruncate);
    fs.fail(call, 1, EIO);
    bool failed = !file->write(as_bytes("x")).ok();
    failed = failed || !file->sync().ok();
    failed = failed || !file->close().ok();
    ASSERT_TRUE(failed);
    EXPECT_THAT(file->write(as_bytes("y")).error().what, HasSubstr("must be written anew"));
    EXPECT_FALSE(file->sync().ok());
    EXPECT_FALSE(file->close().ok());
  }
}

TEST(SimFileSystem, FailsTheNthCallOnly) {
  SimFileSystem fs;
  fs.fail(Call::kCreate, 2, EROFS);
  EXPECT_TRUE(fs.create("a", Create::kNew).ok());
  const auto refused = fs.create("b", Create::kNew);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().what, HasSubstr("read-only: name another place"));
  EXPECT_TRUE(fs.create("c", Create::kNew).ok());
}

TEST(SimFileSystem, TakesWhatFitsOnAFullDiskAndSaysFull) {
  SimFileSystem fs;
  fs.limit_space(1000);
  put(fs, "a", std::string(600, 'a'));
  auto file = made(fs, "b");
  const Status full = file->write(as_bytes(std::string(500, 'b')));
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, Code::kFull);
  EXPECT_THAT(full.error().what, HasSubstr("free some space"));
  EXPECT_EQ(content(fs, "b"), std::string(400, 'b'));
  EXPECT_EQ(fs.space("/")->free_bytes, 0u);
  ASSERT_TRUE(fs.remove("a").ok());
  EXPECT_EQ(fs.space("/")->free_bytes, 600u);
  EXPECT_EQ(fs.space("/")->total_bytes, 1000u);
  auto overwrites = made(fs, "b", Create::kAppend);
  fs.limit_space(400);
  EXPECT_TRUE(overwrites->write_at(0, as_bytes(std::string(400, 'c'))).ok()) << "no new space is needed";
}

TEST(SimFileSystem, RefusesChangesWhenReadOnlyButReads) {
  SimFileSystem fs;
  put(fs, "f", "x");
  auto file = made(fs, "f", Create::kAppend);
  fs.set_read_only(true);
  EXPECT_FALSE(file->write(as_bytes("y")).ok());
  EXPECT_FALSE(fs.create("g", Create::kNew).ok());
  EXPECT_FALSE(fs.remove("f").ok());
  EXPECT_FALSE(fs.make_folders("d").ok());
  EXPECT_EQ(content(fs, "f"), "x");
}

TEST(SimFileSystem, StopsAtAChangeAndComesUpAgain) {
  SimFileSystem fs;
  fs.stop_at(3);
  auto file = made(fs, "f");
  ASSERT_TRUE(file->write(as_bytes("x")).ok());
  EXPECT_FALSE(file->sync().ok());
  EXPECT_FALSE(fs.open("f").ok()) << "a stopped machine does nothing";
  EXPECT_EQ(fs.history().size(), 2u);
  fs.crash(1, Survives::kAll);
  EXPECT_EQ(content(fs, "f"), "x");
  EXPECT_THAT(file->write(as_bytes("y")).error().what, HasSubstr("crashed"));
}

TEST(SimFileSystem, ShowsDamageThatNobodyWrote) {
  SimFileSystem fs;
  put_synced(fs, "f", "abc");
  ASSERT_TRUE(fs.damage("f", 1, as_bytes("X")).ok());
  EXPECT_EQ(content(*fs.after_crash(1, Survives::kSynced), "f"), "aXc");
}

// --- what file.h promises, proven at every point
// ----------------------------------------------------------------------

TEST(WriteFileAtomically, LeavesOldOrNewAtEveryCrash) {
  const std::string old_text(3000, 'o'), new_text(5000, 'n');
  bool saw_old = false, saw_new = false, done = false;
  for (int64_t op = 1; !done; ++op) {
    SimFileSystem fs;
    put_synced(fs, "f", old_text);
    fs.stop_at(fs.operations() + op);
    done = write_file_atomically(fs, "f", new_text).ok();
    for (uint64_t seed = 0; seed < 60; ++seed) {
      auto after = fs.after_crash(seed);
      const std::string text = content(*after, "f");
      ASSERT_TRUE(text == new_text || (!done && text == old_text))
          << "op " << op << " seed " << seed << " size " << text.size();
      (text == old_text ? saw_old : saw_new) = true;
    }
    ASSERT_LT(op, 20);
  }
  EXPECT_TRUE(saw_old && saw_new);
}

TEST(ReplaceFile, IsNotForThingsThatMustSurvive) {
  // The counter-proof: without the sync some crash leaves neither the old nor the new text, and this test would see it.
  SimFileSystem fs;
  put_synced(fs, "f", "old");
  ASSERT_TRUE(replace_file(fs, "f", std::string(3000, 'n')).ok());
  bool torn = false;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = content(*fs.after_crash(seed), "f");
    torn |= text != "old" && text != std::string(3000, 'n');
  }
  EXPECT_TRUE(torn);
}

TEST(WriteFileAtomically, RemovesItsTemporaryFileAndKeepsTheOldOneWhenItFails) {
  for (const auto& [call, error_number] : std::vector<std::pair<Call, int>>{{Call::kCreate, EACCES},
                                                                            {Call::kWrite, ENOSPC},
                                                                            {Call::kSync, EIO},
                                                                            {Call::kClose, EIO},
                                                                            {Call::kRename, EXDEV}}) {
    SimFileSystem fs;
    put_synced(fs, "f", "old");
    fs.fail(call, 1, error_number);
    EXPECT_FALSE(write_file_atomically(fs, "f", "new").ok());
    EXPECT_EQ(content(fs, "f"), "old");
    EXPECT_THAT(*fs.list("/"), ElementsAre("f"));
  }
}

TEST(PublishNew, LeavesAWholeFileOrNoneUnderTheFinalNameAtEveryCrash) {
  const std::string text(3000, 'x');
  bool done = false;
  for (int64_t op = 1; !done; ++op) {
    SimFileSystem fs;
    put_synced(fs, "part", text);
    fs.stop_at(fs.operations() + op);
    done = publish_new(fs, "part", "final").ok();
    for (uint64_t seed = 0; seed < 40; ++seed) {
      auto after = fs.after_crash(seed);
      if (done || *after->exists("final"))
        ASSERT_EQ(content(*after, "final"), text) << "op " << op << " seed " << seed;
      else
        ASSERT_EQ(content(*after, "part"), text) << "op " << op << " seed " << seed;
    }
    ASSERT_LT(op, 10);
  }
}

TEST(PublishNew, NeverReplacesAFileAndKeepsTheTemporaryOne) {
  SimFileSystem fs;
  put(fs, "part", "mine");
  put(fs, "final", "theirs");
  EXPECT_EQ(publish_new(fs, "part", "final").error().code, Code::kExists);
  EXPECT_EQ(content(fs, "final"), "theirs");
  EXPECT_EQ(content(fs, "part"), "mine");
}

TEST(PublishNew, IsDoneWhenOnlyTheTemporaryCannotBeRemoved) {
  SimFileSystem fs;
  put_synced(fs, "part", "mine");
  fs.fail(Call::kRemove, 1, EACCES);
  EXPECT_TRUE(publish_new(fs, "part", "final").ok()) << "the name is there for good: an error would publish it twice";
  EXPECT_EQ(content(*fs.after_crash(1, Survives::kSynced), "final"), "mine");
}

TEST(Exists, IsAnErrorAndNotFalseWhereTheDiskFails) {
  SimFileSystem fs;
  put(fs, "f", "x");
  EXPECT_TRUE(*fs.exists("f"));
  EXPECT_FALSE(*fs.exists("g"));
  EXPECT_FALSE(*fs.exists("f/g")) << "nothing can lie in a file";
  for (const int error_number : {EIO, EACCES}) {
    fs.fail(Call::kInfo, 1, error_number);
    EXPECT_FALSE(fs.exists("f").ok());
  }
}

TEST(RemoveTemporaries, TakesWhatAKilledWriteOfPartsLeft) {
  for (int64_t op = 1;; ++op) {
    SimFileSystem fs;
    fs.stop_at(op);
    if (write_file_atomically(fs, "f", {as_bytes("one"), as_bytes("two")}).ok()) break;
    auto after = fs.after_crash(1, Survives::kAll);
    ASSERT_TRUE(remove_temporaries(*after, "/").ok());
    const auto names = after->list("/");
    for (const std::string& name : *names) EXPECT_EQ(name, "f") << "op " << op;
  }
}

TEST(RemoveTemporaries, KnowOfWhichFileAReplaceLeftThem) {
  EXPECT_TRUE(is_temporary_of("run.json.tmp-12-0", "run.json"));
  for (const char* name : {"run.json", "run.json.tmp", "run.json.tmp-", "run.json.tmp-x", "a.run.json.tmp-12-0", ".tmp-1-2"})
    EXPECT_FALSE(is_temporary_of(name, "run.json")) << name;
  EXPECT_FALSE(is_temporary_of(".tmp-1-2", ""));
}

TEST(RemoveTemporaries, TakesOnlyWhatAKilledReplaceLeft) {
  SimFileSystem fs;
  for (const char* name : {"run.json", "run.json.tmp-12-0", "notes.tmp-x", ".tmp-1-2", "a.tmp-", "data.tmp-1-2.txt"})
    put(fs, name, "x");
  ASSERT_TRUE(remove_temporaries(fs, "/").ok());
  EXPECT_THAT(*fs.list("/"), ElementsAre(".tmp-1-2", "a.tmp-", "data.tmp-1-2.txt", "notes.tmp-x", "run.json"));
}

}  // namespace
}  // namespace aerie
