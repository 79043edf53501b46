#include <gmock/gmock.h>

#include <fstream>

#include "bench/fake_engine_test.h"

namespace aerie {
namespace {

using bench_test::config;
using bench_test::FakeEngine;
using bench_test::prompts;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BenchResult full_result() {
  FakeEngine fake;
  fake.spoil = [](const DecodeRequest& request, Decoded& answer) {
    if (answer.ids.size() < 10) return;  // the warm-up
    answer.gaps[9] = 0.03f;
    if (request.draft_length == 2 && request.prompt_ids[0] == 2) answer.ids[9] = 4;
  };
  BenchResult result = measure(prompts(3), config({1, 2}), "F16", fake.engine())->result;
  result.subject = {"F16", "models/a.gguf", "out/draft.gguf", "abc", "made of Q4_1"};
  result.samples.push_back(
      {"p1", "Why \"so\"?", "Because.", 2, {{"Be", false}, {"cause.", true}}, true, 2, 1, std::nullopt});
  return result;
}

TEST(Results, ComeBackAsTheyWereWritten) {
  const BenchResult result = full_result();
  auto back = parse_results(results_json(result), "results.json");
  ASSERT_TRUE(back.ok()) << back.error().what;
  EXPECT_EQ(results_json(*back), results_json(result));
  EXPECT_EQ(back->subject.note, "made of Q4_1");
  EXPECT_EQ(back->ways.size(), 3u);
  EXPECT_EQ(*back->ways[2].speedup_total, *result.ways[2].speedup_total) << "to the last bit";
  EXPECT_EQ(back->differences.size(), 1u);
  EXPECT_EQ(back->samples[0].pieces[1].text, "cause.");
  EXPECT_TRUE(back->samples[0].pieces[1].drafted);
}

TEST(Results, KeepUnknownApartFromZero) {
  const BenchResult result = full_result();
  EXPECT_THAT(results_json(result), HasSubstr("\"speedup_total\": null")) << "the target alone has no speed-up";
  auto back = parse_results(results_json(result), "results.json");
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(back->ways[0].speedup_total.has_value());
  EXPECT_FALSE(back->samples[0].speedup.has_value());
}

TEST(Results, NamesWhatIsWrongInAFile) {
  EXPECT_EQ(parse_results("{\"format\": 1, ", "r.json").error().code, Code::kCorrupt);
  EXPECT_THAT(parse_results("{}", "r.json").error().what, HasSubstr("r.json: results of another version"));
  std::string text = results_json(full_result());
  const size_t at = text.find("\"acceptance_length\": ");
  text.replace(at, 21, "\"acceptance_length\": \"many\", \"x\": ");
  const Error error = parse_results(text, "r.json").error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.what, HasSubstr("r.json: ways: acceptance_length"));
}

TEST(BenchTable, ShowsEveryWayAndMarksTheBest) {
  BenchResult result = full_result();
  result.description = "a model";
  const std::string table = bench_table(result);
  EXPECT_THAT(table, HasSubstr("F16: a model"));
  EXPECT_THAT(table, HasSubstr("none"));
  EXPECT_THAT(table, HasSubstr("*       2"));
  EXPECT_THAT(table, HasSubstr("100 % 100 %"));
  EXPECT_THAT(table, HasSubstr(result.verdict));
  for (const std::string_view line : {"  drafted   tokens/s"}) EXPECT_THAT(table, HasSubstr(std::string(line)));
}

Result<std::string> letters(std::span<const int32_t> ids) {
  std::string text;
  for (int32_t id : ids) text += static_cast<char>(id);
  return text;
}

Decoded answer_of(const std::string& text, std::vector<int> accepted) {
  Decoded answer;
  for (char c : text) answer.ids.push_back(static_cast<unsigned char>(c));
  answer.accepted = std::move(accepted);
  return answer;
}

std::vector<std::string> shown(const std::vector<AnswerPiece>& pieces) {
  std::vector<std::string> all;
  for (const AnswerPiece& piece : pieces) all.push_back((piece.drafted ? "+" : "-") + piece.text);
  return all;
}

TEST(AnswerPieces, TellGuessesFromTheTargetsOwnTokens) {
  EXPECT_THAT(shown(answer_pieces(answer_of("abcdefg", {2, 0, 1, 0}), letters)),
              ElementsAre("+ab", "-cd", "+e", "-fg"));
}

TEST(AnswerPieces, LeaveOutWhatTheEndOfTheAnswerCutOff) {
  EXPECT_THAT(shown(answer_pieces(answer_of("abc", {1, 4}), letters)), ElementsAre("+a", "-b", "+c"));
}

TEST(AnswerPieces, NeverCutACharacter) {
  // The a-umlaut is two bytes and here two tokens: the first a guess, the second the target's.
  EXPECT_THAT(shown(answer_pieces(answer_of("x\xc3\xa4y", {0, 1, 0}), letters)), ElementsAre("-x\xc3\xa4y"));
  EXPECT_THAT(shown(answer_pieces(answer_of("x\xc3", {0, 0}), letters)), ElementsAre("-x\xc3")) << "cut by max_tokens";
}

TEST(AnswerPieces, GiveTheWholeTextWhenADetokeniserRewritesItsPast) {
  const auto rewriting = [](std::span<const int32_t> ids) -> Result<std::string> {
    return std::string(ids.size(), static_cast<char>('a' + ids.size()));
  };
  EXPECT_THAT(shown(answer_pieces(answer_of("xyz", {1, 0}), rewriting)), ElementsAre("-ddd"));
}

}  // namespace
}  // namespace aerie
