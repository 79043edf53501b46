#include "samples/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace aerie {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A file with this content in a folder of the running test.
std::string file_with(const std::string& name, const std::string& content) {
  const std::string folder = testing::TempDir() + "/samples_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  EXPECT_TRUE(real_file_system().make_folders(folder));
  EXPECT_TRUE(write_file_atomically(real_file_system(), folder + "/" + name, content));
  return folder + "/" + name;
}

Error load_error(const std::string& path) {
  const auto prompts = load_prompts(real_file_system(), path);
  EXPECT_FALSE(prompts) << path << " should have been refused";
  return prompts ? internal("no error") : prompts.error();
}

Error parse_error(const std::string& line) {
  const auto conversation = parse_conversation(line);
  EXPECT_FALSE(conversation) << line << " should have been refused";
  if (conversation) return internal("no error");
  EXPECT_EQ(conversation.error().code, Code::kInvalid);
  return conversation.error();
}

TEST(Prompts, AreReadFromJsonLinesInAllTheirForms) {
  const std::string path = file_with("p.jsonl", R"({"id":"a","prompt":"Hello"}
{"id":7,"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}],"category":"x"}
{"id":"c","conversations":[{"from":"human","value":"One"},{"from":"gpt","value":"Two"},{"from":"human","value":"Three"},{"from":"gpt","value":"dropped"}]}
)");
  const auto prompts = load_prompts(real_file_system(), path);
  ASSERT_TRUE(prompts) << prompts.error().what;
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ((*prompts)[0].id, "a");
  EXPECT_THAT((*prompts)[0].messages, ElementsAre(Message{"user", "Hello"}));
  EXPECT_EQ((*prompts)[1].id, "7");
  EXPECT_THAT((*prompts)[1].messages, ElementsAre(Message{"system", "Be kind."}, Message{"user", "Hi"}));
  EXPECT_THAT((*prompts)[2].messages,
              ElementsAre(Message{"user", "One"}, Message{"assistant", "Two"}, Message{"user", "Three"}));
}

TEST(Prompts, AreReadFromTextOneALineWithIdsThatStay) {
  const std::string path = file_with("p.txt", "\xef\xbb\xbf" "First one?\r\n\r\n  Second one.  \nFirst one?");
  const auto prompts = load_prompts(real_file_system(), path);
  ASSERT_TRUE(prompts) << prompts.error().what;
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ((*prompts)[0].messages[0].content, "First one?");
  EXPECT_EQ((*prompts)[1].messages[0].content, "Second one.");
  EXPECT_THAT((*prompts)[1].id, StartsWith("line-3-"));
  EXPECT_NE((*prompts)[0].id, (*prompts)[2].id) << "the same text on two lines is two prompts";
  const auto again = load_prompts(real_file_system(), path);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)[2].id, (*prompts)[2].id);
}

TEST(Prompts, NameFileAndLineOfBadJson) {
  std::string content;
  for (int i = 1; i <= 20; ++i)
    content += i == 17 ? "{\"id\": \"p17\", \"prompt\": oops}\n" : "{\"id\":\"p" + std::to_string(i) + "\",\"prompt\":\"x\"}\n";
  const Error error = load_error(file_with("p.jsonl", content));
  EXPECT_EQ(error.code, Code::kInvalid);
  EXPECT_THAT(error.what, AllOf(HasSubstr("p.jsonl:17: "), HasSubstr("not valid JSON at column 25")));
}

TEST(Prompts, RefuseAnEmptyFileAndAFileOfEmptyLines) {
  EXPECT_THAT(load_error(file_with("p.jsonl", "")).what, HasSubstr("p.jsonl is empty"));
  EXPECT_THAT(load_error(file_with("p.txt", "\n \r\n\n")).what, HasSubstr("p.txt holds empty lines only"));
}

TEST(Prompts, ThatAreMissingAreNotFound) {
  const Error error = load_error(testing::TempDir() + "/nowhere/p.jsonl");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.what, HasSubstr("nowhere/p.jsonl"));
}

TEST(Prompts, NameBothLinesOfARepeatedId) {
  const std::string path = file_with("p.jsonl", "{\"id\":\"a\",\"prompt\":\"x\"}\n\n{\"id\":\"a\",\"prompt\":\"y\"}\n");
  EXPECT_THAT(load_error(path).what, AllOf(HasSubstr("p.jsonl:3: "), HasSubstr("\"a\" stands on line 1")));
}

TEST(Prompts, RefuseTextThatIsNotUtf8) {
  EXPECT_THAT(load_error(file_with("p.txt", "good\nb\xff\xfe" "d\n")).what,
              AllOf(HasSubstr("p.txt:2: "), HasSubstr("not valid UTF-8")));
  EXPECT_THAT(load_error(file_with("p.jsonl", "{\"prompt\":\"caf\xe9\"}\n")).what,
              AllOf(HasSubstr("p.jsonl:1: "), HasSubstr("not valid UTF-8")));
}

