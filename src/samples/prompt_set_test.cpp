// The prompts that ship with the project: enough of them, varied, and nothing of the held-out part in the training part.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "samples/samples.h"

namespace aerie {
namespace {

std::string shipped(const std::string& name) { return std::string(AERIE_TEST_DATA) + "/../../data/prompts/" + name; }

std::vector<Prompt> load(const std::string& name) {
  auto prompts = load_prompts(real_file_system(), shipped(name));
  EXPECT_TRUE(prompts) << prompts.error().what;
  return prompts ? *prompts : std::vector<Prompt>();
}

// What is asked, without system messages, which the two sets share.
std::string asked(const Prompt& prompt) {
  std::string text;
  for (const Message& message : prompt.messages)
    if (message.role != "system") text += message.content + "\n";
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const char low = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::isalnum(static_cast<unsigned char>(low))) words.back() += low;
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::set<std::string> grams_of(const Prompt& prompt, size_t length) {
  const std::vector<std::string> words = words_of(asked(prompt));
  std::set<std::string> grams;
  for (size_t i = 0; i + length <= words.size(); ++i)
    grams.insert(join({words.begin() + static_cast<ptrdiff_t>(i), words.begin() + static_cast<ptrdiff_t>(i + length)}, " "));
  return grams;
}

TEST(PromptSet, IsLargeEnoughAndEveryPromptEndsWithTheUser) {
  const auto train = load("train.jsonl"), heldout = load("heldout.jsonl");
  EXPECT_GE(train.size(), 1500u);
  EXPECT_GE(heldout.size(), 120u);
  size_t several = 0;
  for (const auto* set : {&train, &heldout})
    for (const Prompt& prompt : *set) {
      EXPECT_EQ(prompt.messages.back().role, "user") << prompt.id;
      several += prompt.messages.size() > 1;
    }
  EXPECT_GE(several, 60u) << "some prompts have earlier turns or a system message";
}

TEST(PromptSet, SaysNothingTwice) {
  std::set<std::string> texts, ids;
  for (const char* name : {"train.jsonl", "heldout.jsonl"})
    for (const Prompt& prompt : load(name)) {
      EXPECT_TRUE(texts.insert(asked(prompt)).second) << prompt.id << ": " << asked(prompt);
      EXPECT_TRUE(ids.insert(prompt.id).second) << prompt.id;
    }
}

TEST(PromptSet, SharesNoMessageAndFewWordRunsBetweenItsTwoParts) {
  std::set<std::string> messages, grams;
  for (const Prompt& prompt : load("train.jsonl")) {
    for (const Message& message : prompt.messages)
      if (message.role != "system") messages.insert(message.content);
    grams.merge(grams_of(prompt, 5));
  }
  for (const Prompt& prompt : load("heldout.jsonl")) {
    for (const Message& message : prompt.messages) EXPECT_FALSE(messages.contains(message.content)) << message.content;
    const auto own = grams_of(prompt, 5);
    const auto shared = std::count_if(own.begin(), own.end(), [&](const std::string& gram) { return grams.contains(gram); });
    EXPECT_LE(static_cast<double>(shared), 0.25 * static_cast<double>(own.size())) << asked(prompt);
  }
}

TEST(PromptSet, IsMixedSoThatItsStartStandsForTheWhole) {
  // First words stand for kinds of prompts: the first 200 lines have to hold many of them, none of them too often.
  const auto train = load("train.jsonl");
  ASSERT_GE(train.size(), 200u);
  std::map<std::string, int> starts;
  for (size_t i = 0; i < 200; ++i) ++starts[words_of(train[i].messages.back().content).front()];
  EXPECT_GE(starts.size(), 40u);
  for (const auto& [word, count] : starts) EXPECT_LE(count, 50) << word;
}

}  // namespace
}  // namespace aerie
