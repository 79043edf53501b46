#include "base/file_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace aerie {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FileLock, IsHeldByOneAndNamesTheHolderUntilItGoes) {
  const std::string path = testing::TempDir() + "aerie_lock_" + std::to_string(::getpid());
  {
    auto first = FileLock::take(path, "the thing");
    ASSERT_TRUE(first.ok()) << first.error().what;
    const FileLock moved = *std::move(first);
    const auto second = FileLock::take(path, "the thing");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Code::kUnavailable);
    EXPECT_THAT(second.error().what,
                AllOf(HasSubstr("the thing is in use by process " + std::to_string(::getpid()) + " on "),
                      HasSubstr("wait for it to end")));
  }
  EXPECT_TRUE(FileLock::take(path, "the thing").ok());
  ::unlink(path.c_str());
}

TEST(FileLock, GoesWithAProcessThatClosesNothing) {
  const std::string path = testing::TempDir() + "aerie_lock_child_" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = FileLock::take(path, "the thing");
    ::_exit(lock.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(FileLock::take(path, "the thing").ok());
  ::unlink(path.c_str());
}

TEST(FileLock, ThatCannotBeMadeNamesItsPath) {
  EXPECT_THAT(FileLock::take("/none/of/this/lock", "x").error().what, HasSubstr("/none/of/this/lock"));
}

}  // namespace
}  // namespace aerie