TEST(Prompts, SayWhatIsWrongWithALine) {
  auto error_of = [](const std::string& line) { return load_error(file_with("p.jsonl", line + "\n")).what; };
  EXPECT_THAT(error_of("[1]"), HasSubstr("a JSON object is needed"));
  EXPECT_THAT(error_of("{}"), HasSubstr("neither \"prompt\" nor \"messages\""));
  EXPECT_THAT(error_of(R"({"prompt":""})"), HasSubstr("neither \"prompt\" nor \"messages\""));
  EXPECT_THAT(error_of(R"({"prompt":5})"), HasSubstr("\"prompt\" must be a string"));
  EXPECT_THAT(error_of(R"({"messages":"x"})"), HasSubstr("must be a list"));
  EXPECT_THAT(error_of(R"({"messages":[{"role":"user","content":"a"},{"role":"narrator","content":"b"}]})"),
              AllOf(HasSubstr("message 2"), HasSubstr("\"narrator\" is unknown")));
  EXPECT_THAT(error_of(R"({"messages":[{"role":"user"}]})"), HasSubstr("no text content"));
  EXPECT_THAT(error_of(R"({"messages":[{"role":"system","content":"a"}]})"), HasSubstr("no user message"));
  EXPECT_THAT(error_of(R"({"id":"","prompt":"x"})"), HasSubstr("id is empty"));
  EXPECT_THAT(error_of(R"({"id":"a\nb","prompt":"x"})"), HasSubstr("control character"));
  EXPECT_THAT(error_of(R"({"prompt":"x","messages":[{"role":"user","content":"y"}]})"), HasSubstr("both"));
  EXPECT_THAT(error_of("{\"prompt\":" + std::string(100, '[') + std::string(100, ']') + "}"), HasSubstr("nested deeper"));
}

TEST(Prompts, RefuseAHugeLineWithItsNumber) {
  std::string content = "{\"prompt\":\"fine\"}\n{\"prompt\":\"";
  content.append(kMaxLineBytes, 'x');
  content += "\"}\n";
  EXPECT_THAT(load_error(file_with("p.jsonl", content)).what, AllOf(HasSubstr("p.jsonl:2: "), HasSubstr("longer than")));
}

TEST(Conversation, OfShareGptIsRead) {
  const auto c = parse_conversation(
      R"({"id":"s1","conversations":[{"from":"system","value":"S"},{"from":"human","value":"Q"},{"from":"gpt","value":"A"}]})");
  ASSERT_TRUE(c) << c.error().what;
  EXPECT_EQ(c->id, "s1");
  EXPECT_THAT(c->messages, ElementsAre(Message{"system", "S"}, Message{"user", "Q"}, Message{"assistant", "A"}));
  EXPECT_THAT(c->token_ids, IsEmpty());
}

TEST(Conversation, OfOpenAiIsReadWithTextParts) {
  const auto c = parse_conversation(
      R"({"messages":[{"role":"developer","content":"D"},{"role":"user","content":[{"type":"text","text":"Q1 "},{"type":"text","text":"Q2"}]},{"role":"assistant","content":"A"}]})");
  ASSERT_TRUE(c) << c.error().what;
  EXPECT_THAT(c->messages, ElementsAre(Message{"system", "D"}, Message{"user", "Q1 Q2"}, Message{"assistant", "A"}));
  EXPECT_THAT(c->id, StartsWith("c-"));
  EXPECT_THAT(parse_error(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})").what,
              AllOf(HasSubstr("message 1"), HasSubstr("not text")));
}

TEST(Conversation, OfTokenisedRowsIsReadWithItsMaskAsSpans) {
  const auto c = parse_conversation(R"({"id":"t","input_ids":[5,6,7,8,9],"loss_mask":[0,1,1,0,1]})");
  ASSERT_TRUE(c) << c.error().what;
  EXPECT_THAT(c->token_ids, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(c->loss_spans, ElementsAre(Span{1, 3}, Span{4, 5}));
  const auto mask = loss_mask(*c);
  ASSERT_TRUE(mask);
  EXPECT_THAT(*mask, ElementsAre(0, 1, 1, 0, 1));
  EXPECT_THAT(parse_error(R"({"input_ids":[5,6],"loss_mask":[1]})").what, HasSubstr("as long as the token ids (2)"));
}

TEST(Conversation, OfOursComesBackAsItWas) {
  Conversation c;
  c.id = "q-\"1\"";
  c.messages = {{"user", "Line one\nline two\t\"quoted\" \\ and \u00e9\U0001F600"}, {"assistant", std::string("nul \0 in it", 11)}};
  c.token_ids = {1, 2, 2147483647, 0, 5};
  c.loss_spans = {{2, 4}, {4, 5}};
  c.finish_reason = "length";
  c.target_fingerprint = "abc";
  const std::string line = conversation_json(c);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = parse_conversation(line);
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->id, c.id);
  EXPECT_EQ(back->messages, c.messages);
  EXPECT_EQ(back->token_ids, c.token_ids);
  EXPECT_EQ(back->loss_spans, c.loss_spans);
  EXPECT_EQ(back->finish_reason, c.finish_reason);
  EXPECT_EQ(back->target_fingerprint, c.target_fingerprint);
}

