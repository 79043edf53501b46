// Training-time test equals sequential decoding, and the cache of the reference decoder can be rolled back.
#include "draft/sequential.h"

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "draft/drafts_for_tests.h"
#include "train/ttt.h"

namespace aerie {
namespace {

struct Sequence {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::vector<float> aux, last;
};

Sequence random_sequence(const DraftShape& shape, size_t tokens, Random& random) {
  Sequence s;
  s.ids = test::random_ids(tokens, shape.vocab_size, random);
  s.mask.assign(tokens, 1);
  const auto width = static_cast<size_t>(shape.target_hidden_size);
  s.aux = test::random_floats(tokens * 3 * width, 1.0, random);
  s.last = test::random_floats(tokens * width, 1.0, random);
  return s;
}

std::vector<std::vector<float>> ttt_logits(const Checkpoint& checkpoint, const std::vector<float>& table, int steps,
                                           const std::vector<Sequence>& sequences) {
  auto head = std::make_shared<StoredHead>();
  head->norm.assign(static_cast<size_t>(checkpoint.shape.target_hidden_size), 1.0f);
  head->lm_head = table;
  TttOptions options;
  options.steps = steps;
  options.threads = 2;
  auto model = TttModel::create(checkpoint, head, options);
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().what);
  if (!model) return {};
  std::vector<TttSequence> batch;
  for (const Sequence& s : sequences) batch.push_back({s.ids, s.mask, s.aux, s.last, {}});
  TttWants wants;
  wants.logits = true;
  auto outputs = (*model)->run(batch, wants);
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().what);
  return outputs ? outputs->logits : std::vector<std::vector<float>>{};
}

// Compares every slot and step of every sequence; returns how many rows were compared.
int expect_same_as_sequential(const Checkpoint& checkpoint, int steps, const std::vector<Sequence>& sequences) {
  const std::vector<float> table = test::random_table(checkpoint.shape, 77);
  const auto logits = ttt_logits(checkpoint, table, steps, sequences);
  if (static_cast<int>(logits.size()) != steps) {
    ADD_FAILURE() << "the trainer gave logits of " << logits.size() << " steps instead of " << steps;
    return 0;
  }
  const auto columns = static_cast<size_t>(checkpoint.shape.draft_vocab_size);
  const auto width = 3 * static_cast<size_t>(checkpoint.shape.target_hidden_size);
  int rows = 0;
  size_t first_row = 0;
  double worst = 0;
  for (const Sequence& s : sequences) {
    auto draft = SequentialDraft::make(checkpoint, table);
    EXPECT_TRUE(draft.ok()) << draft.error().what;
    for (size_t slot = 0; slot + 1 < s.ids.size(); ++slot) {
      DraftOutput out = draft->feed(std::span(s.aux).subspan(slot * width, width), s.ids[slot + 1]);
      for (size_t k = 0; k < logits.size() && slot + 1 + k < s.ids.size(); ++k) {
        if (k > 0) out = draft->step(out.state, s.ids[slot + 1 + k]);
        const float* row = logits[k].data() + (first_row + slot) * columns;
        for (size_t i = 0; i < columns; ++i) worst = std::max(worst, std::fabs(double{row[i]} - out.logits[i]));
        ++rows;
      }
      draft->rollback(static_cast<int>(slot) + 1);
    }
    first_row += s.ids.size();
  }
  EXPECT_LE(worst, 1e-4);
  return rows;
}

TEST(TrainingTimeTest, EqualsSequentialDecodingForEverySlotAndNumberOfSteps) {
  Random random(5);
  const DraftShape shape = test::small_shape();
  const std::vector<Sequence> one{random_sequence(shape, 23, random)};
  const Checkpoint checkpoint = test::random_checkpoint(shape, 1);
  for (int steps = 1; steps <= 7; ++steps) {
    SCOPED_TRACE(steps);
    int expected = 0;
    for (int k = 0; k < steps; ++k) expected += 22 - k;
    EXPECT_EQ(expect_same_as_sequential(checkpoint, steps, one), expected);
  }
}

TEST(TrainingTimeTest, EqualsSequentialDecodingInPackedBatches) {
  Random random(6);
  const DraftShape shape = test::small_shape();
  const std::vector<Sequence> packed{random_sequence(shape, 17, random), random_sequence(shape, 3, random),
                                     random_sequence(shape, 29, random)};
  EXPECT_GT(expect_same_as_sequential(test::random_checkpoint(shape, 2, 1.0, true), 7, packed), 200);
}

