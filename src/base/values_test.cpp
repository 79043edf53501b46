// The small parts: results, clock, text, JSON, hashes, random numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "base/result.h"
#include "base/text.h"

namespace aerie {
namespace {

using testing::ElementsAre;

Result<int> half(int value) {
  if (value % 2 != 0) return invalid(std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  TRY(const int once, half(value));
  auto twice = half(once);
  if (!twice) return std::move(twice).error().under("halving " + std::to_string(value) + " twice");
  return twice;
}

Status all_even(std::initializer_list<int> values) {
  for (const int value : values) CHECKED(half(value));
  return ok_status();
}

TEST(Results, CarryAValueOrOneSentenceWithItsContext) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(3).error().what, "3 is odd");
  EXPECT_EQ(quarter(6).error().what, "halving 6 twice: 3 is odd");
  EXPECT_EQ(quarter(6).error().code, Code::kInvalid);
  EXPECT_TRUE(all_even({2, 4}).ok());
  EXPECT_EQ(all_even({2, 5}).error().what, "5 is odd");
}

TEST(Results, MapErrnoToCodesAndCodesToExitCodes) {
  EXPECT_EQ(from_errno(ENOSPC, "writing f").what, "writing f: No space left on device");
  const std::vector<std::tuple<int, Code, int>> expected = {{ENOSPC, Code::kFull, 3},
                                                            {EDQUOT, Code::kFull, 3},
                                                            {ENOENT, Code::kNotFound, 2},
                                                            {EEXIST, Code::kExists, 2},
                                                            {EACCES, Code::kInvalid, 2},
                                                            {EROFS, Code::kInvalid, 2},
                                                            {ECONNREFUSED, Code::kUnavailable, 3},
                                                            {ETIMEDOUT, Code::kTimeout, 3},
                                                            {EIO, Code::kInternal, 1}};
  for (const auto& [number, code, exit] : expected) {
    EXPECT_EQ(from_errno(number, "x").code, code) << number;
    EXPECT_EQ(exit_code(from_errno(number, "x")), exit) << number;
  }
  EXPECT_EQ(exit_code(corrupt("x")), 4);
  EXPECT_EQ(exit_code(cancelled("x")), 130);
  EXPECT_TRUE(timed_out("x").retryable());
  EXPECT_FALSE(corrupt("x").retryable());
}

TEST(Clocks, WriteUtcAndBoundWaits) {
  EXPECT_EQ(utc_text(1.75e9 + 0.25), "2025-06-15T15:06:40.250Z");
  FakeClock clock;
  const Deadline deadline = Deadline::after(5, clock);
  EXPECT_FALSE(deadline.expired());
  clock.advance(2);
  EXPECT_DOUBLE_EQ(deadline.remaining_s(), 3);
  clock.advance(4);
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.remaining_s(), 0);
}

TEST(Texts, AreSplitTrimmedAndJoined) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1'234'567'890), "1.2 GB");
}

TEST(Texts, KnowUtf8ByTheStandardsTable) {
  for (const char* good :
       {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\xEF\xBF\xBF"})
    EXPECT_TRUE(valid_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE2\x82"})
    EXPECT_FALSE(valid_utf8(bad)) << bad;
}

TEST(Texts, FindTheNearestName) {
  EXPECT_EQ(nearest_name("modle", {"kind", "model", "timeout_s"}), "model");
  EXPECT_EQ(nearest_name("timeout", {"kind", "model", "timeout_s"}), "timeout_s");
  EXPECT_EQ(nearest_name("wholly_else", {"kind", "model"}), "");
}

TEST(Json, WritesWhatAnyReaderTakes) {
  EXPECT_EQ(json_string("a\"b\\c\n\t\x01\x7f"), R"("a\"b\\c\n\t\u0001\u007f")");
  EXPECT_EQ(json_string("\xC3\xA9\xFFz\xE2\x82"), "\"\xC3\xA9\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(std::nan("")), "null") << "unknown never becomes 0";
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(JsonObject().text(), "{}");
  EXPECT_EQ(JsonObject()
                .add({"s", "x"})
                .add({"i", 3})
                .add({"d", 0.5})
                .add({"b", true})
                .add_json("a", json_array(std::vector<int64_t>{1, 2}))
                .text(),
            R"({"s":"x","i":3,"d":0.5,"b":true,"a":[1,2]})");
  EXPECT_EQ(json_array(std::vector<std::string>{}), "[]");
}

TEST(Json, WritesNumbersThatReadBackTheSame) {
  Random random(7);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.below(400)) - 200);
    EXPECT_EQ(std::stod(json_number(value)), value);
  }
}

TEST(Hashes, AreThePublishedOnes) {
  EXPECT_EQ(sha256_hex(as_bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().add("a").add("").add("bc").hex(), sha256_hex(as_bytes("abc")));
  EXPECT_EQ(xxh3_128(as_bytes("")).hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(xxh3_128(as_bytes("a")), xxh3_128(as_bytes("b")));
}

TEST(RandomNumbers, AreTheSameForASeedAndOthersForAnotherStream) {
  Random a(1), b(1), other_seed(2), other_stream(1, 1);
  const uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, other_seed.next());
  EXPECT_NE(first, other_stream.next());
  const auto state = a.state();
  const uint64_t next = a.next();
  b.restore(state);
  EXPECT_EQ(b.next(), next);
}

TEST(RandomNumbers, AreEvenlyAndNormallyDistributed) {
  Random random(3);
  std::vector<int> counts(7);
  double sum = 0, squares = 0;
  for (int i = 0; i < 70'000; ++i) {
    ++counts[random.below(7)];
    const double value = random.normal();
    sum += value, squares += value * value;
    const double unit = random.unit();
    ASSERT_TRUE(unit >= 0 && unit < 1);
  }
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_NEAR(sum / 70'000, 0, 0.02);
  EXPECT_NEAR(squares / 70'000, 1, 0.03);
  std::vector<int> order{0, 1, 2, 3, 4, 5, 6, 7}, sorted = order;
  random.shuffle(order);
  EXPECT_NE(order, sorted);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, sorted);
}

}  // namespace
}  // namespace aerie
