#include "train/guard.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace aerie {
namespace {

TEST(Guarded, GivesTheResultWhenNothingIsThrown) {
  EXPECT_EQ(*guarded("counting", "count less", []() -> Result<int> { return 3; }), 3);
  EXPECT_EQ(guarded("counting", "count less", []() -> Result<int> { return corrupt("a"); }).error().what, "a");
}

TEST(Guarded, SaysWhatToDoAboutTooLittleMemory) {
  const Status done = guarded("counting", "count less", []() -> Status { throw std::bad_alloc(); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kFull);
  EXPECT_EQ(done.error().what, "there is not enough memory for counting; count less");
}

TEST(Guarded, KeepsTheFirstLineOfAnyOtherException) {
  const Status done = guarded("counting", "", []() -> Status { throw std::runtime_error("no\nframe 1: main"); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kInternal);
  EXPECT_EQ(done.error().what, "counting failed: no");
}

}  // namespace
}  // namespace aerie
