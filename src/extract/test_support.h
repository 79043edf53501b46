// For this room's tests: a folder and run folder per test, conversations, and a file system with a failure of choice.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>

#include "base/log.h"
#include "base/run_folder.h"
#include "samples/samples.h"

namespace aerie {

// The real file system, asking `before` in front of everything that changes the disk: an error becomes the result.
class WatchedFileSystem : public FileSystem {
 public:
  // `what` is create, write, sync, link, rename, remove or sync_folder; `bytes` is set for writes.
  using Before = std::function<Status(const std::string& what, uint64_t bytes)>;
  explicit WatchedFileSystem(Before before) : before_(std::move(before)) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path, Create how) override {
    CHECKED(before_("create", 0));
    TRY(auto file, real_.create(path, how));
    return std::unique_ptr<WritableFile>(std::make_unique<File>(std::move(file), before_));
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override { return real_.open(path); }
  Result<FileInfo> info(const std::string& path) override { return real_.info(path); }
  Result<std::vector<std::string>> list(const std::string& folder) override { return real_.list(folder); }
  Status make_folders(const std::string& path) override { return real_.make_folders(path); }
  Status link(const std::string& from, const std::string& to) override {
    CHECKED(before_("link", 0));
    return real_.link(from, to);
  }
  Status rename(const std::string& from, const std::string& to) override {
    CHECKED(before_("rename", 0));
    return real_.rename(from, to);
  }
  Status remove(const std::string& path) override {
    CHECKED(before_("remove", 0));
    return real_.remove(path);
  }
  Status sync_folder(const std::string& path) override {
    CHECKED(before_("sync_folder", 0));
    return real_.sync_folder(path);
  }
  Result<SpaceInfo> space(const std::string& path) override { return real_.space(path); }

 private:
  class File : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, Before before) : file_(std::move(file)), before_(std::move(before)) {}
    const std::string& path() const override { return file_->path(); }
    Status write(std::span<const std::byte> bytes) override {
      CHECKED(before_("write", bytes.size()));
      return file_->write(bytes);
    }
    Status write_at(uint64_t offset, std::span<const std::byte> bytes) override {
      CHECKED(before_("write", bytes.size()));
      return file_->write_at(offset, bytes);
    }
    Status sync() override {
      CHECKED(before_("sync", 0));
      return file_->sync();
    }
    Status close() override { return file_->close(); }

   private:
    std::unique_ptr<WritableFile> file_;
    Before before_;
  };

  FileSystem& real_ = real_file_system();
  Before before_;
};

// A disk that takes so many bytes.
inline WatchedFileSystem disk_with_room(uint64_t room_bytes) {
  return WatchedFileSystem([left = std::make_shared<std::atomic<int64_t>>(static_cast<int64_t>(room_bytes))](
                               const std::string&, uint64_t bytes) -> Status {
    *left -= static_cast<int64_t>(bytes);
    if (*left < 0) return full("no space left on the test's disk");
    return ok_status();
  });
}

class ExtractRoom : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(Level::kError);
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "/" + test->test_suite_name() + "_" + test->name();
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(fs_.make_folders(folder_));
    auto run = RunFolder::open(folder_ + "/run", {"test"}, "");
    ASSERT_TRUE(run) << run.error().what;
    run_ = *std::move(run);
  }
  void TearDown() override { set_log_level(Level::kInfo); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string text_of(const std::string& file) {
    auto text = read_file(fs_, file);
    EXPECT_TRUE(text) << text.error().what;
    return text ? *text : "";
  }
  std::vector<Conversation> conversations(const std::string& file) {
    std::vector<Conversation> out;
    auto reader = ConversationReader::open(fs_, file);
    EXPECT_TRUE(reader) << reader.error().what;
    while (reader) {
      auto next = reader->next();
      EXPECT_TRUE(next) << next.error().what;
      if (!next || !*next) break;
      out.push_back(**std::move(next));
    }
    return out;
  }

  FileSystem& fs_ = real_file_system();
  std::string folder_;
  std::unique_ptr<RunFolder> run_;
};

}  // namespace aerie