TEST(Conversation, WithBrokenTextKeepsItsIds) {
  Conversation c;
  c.id = "x";
  c.messages = {{"user", "Q"}, {"assistant", "cut \xf0\x9f\x98"}};  // an answer may end inside a character
  c.token_ids = {1, 2};
  c.loss_spans = {{1, 2}};
  const auto back = parse_conversation(conversation_json(c));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->token_ids, c.token_ids);
  EXPECT_THAT(back->messages[1].content, StartsWith("cut \xef\xbf\xbd"));
}

TEST(Conversation, RefusesSpansThatDoNotFit) {
  auto error_of = [](const std::string& spans) {
    return parse_error(R"({"token_ids":[1,2,3,4],"loss_spans":)" + spans + "}").what;
  };
  EXPECT_THAT(error_of("[[2,5]]"), AllOf(HasSubstr("[2, 5)"), HasSubstr("leaves the 4 tokens")));
  EXPECT_THAT(error_of("[[2,3],[1,2]]"), AllOf(HasSubstr("[1, 2)"), HasSubstr("out of order")));
  EXPECT_THAT(error_of("[[0,2],[1,3]]"), HasSubstr("overlaps"));
  EXPECT_THAT(error_of("[[2,2]]"), HasSubstr("empty or reversed"));
  EXPECT_THAT(error_of("[[-1,2]]"), HasSubstr("loss_spans"));
  EXPECT_THAT(error_of("[[1]]"), HasSubstr("[begin, end]"));
  EXPECT_THAT(error_of("7"), HasSubstr("[begin, end]"));
}

TEST(Conversation, RefusesTokenIdsThatAreNone) {
  auto error_of = [](const std::string& ids) { return parse_error("{\"token_ids\":" + ids + "}").what; };
  EXPECT_THAT(error_of("[1,-2]"), AllOf(HasSubstr("token_ids"), HasSubstr("-2")));
  EXPECT_THAT(error_of("[2147483648]"), HasSubstr("2147483648"));
  EXPECT_THAT(error_of("[18446744073709551615]"), HasSubstr("18446744073709551615"));
  EXPECT_THAT(error_of("[1.5]"), HasSubstr("1.5"));
  EXPECT_THAT(error_of("\"x\""), HasSubstr("list of integers"));
}

TEST(Conversation, WithNothingToLearnFromIsRefused) {
  EXPECT_THAT(parse_error(R"({"messages":[{"role":"user","content":"Q"}]})").what, HasSubstr("no assistant message"));
  EXPECT_THAT(parse_error(R"({"id":"x"})").what, HasSubstr("neither messages"));
}

TEST(AnswerIds, LeadBackToTheirPrompt) {
  EXPECT_EQ(answer_id("p", 1), "p");
  EXPECT_EQ(answer_id("p", 12), "p#answer12");
  for (const char* prompt : {"p", "dolly#17", "p#answer2", "#answer"})
    for (int n : {2, 3, 10, 1000}) EXPECT_EQ(prompt_of_answer(answer_id(prompt, n)), prompt) << n;
}

TEST(AnswerIds, OfTheLongestPromptIdCanBeRead) {
  const std::string longest(256, 'p');
  const auto line_of = [](const std::string& id) {
    return R"({"id":")" + id + R"(","messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}]})";
  };
  EXPECT_TRUE(parse_conversation(line_of(answer_id(longest, 1000))));
  EXPECT_THAT(parse_error(line_of(longest + std::string(17, 'p'))).what, HasSubstr("longer than"));
}

TEST(AnswerIds, ThatWereNotMadeHereStandForThemselves) {
  for (const char* id : {"p", "dolly#17", "p#2", "p#answer", "p#answer1", "p#answer02", "p#answer2b", "p#answers"})
    EXPECT_EQ(prompt_of_answer(id), id);
}

TEST(LossMask, RefusesSpansSetByHandThatLeaveTheTokens) {
  Conversation c;
  c.id = "by hand";
  c.token_ids = {1, 2};
  c.loss_spans = {{1, 3}};
  const auto mask = loss_mask(c);
  ASSERT_FALSE(mask);
  EXPECT_THAT(mask.error().what, HasSubstr("by hand"));
}

}  // namespace
}  // namespace aerie
