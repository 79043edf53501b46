// The reader that resumes and the writer that survives kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"
#include "samples/line_reader.h"
#include "samples/samples.h"

namespace aerie {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ConversationFile : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(Level::kError);  // repairs are said as warnings
    folder_ = testing::TempDir() + "/conversation_file_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_TRUE(fs_.make_folders(folder_));
    path_ = folder_ + "/c.jsonl";
    (void)fs_.remove(path_);
  }
  void TearDown() override { set_log_level(Level::kInfo); }

  static Conversation conversation(const std::string& id) {
    Conversation c;
    c.id = id;
    c.messages = {{"user", "Q " + id}, {"assistant", "A " + id}};
    c.token_ids = {1, 2, 3};
    c.loss_spans = {{1, 3}};
    c.target_fingerprint = "print-" + id;
    return c;
  }

  void write(const std::string& content) { ASSERT_TRUE(write_file_atomically(fs_, path_, content)); }
  std::string content() {
    auto text = read_file(fs_, path_);
    EXPECT_TRUE(text);
    return text ? *text : "";
  }
  static std::string line(const std::string& id) { return conversation_json(conversation(id)) + "\n"; }

  // Ids of the file, "!" for a line that cannot be read.
  std::vector<std::string> ids(Cursor from = {}) {
    auto reader = ConversationReader::open(fs_, path_, from);
    EXPECT_TRUE(reader) << reader.error().what;
    std::vector<std::string> out;
    for (;;) {
      auto next = reader->next();
      if (!next) out.push_back("!");
      else if (!*next) return out;
      else out.push_back((*next)->id);
    }
  }

  FileSystem& fs_ = real_file_system();
  std::string folder_, path_;
};

TEST_F(ConversationFile, KeepsWhatIsAddedAndListsItWhenOpenedAgain) {
  {
    auto writer = ConversationWriter::open(fs_, path_);
    ASSERT_TRUE(writer) << writer.error().what;
    ASSERT_TRUE(writer->add(conversation("a")));
    ASSERT_TRUE(writer->add(conversation("b")));
  }
  auto writer = ConversationWriter::open(fs_, path_);
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->present().size(), 2u);
  EXPECT_EQ(writer->present().at("b"), "print-b");
  ASSERT_TRUE(writer->add(conversation("c")));
  EXPECT_THAT(ids(), ElementsAre("a", "b", "c"));
}

TEST_F(ConversationFile, RefusesAnIdTwice) {
  auto writer = ConversationWriter::open(fs_, path_);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->add(conversation("a")));
  const Status again = writer->add(conversation("a"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kExists);
  EXPECT_THAT(ids(), ElementsAre("a"));
}

TEST_F(ConversationFile, IsAddedToByOneWriterAtATimeAndNamesIt) {
  {
    auto first = ConversationWriter::open(fs_, path_);
    ASSERT_TRUE(first) << first.error().what;
    const auto second = ConversationWriter::open(fs_, path_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kUnavailable);
    EXPECT_THAT(second.error().what, AllOf(HasSubstr(path_), HasSubstr("in use by process " + std::to_string(::getpid()))));
    ASSERT_TRUE(first->add(conversation("a")));
  }
  EXPECT_TRUE(ConversationWriter::open(fs_, path_));
}

TEST_F(ConversationFile, IsRepairedAfterAKillAtAnyByteOfTheLastLine) {
  const std::string good = line("a") + line("b"), last = line("c");
  for (size_t kept = 0; kept <= last.size(); kept += kept < 4 || kept + 12 > last.size() ? 1 : 9) {
    write(good + last.substr(0, kept));
    {
      auto writer = ConversationWriter::open(fs_, path_);
      ASSERT_TRUE(writer) << kept << ": " << writer.error().what;
      const bool whole = kept + 1 >= last.size();  // only the line end may be missing
      EXPECT_EQ(writer->present().size(), whole ? 3u : 2u) << kept;
      ASSERT_TRUE(writer->add(conversation("d")));
    }
    const std::string expected = kept + 1 >= last.size() ? good + last + line("d") : good + line("d");
    ASSERT_EQ(content(), expected) << kept;
  }
}

TEST_F(ConversationFile, CutsOffATailOfZerosThatAPowerLossLeft) {
  write(line("a") + line("b").substr(0, 10) + std::string(50, '\0') + "\n");
  auto writer = ConversationWriter::open(fs_, path_);
  ASSERT_TRUE(writer) << writer.error().what;
  EXPECT_EQ(content(), line("a"));
}

