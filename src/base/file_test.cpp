#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace aerie {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "aerie_files_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(fs.make_folders(folder + "/deep/er").ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  FileSystem& fs = real_file_system();
  std::string folder;
};

TEST_F(RealFiles, WriteAppendOverwriteAndReadBack) {
  const std::string path = folder + "/f";
  {
    auto file = fs.create(path, Create::kNew);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->path(), path);
    ASSERT_TRUE((*file)->write(as_bytes("hello")).ok());
    ASSERT_TRUE((*file)->write_at(0, as_bytes("J")).ok());
    ASSERT_TRUE((*file)->write(as_bytes("!")).ok());
    ASSERT_TRUE((*file)->write_at(8, as_bytes("end")).ok());
    ASSERT_TRUE((*file)->write(as_bytes(".")).ok());
    ASSERT_TRUE((*file)->sync().ok());
    ASSERT_TRUE((*file)->close().ok());
    EXPECT_TRUE((*file)->close().ok()) << "closing twice is no error";
    EXPECT_THAT((*file)->write(as_bytes("x")).error().what, HasSubstr("closed already"));
  }
  EXPECT_EQ(*read_file(fs, path), std::string("Jello!\0\0end.", 12));
  auto more = fs.create(path, Create::kAppend);
  ASSERT_TRUE((*more)->write(as_bytes("+")).ok());
  EXPECT_EQ(fs.info(path)->size_bytes, 13u);
  EXPECT_EQ(fs.create(path, Create::kNew).error().code, Code::kExists);
  ASSERT_TRUE(fs.create(path, Create::kTruncate).ok());
  EXPECT_EQ(fs.info(path)->size_bytes, 0u);
}

TEST_F(RealFiles, ListLinkRenameAndRemove) {
  ASSERT_TRUE(write_file_atomically(fs, folder + "/b", "b").ok());
  ASSERT_TRUE(fs.link(folder + "/b", folder + "/a").ok());
  EXPECT_EQ(fs.link(folder + "/b", folder + "/a").error().code, Code::kExists);
  EXPECT_THAT(*fs.list(folder), ElementsAre("a", "b", "deep"));
  ASSERT_TRUE(fs.rename(folder + "/a", folder + "/b2").ok());
  ASSERT_TRUE(fs.remove(folder + "/b").ok());
  EXPECT_FALSE(fs.remove(folder + "/deep").ok()) << "it is not empty";
  EXPECT_THAT(*fs.list(folder), ElementsAre("b2", "deep"));
  EXPECT_TRUE(fs.info(folder + "/deep")->folder);
  EXPECT_TRUE(fs.sync_folder(folder).ok());
  EXPECT_GT(fs.space(folder)->total_bytes, 0u);
}

TEST_F(RealFiles, NameThePathTheCauseAndTheCure) {
  const auto absent = fs.open(folder + "/none");
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_EQ(absent.error().what, "opening " + folder + "/none: No such file or directory");
  EXPECT_THAT(fs.open(folder).error().what, HasSubstr("is a folder, a file was expected"));
  ASSERT_TRUE(write_file_atomically(fs, folder + "/f", "x").ok());
  EXPECT_THAT(fs.make_folders(folder + "/f").error().what, HasSubstr("is a file, and a folder is needed there"));
  EXPECT_FALSE(fs.make_folders(folder + "/f/g").ok());
  EXPECT_FALSE(fs.list(folder + "/f").ok());
  EXPECT_FALSE(fs.sync_folder(folder + "/none").ok());
  EXPECT_FALSE(fs.create("/proc/none", Create::kNew).ok());
}

TEST_F(RealFiles, SayFullOnAFullDiskAndRefuseTheFileAfterwards) {
  auto full = fs.create("/dev/full", Create::kAppend);
  ASSERT_TRUE(full.ok()) << full.error().what;
  const Status refused = (*full)->write(as_bytes("x"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFull);
  EXPECT_EQ(refused.error().what,
            "writing /dev/full: No space left on device; free some space there, then the same command goes on");
  EXPECT_THAT((*full)->write(as_bytes("x")).error().what, HasSubstr("must be written anew"));
  EXPECT_FALSE((*full)->sync().ok());
}

TEST_F(RealFiles, DoNotWaitForThePeerOfAPipe) {
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(fs.open(pipe).error().what, HasSubstr("no plain file"));
  EXPECT_FALSE(fs.create(pipe, Create::kAppend).ok());
  EXPECT_FALSE(MappedFile::open(pipe).ok());
}

TEST_F(RealFiles, TellOfAFileThatIsCutShort) {
  ASSERT_TRUE(write_file_atomically(fs, folder + "/f", "12345").ok());
  std::byte ten[10];
  const Status cut = (*fs.open(folder + "/f"))->read_at(2, ten);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
  EXPECT_THAT(cut.error().what, HasSubstr("ends at byte 5"));
}

TEST_F(RealFiles, AreNotReadWholeWhenTooLarge) {
  ASSERT_TRUE(write_file_atomically(fs, folder + "/f", "12345").ok());
  EXPECT_TRUE(read_file(fs, folder + "/f", 5).ok());
  EXPECT_EQ(read_file(fs, folder + "/f", 4).error().code, Code::kInvalid);
}

TEST_F(RealFiles, AreReplacedAtomicallyAndLeaveNothingBehind) {
  ASSERT_TRUE(write_file_atomically(fs, folder + "/f", "one").ok());
  ASSERT_TRUE(write_file_atomically(fs, folder + "/f", "two").ok());
  ASSERT_TRUE(replace_file(fs, folder + "/f", "three").ok());
  EXPECT_EQ(*read_file(fs, folder + "/f"), "three");
  const auto refused = write_file_atomically(fs, folder + "/deep", "a folder is in the way");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(*fs.list(folder), ElementsAre("deep", "f"));
}

TEST_F(RealFiles, AreMappedWholeAndStayUntilTheMapGoes) {
  ASSERT_TRUE(write_file_atomically(fs, folder + "/f", "mapped").ok());
  ASSERT_TRUE(write_file_atomically(fs, folder + "/empty", "").ok());
  auto first = MappedFile::open(folder + "/f");
  ASSERT_TRUE(first.ok());
  MappedFile second = *std::move(first);
  ASSERT_TRUE(fs.remove(folder + "/f").ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second.bytes().data()), second.bytes().size()), "mapped");
  EXPECT_EQ(MappedFile::open(folder + "/empty")->bytes().size(), 0u);
  EXPECT_THAT(MappedFile::open(folder).error().what, HasSubstr("is a folder"));
  EXPECT_EQ(MappedFile::open(folder + "/none").error().code, Code::kNotFound);
}

TEST(Paths, AreCutIntoFolderAndName) {
  EXPECT_EQ(folder_of("a/b/c"), "a/b");
  EXPECT_EQ(folder_of("c"), ".");
  EXPECT_EQ(folder_of("/c"), "/");
  EXPECT_EQ(name_of("a/b/c"), "c");
  EXPECT_EQ(name_of("c"), "c");
}

}  // namespace
}  // namespace aerie