TEST(TrainingTimeTest, EqualsSequentialDecodingForEveryFlag) {
  Random random(7);
  struct Case {
    const char* name;
    void (*change)(DraftShape&);
  };
  const Case cases[] = {
      {"norm_before_residual", [](DraftShape& s) { s.norm_before_residual = true; }},
      {"norm_before_fc", [](DraftShape& s) { s.norm_before_fc = true; }},
      {"fc_norm", [](DraftShape& s) { s.fc_norm = true; }},
      {"norm_output", [](DraftShape& s) { s.norm_output = true; }},
      {"un-normed logits", [](DraftShape& s) { s.normed_logits = false; }},
      {"one kv head, explicit head size", [](DraftShape& s) { s.kv_head_count = 1, s.head_size = 12; }},
      {"no grouping", [](DraftShape& s) { s.kv_head_count = s.head_count; }},
      {"full vocabulary", [](DraftShape& s) { s.draft_vocab_size = s.vocab_size; }},
      {"another rope base", [](DraftShape& s) { s.rope_theta = 100000; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    DraftShape shape = test::small_shape();
    c.change(shape);
    expect_same_as_sequential(test::random_checkpoint(shape, 3), 5, {random_sequence(shape, 14, random)});
  }
}

// What the comparison is worth: a draft that rotates by another base, or that swaps embedding and state, must not pass.
TEST(SequentialDraft, DependsOnPositionAndOnTheOrderOfItsInputs) {
  Random random(8);
  const DraftShape shape = test::small_shape();
  const Checkpoint checkpoint = test::random_checkpoint(shape, 4);
  const std::vector<float> table = test::random_table(shape, 5);
  const Sequence s = random_sequence(shape, 6, random);
  DraftShape other_shape = shape;
  other_shape.rope_theta = 500;
  Checkpoint other = checkpoint;
  other.shape = other_shape;
  auto a = SequentialDraft::make(checkpoint, table);
  auto b = SequentialDraft::make(other, table);
  ASSERT_TRUE(a.ok() && b.ok());
  double worst = 0;
  for (size_t slot = 0; slot < 5; ++slot) {
    const auto aux = std::span(s.aux).subspan(slot * 96, 96);
    const DraftOutput x = a->feed(aux, s.ids[slot + 1]), y = b->feed(aux, s.ids[slot + 1]);
    for (size_t i = 0; i < x.logits.size(); ++i) worst = std::max(worst, std::fabs(double{x.logits[i]} - y.logits[i]));
  }
  EXPECT_GT(worst, 1e-3);
}

TEST(SequentialDraft, CacheAfterRandomRollbacksEqualsAFreshPrefill) {
  Random random(9);
  const DraftShape shape = test::small_shape();
  const Checkpoint checkpoint = test::random_checkpoint(shape, 6);
  const std::vector<float> table = test::random_table(shape, 7);
  const Sequence s = random_sequence(shape, 60, random);
  const auto aux_of = [&](size_t slot) { return std::span(s.aux).subspan(slot * 96, 96); };
  auto draft = SequentialDraft::make(checkpoint, table);
  ASSERT_TRUE(draft.ok());
  size_t true_slots = 0;
  while (true_slots + 9 < s.ids.size()) {
    // A round: the seed slot, a chain of speculative slots, then a random number of tokens accepted.
    DraftOutput out = draft->feed(aux_of(true_slots), s.ids[true_slots + 1]);
    for (int k = 0; k < 4; ++k) out = draft->step(out.state, out.best_token);
    const size_t accepted = random.below(5);
    draft->rollback(static_cast<int>(true_slots));  // the seed too: it is fed again with the same true features
    for (size_t i = 0; i <= accepted; ++i, ++true_slots) draft->feed(aux_of(true_slots), s.ids[true_slots + 1]);
    ASSERT_EQ(draft->length(), static_cast<int>(true_slots));

    auto fresh = SequentialDraft::make(checkpoint, table);
    ASSERT_TRUE(fresh.ok());
    for (size_t slot = 0; slot < true_slots; ++slot) fresh->feed(aux_of(slot), s.ids[slot + 1]);
    ASSERT_EQ(draft->cache(), fresh->cache());
  }
  EXPECT_GT(true_slots, 40u);
}

TEST(SequentialDraft, RefusesAWrongTableAndAMissingTensor) {
  Checkpoint checkpoint = test::random_checkpoint(test::small_shape(), 1);
  const std::vector<float> table = test::random_table(checkpoint.shape, 1);
  EXPECT_FALSE(SequentialDraft::make(checkpoint, std::span(table).first(10)).ok());
  checkpoint.tensors.erase(checkpoint.tensors.begin());
  auto made = SequentialDraft::make(checkpoint, table);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().what.find("fc.weight"), std::string::npos) << made.error().what;
}

}  // namespace
}  // namespace aerie