TEST_F(ConversationFile, IsNotTouchedWhenALineInTheMiddleIsBroken) {
  const std::string before = line("a") + "{broken\n" + line("b") + "{torn";
  write(before);
  auto writer = ConversationWriter::open(fs_, path_);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kInvalid);
  EXPECT_THAT(writer.error().what, HasSubstr("c.jsonl:2: "));
  EXPECT_EQ(content(), before);
}

TEST_F(ConversationFile, IsNotTouchedWhenItsLastWholeLineIsOfSomethingElse) {
  write(line("a") + "my notes\n");
  auto writer = ConversationWriter::open(fs_, path_);
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().what, HasSubstr("c.jsonl:2: "));
}

TEST_F(ConversationFile, InAFolderThatIsMissingSaysSo) {
  auto writer = ConversationWriter::open(fs_, folder_ + "/missing/c.jsonl");
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().what, HasSubstr("missing/c.jsonl"));
}

TEST_F(ConversationFile, IsReadOnFromEverySavedCursor) {
  write("\xef\xbb\xbf" + line("a") + "\r\n" + line("b") + "{bad\n" + line("c") + line("d").substr(0, line("d").size() - 1));
  const std::vector<std::string> all = ids();
  EXPECT_THAT(all, ElementsAre("a", "b", "!", "c", "d"));
  auto reader = ConversationReader::open(fs_, path_);
  ASSERT_TRUE(reader);
  for (size_t done = 0; done <= all.size(); ++done) {
    EXPECT_EQ(ids(reader->cursor()), std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(done), all.end()));
    (void)reader->next();
  }
}

TEST_F(ConversationFile, NamesLinesRightAfterAResume) {
  write(line("a") + line("b") + "{bad\n");
  auto first = ConversationReader::open(fs_, path_);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->next());
  auto second = ConversationReader::open(fs_, path_, first->cursor());
  ASSERT_TRUE(second);
  ASSERT_TRUE(second->next());
  const auto bad = second->next();
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().what, HasSubstr("c.jsonl:3: "));
  EXPECT_EQ(second->line(), 3);
}

TEST_F(ConversationFile, RefusesACursorOfAnotherFile) {
  write(line("a") + line("b"));
  const auto beyond = ConversationReader::open(fs_, path_, {100000, 9});
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().what, HasSubstr("not the file that was read before"));
  const auto inside = ConversationReader::open(fs_, path_, {5, 0});
  ASSERT_FALSE(inside);
  EXPECT_THAT(inside.error().what, HasSubstr("no line starts at byte 5"));
}

TEST_F(ConversationFile, CountsGoodAndBadLinesAlike) {
  write(line("a") + "\n{bad\n\r\n" + line("b").substr(0, 9));
  const auto count = count_samples(fs_, path_);
  ASSERT_TRUE(count);
  EXPECT_EQ(*count, 3);
}

TEST_F(ConversationFile, LinesOverTheBoundArePassedOver) {
  write("short\n" + std::string(2000000, 'x') + "\nnext\n" + std::string(900, 'y'));
  auto lines = LineReader::open(fs_, path_, {}, 500);
  ASSERT_TRUE(lines);
  auto line = lines->next();
  ASSERT_TRUE(line);
  EXPECT_EQ(**line, "short");
  line = lines->next();
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().what, AllOf(HasSubstr("c.jsonl:2: "), HasSubstr("longer than")));
  line = lines->next();
  ASSERT_TRUE(line);
  EXPECT_EQ(**line, "next");
  EXPECT_EQ(lines->line(), 3);
  EXPECT_FALSE(lines->next());  // the last one is too long and has no end
  line = lines->next();
  ASSERT_TRUE(line);
  EXPECT_FALSE(*line);
}

TEST_F(ConversationFile, LinesAreWholeWhereverChunksEnd) {
  std::string text;
  std::vector<std::string> expected;
  for (size_t i = 0; i < 3000; ++i) {
    expected.push_back(std::string(i * 7 % 911, static_cast<char>('a' + i % 26)));
    text += expected.back() + (i % 3 ? "\n" : "\r\n");
  }
  write(text);
  auto lines = LineReader::open(fs_, path_, {});
  ASSERT_TRUE(lines);
  for (const std::string& wanted : expected) {
    const auto line = lines->next();
    ASSERT_TRUE(line && *line);
    ASSERT_EQ(**line, wanted);
  }
  const auto end = lines->next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
  EXPECT_EQ(lines->cursor().offset_bytes, text.size());
}

}  // namespace
}  // namespace aerie
