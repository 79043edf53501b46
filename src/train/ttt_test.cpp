// The model against an independent, naive implementation in double precision, and the properties that training relies
// on.
#include "train/ttt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/draft_for_tests.h"
#include "train/ttt_plan.h"

namespace aerie {
namespace {

using namespace testing_draft;
using Vector = std::vector<double>;

// --- Naive reference: one sequence, explicit L x L scores, doubles, no sharing of work
// --------------------------------
class Naive {
 public:
  Naive(const Checkpoint& c, const StoredHead& head) : c_(c), head_(head), s_(c.shape) {
    for (const Tensor& t : c.tensors) {
      if (t.name == "d2t") continue;
      const std::vector<float> f = *to_floats(t.view());
      weights_.push_back({t.name, Vector(f.begin(), f.end())});
    }
  }

  // logits[k][slot] over the draft vocabulary.
  std::vector<std::vector<Vector>> logits(const Tokens& t, int steps) const {
    const size_t n = t.ids.size(), h = size(s_.hidden_size), ht = size(s_.target_hidden_size);
    std::vector<Vector> state(n);
    for (size_t j = 0; j < n; ++j) {
      Vector x(t.aux.begin() + static_cast<long>(j * 3 * ht), t.aux.begin() + static_cast<long>((j + 1) * 3 * ht));
      if (s_.norm_before_fc) x = norm(x, w("input_norm.weight"));
      if (s_.fc_norm) {
        for (size_t i = 0; i < 3; ++i) {
          const Vector part =
              norm(Vector(x.begin() + static_cast<long>(i * ht), x.begin() + static_cast<long>((i + 1) * ht)),
                   w("fc_norm." + std::to_string(i) + ".weight"));
          std::copy(part.begin(), part.end(), x.begin() + static_cast<long>(i * ht));
        }
      }
      state[j] = times(w("fc.weight"), x, h);
    }
    std::vector<std::vector<Vector>> keys, values, logits;
    for (int k = 0; k < steps; ++k) {
      std::vector<Vector> queries(n), hidden(n), step_logits(n);
      keys.emplace_back(n);
      values.emplace_back(n);
      for (size_t j = 0; j < n; ++j) {
        const size_t at = j + 1 + static_cast<size_t>(k);
        const int32_t id = at < n ? t.ids[at] : 0;
        Vector e(head_.embeddings.begin() + id * static_cast<long>(h),
                 head_.embeddings.begin() + (id + 1) * static_cast<long>(h));
        Vector input = norm(e, w("midlayer.input_layernorm.weight"));
        hidden[j] = norm(state[j], w("midlayer.hidden_norm.weight"));
        input.insert(input.end(), hidden[j].begin(), hidden[j].end());
        const double position = static_cast<double>(j) + k;
        queries[j] =
            rotate(times(w("midlayer.self_attn.q_proj.weight"), input, size(s_.head_count * s_.head_size)), position);
        keys.back()[j] = rotate(
            times(w("midlayer.self_attn.k_proj.weight"), input, size(s_.kv_head_count * s_.head_size)), position);
        values.back()[j] = times(w("midlayer.self_attn.v_proj.weight"), input, size(s_.kv_head_count * s_.head_size));
      }
      for (size_t j = 0; j < n; ++j) {
        const Vector attended = attend(queries[j], keys, values, j);
        Vector r = s_.norm_before_residual ? hidden[j] : state[j];
        add(r, times(w("midlayer.self_attn.o_proj.weight"), attended, h));
        const Vector y = norm(r, w("midlayer.post_attention_layernorm.weight"));
        Vector gate = times(w("midlayer.mlp.gate_proj.weight"), y, size(s_.intermediate_size));
        const Vector up = times(w("midlayer.mlp.up_proj.weight"), y, size(s_.intermediate_size));
        for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
        add(r, times(w("midlayer.mlp.down_proj.weight"), gate, h));
        const Vector normed = norm(r, w("norm.weight"));
        step_logits[j] = times(w("lm_head.weight"), s_.normed_logits ? normed : r, size(s_.draft_vocab_size));
        state[j] = s_.norm_output ? normed : r;
      }
      logits.push_back(step_logits);
    }
    return logits;
  }

  // KL of step k at slot j to the teacher of row t, over the draft vocabulary (ids 2 i + 1).
  double divergence(const Tokens& tokens_in, const Vector& logits, size_t t) const {
    const size_t ht = size(s_.target_hidden_size);
    Vector x(tokens_in.last.begin() + static_cast<long>(t * ht),
             tokens_in.last.begin() + static_cast<long>((t + 1) * ht));
    x = norm(x, Vector(head_.norm.begin(), head_.norm.end()));
    Vector teacher(logits.size());
    for (size_t i = 0; i < teacher.size(); ++i) {
      for (size_t d = 0; d < ht; ++d) teacher[i] += x[d] * head_.lm_head[(2 * i + 1) * ht + d];
    }
    const Vector p = log_softmax(teacher), q = log_softmax(logits);
    double kl = 0;
    for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
    return kl;
  }

 private:
  static size_t size(int n) { return static_cast<size_t>(n); }
  const Vector& w(const std::string& name) const {
    for (const auto& [key, values] : weights_) {
      if (key == name) return values;
    }
    throw std::runtime_error("no tensor " + name);
  }
  static Vector times(const Vector& m, const Vector& x, size_t rows) {
    Vector y(rows, 0.0);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < x.size(); ++i) y[r] += m[r * x.size() + i] * x[i];
    }
    return y;
  }
  static void add(Vector& a, const Vector& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  }
  Vector norm(const Vector& x, const Vector& weight) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + s_.rms_norm_eps);
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
    return y;
  }
  Vector rotate(Vector x, double position) const {
    const size_t d = size(s_.head_size), half = d / 2;
    for (size_t head = 0; head < x.size() / d; ++head) {
      for (size_t i = 0; i < half; ++i) {
        const double angle = position * std::pow(s_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        const double a = x[head * d + i], b = x[head * d + half + i];
        x[head * d + i] = a * std::cos(angle) - b * std::sin(angle);
        x[head * d + half + i] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
    return x;
  }
  Vector attend(const Vector& q, const std::vector<std::vector<Vector>>& keys,
                const std::vector<std::vector<Vector>>& values, size_t slot) const {
    const size_t d = size(s_.head_size), group = size(s_.head_count / s_.kv_head_count);
    Vector out(q.size(), 0.0);
    for (size_t head = 0; head < size(s_.head_count); ++head) {
      const size_t kv = head / group * d;
      std::vector<const Vector*> k, v;
      for (size_t j = 0; j <= slot; ++j) k.push_back(&keys[0][j]), v.push_back(&values[0][j]);
      for (size_t i = 1; i < keys.size(); ++i) k.push_back(&keys[i][slot]), v.push_back(&values[i][slot]);
      Vector scores(k.size(), 0.0);
      for (size_t i = 0; i < k.size(); ++i) {
        for (size_t e = 0; e < d; ++e) scores[i] += q[head * d + e] * (*k[i])[kv + e];
        scores[i] /= std::sqrt(static_cast<double>(d));
      }
      const Vector p = log_softmax(scores);
      for (size_t i = 0; i < k.size(); ++i) {
        for (size_t e = 0; e < d; ++e) out[head * d + e] += std::exp(p[i]) * (*v[i])[kv + e];
      }
    }
    return out;
  }
  static Vector log_softmax(Vector x) {
    const double highest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const double v : x) sum += std::exp(v - highest);
    for (double& v : x) v -= highest + std::log(sum);
    return x;
  }

  const Checkpoint& c_;
  const StoredHead& head_;
  DraftShape s_;
  std::vector<std::pair<std::string, Vector>> weights_;
};

std::unique_ptr<TttModel> model(const Checkpoint& c, std::shared_ptr<const StoredHead> head, TttOptions options = {}) {
  options.threads = 2;
  auto made = TttModel::create(c, std::move(head), options);
  if (!made) throw std::runtime_error(made.error().what);
  return *std::move(made);
}

TttOutputs run(TttModel& m, const std::vector<Tokens>& batch, const TttWants& wants) {
  std::vector<TttSequence> sequences;
  for (const Tokens& t : batch) sequences.push_back(t.sequence());
  auto outputs = m.run(sequences, wants);
  if (!outputs) throw std::runtime_error(outputs.error().what);
  return *std::move(outputs);
}

std::vector<float> all_gradients(const TttModel& m) {
  std::vector<float> all;
  for (const Tensor& t : m.gradients()) {
    const std::vector<float> values = *to_floats(t.view());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(double{a[i]} - b[i]));
  return worst;
}

struct Variant {
  const char* name;
  void (*change)(DraftShape&);
};

class NaiveReference : public testing::TestWithParam<Variant> {};

TEST_P(NaiveReference, HasTheSameLogitsAtEverySlotAndStep) {
  DraftShape shape = tiny_shape();
  GetParam().change(shape);
  const Checkpoint c = tiny_draft(shape);
  const auto head = tiny_head(shape);
  const std::vector<Tokens> batch = {tokens(shape, 19, 4, 7), tokens(shape, 11, 3, 8)};
  TttOptions options;
  options.steps = 5;
  const TttOutputs outputs = run(*model(c, head, options), batch, {.logits = true});
  const Naive naive(c, *head);
  const auto vd = static_cast<size_t>(shape.draft_vocab_size);
  size_t first = 0;
  for (const Tokens& t : batch) {
    const auto expected = naive.logits(t, options.steps);
    for (size_t k = 0; k < expected.size(); ++k) {
      for (size_t j = 0; j < t.ids.size(); ++j) {
        for (size_t i = 0; i < vd; ++i) {
          ASSERT_NEAR(outputs.logits[k][(first + j) * vd + i], expected[k][j][i], 2e-5)
              << "step " << k << " slot " << j;
        }
      }
    }
    first += t.ids.size();
  }
}

TEST_P(NaiveReference, HasTheSameLoss) {
  DraftShape shape = tiny_shape();
  GetParam().change(shape);
  const Checkpoint c = tiny_draft(shape);
  const auto head = tiny_head(shape);
  const Tokens t = tokens(shape, 17, 5, 9);
  TttOptions options;
  options.steps = 4;
  const TttOutputs outputs = run(*model(c, head, options), {t}, {});
  const Naive naive(c, *head);
  const auto logits = naive.logits(t, options.steps);
  double total = 0;
  for (size_t k = 0; k < 4; ++k) {
    double sum = 0;
    int count = 0;
    for (size_t j = 0; j + 2 + k < t.ids.size(); ++j) {  // predicts token j+2+k, whose mask decides
      if (t.mask[j + 2 + k] == 0) continue;
      sum += naive.divergence(t, logits[k][j], j + 1 + k);
      ++count;
    }
    EXPECT_EQ(outputs.loss_rows[k], count);
    EXPECT_NEAR(outputs.step_loss[k], sum / count, 1e-5);
    total += std::pow(0.8, static_cast<double>(k)) * sum / count;
  }
  EXPECT_NEAR(outputs.loss, total, 1e-5);
}

// Whatever the flags: gradients follow the loss (central differences along a random direction of every tensor).
TEST_P(NaiveReference, GradientsFollowTheLoss) {
  DraftShape shape = tiny_shape();
  GetParam().change(shape);
  const Checkpoint c = tiny_draft(shape);
  const auto head = tiny_head(shape);
  const std::vector<Tokens> batch = {tokens(shape, 40, 21, 9), tokens(shape, 9, 2, 10)};
  TttOptions options;
  options.steps = 3;
  auto m = model(c, head, options);
  run(*m, batch, {.gradients = true});
  Random random(5);
  for (const Tensor& gradient : m->gradients()) {
    const std::vector<float> g = *to_floats(gradient.view());
    const std::vector<float> direction = normals(random, g.size(), 1);
    double expected = 0;
    for (size_t i = 0; i < g.size(); ++i) expected += double{g[i]} * direction[i];
    const double step = 2e-3 / std::sqrt(static_cast<double>(g.size()));
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      Checkpoint moved = c;
      for (Tensor& t : moved.tensors) {
        if (t.name != gradient.name) continue;
        std::vector<float> values = *to_floats(t.view());
        for (size_t i = 0; i < values.size(); ++i)
          values[i] += static_cast<float>((side == 0 ? -step : step) * direction[i]);
        t = tensor_f32(t.name, t.shape, values);
      }
      loss[side] = run(*model(moved, head, options), batch, {}).loss;
    }
    const double measured = (loss[1] - loss[0]) / (2 * step);
    EXPECT_NEAR(measured, expected, 2e-2 * std::abs(expected) + 5e-3) << gradient.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, NaiveReference,
                         testing::Values(Variant{"plain", [](DraftShape&) {}},
                                         Variant{"norm_before_residual",
                                                 [](DraftShape& s) { s.norm_before_residual = true; }},
                                         Variant{"norm_before_fc", [](DraftShape& s) { s.norm_before_fc = true; }},
                                         Variant{"fc_norm", [](DraftShape& s) { s.fc_norm = true; }},
                                         Variant{"norm_output", [](DraftShape& s) { s.norm_output = true; }},
                                         Variant{"raw_logits", [](DraftShape& s) { s.normed_logits = false; }},
                                         Variant{"raw_logits_norm_output",
                                                 [](DraftShape& s) { s.normed_logits = false, s.norm_output = true; }},
                                         Variant{"no_groups", [](DraftShape& s) { s.kv_head_count = 4; }},
                                         Variant{"one_key_head", [](DraftShape& s) { s.kv_head_count = 1; }}),
                         [](const auto& one) { return std::string(one.param.name); });

// --- Alignment ------------------------------------------------------------------------------------------------------
struct Row {
  int slot, step, teacher;
  bool operator==(const Row&) const = default;
};

// (slot, step, teacher row) of everything that has a loss, by the plan.
std::vector<Row> losses_of(size_t length, std::vector<uint8_t> mask, LossMask kind, int steps) {
  const std::vector<int32_t> ids(length, 1);
  const TttSequence sequence{ids, mask, {}, {}, {}};
  TttOptions options;
  options.steps = steps;
  options.mask = kind;
  const Plan plan = make_plan({&sequence, 1}, {}, std::vector<uint8_t>(10, 1), options, {});
  std::vector<Row> rows;
  for (int k = 0; k < steps; ++k) {
    for (const PlanTeacher& t : plan.teachers) {
      if (k < t.steps) rows.push_back({plan.position[static_cast<size_t>(t.step0_row - k)], k, t.row});
    }
  }
  return rows;
}

TEST(Alignment, SlotJAtStepKHasTeacherRowJPlus1PlusK) {
  for (const Row& row : losses_of(6, {1, 1, 1, 1, 1, 1}, LossMask::kPredicted, 3)) {
    EXPECT_EQ(row.teacher, row.slot + 1 + row.step);
  }
}

TEST(Alignment, WithThePredictedMaskTheLastTwoSlotsHaveNoLossAndOneMoreEachStep) {
  EXPECT_EQ(losses_of(6, {1, 1, 1, 1, 1, 1}, LossMask::kPredicted, 3),
            (std::vector<Row>{
                {0, 0, 1}, {1, 0, 2}, {2, 0, 3}, {3, 0, 4}, {0, 1, 2}, {1, 1, 3}, {2, 1, 4}, {0, 2, 3}, {1, 2, 4}}));
}

TEST(Alignment, WithTheUnshiftedMaskOnlyTheLastSlotHasNoLoss) {
  EXPECT_EQ(losses_of(6, {1, 1, 1, 1, 1, 1}, LossMask::kUnshifted, 2),
            (std::vector<Row>{
                {0, 0, 1}, {1, 0, 2}, {2, 0, 3}, {3, 0, 4}, {4, 0, 5}, {0, 1, 2}, {1, 1, 3}, {2, 1, 4}, {3, 1, 5}}));
}

TEST(Alignment, TheSlotBeforeTheAnswerLearnsItsSecondTokenOnlyWithThePredictedMask) {
  // Answer = tokens 3, 4, 5. Slot 1 (step 0) reads token 2, the prompt's last, and predicts token 3, the answer's
  // first.
  const std::vector<uint8_t> mask = {0, 0, 0, 1, 1, 1};
  EXPECT_EQ(losses_of(6, mask, LossMask::kPredicted, 1), (std::vector<Row>{{1, 0, 2}, {2, 0, 3}, {3, 0, 4}}));
  EXPECT_EQ(losses_of(6, mask, LossMask::kInput, 1), (std::vector<Row>{{2, 0, 3}, {3, 0, 4}, {4, 0, 5}}));
  EXPECT_EQ(losses_of(6, mask, LossMask::kUnshifted, 1), (std::vector<Row>{{3, 0, 4}, {4, 0, 5}}));
}

// --- Properties
// -------------------------------------------------------------------------------------------------------
TEST(Ttt, SkippingSlotsWithoutLossChangesNothing) {
  const DraftShape shape = tiny_shape();
  auto m = model(tiny_draft(shape), tiny_head(shape));
  Tokens t = tokens(shape, 160, 60, 11);
  std::fill(t.mask.begin() + 80, t.mask.begin() + 130, uint8_t{0});  // two answers, a second prompt between them
  const TttOutputs skipped = run(*m, {t}, {.gradients = true});
  const std::vector<float> gradients = all_gradients(*m);
  const TttOutputs whole = run(*m, {t}, {.gradients = true, .logits = true});
  EXPECT_NEAR(skipped.loss, whole.loss, 1e-6);
  EXPECT_LE(largest_difference(gradients, all_gradients(*m)), 2e-6);
}

TEST(Ttt, SequencesOfABatchDoNotSeeEachOther) {
  const DraftShape shape = tiny_shape();
  auto m = model(tiny_draft(shape), tiny_head(shape));
  const Tokens a = tokens(shape, 30, 5, 12), b = tokens(shape, 22, 9, 13);
  const TttOutputs both = run(*m, {a, b}, {.logits = true});
  const TttOutputs only_b = run(*m, {b}, {.logits = true});
  for (size_t k = 0; k < both.logits.size(); ++k) {
    const size_t skip = a.ids.size() * static_cast<size_t>(shape.draft_vocab_size);
    const std::vector<float> part(both.logits[k].begin() + static_cast<long>(skip), both.logits[k].end());
    EXPECT_LE(largest_difference(part, only_b.logits[k]), 1e-5) << "step " << k;
  }
}

TEST(Ttt, UnsupervisedTokensAtTheEndChangeNeitherLossNorGradient) {
  const DraftShape shape = tiny_shape();
  auto m = model(tiny_draft(shape), tiny_head(shape));
  Tokens longer = tokens(shape, 50, 6, 14), cut = longer;
  std::fill(longer.mask.begin() + 30, longer.mask.end(), uint8_t{0});
  cut.ids.resize(30);
  cut.mask.resize(30);
  cut.aux.resize(30 * 3 * static_cast<size_t>(shape.hidden_size));
  cut.last.resize(30 * static_cast<size_t>(shape.hidden_size));
  const double loss = run(*m, {longer}, {.gradients = true}).loss;
  const std::vector<float> gradients = all_gradients(*m);
  EXPECT_EQ(run(*m, {cut}, {.gradients = true}).loss, loss);
  EXPECT_EQ(all_gradients(*m), gradients);
}

TEST(Ttt, ABatchWithoutSupervisionHasExactlyZeroLossAndZeroGradients) {
  const DraftShape shape = tiny_shape();
  auto m = model(tiny_draft(shape), tiny_head(shape));
  run(*m, {tokens(shape, 20, 4, 15)}, {.gradients = true});  // leaves gradients that must go
  const TttOutputs outputs = run(*m, {tokens(shape, 20, 20, 15), tokens(shape, 1, 0, 16)}, {.gradients = true});
  EXPECT_EQ(outputs.loss, 0);
  for (const float g : all_gradients(*m)) ASSERT_EQ(g, 0.0f);
  EXPECT_EQ(*m->update({}, 1), 0);
}

TEST(Ttt, CountsChainsFromTheFirstStep) {
  TttOutputs outputs;
  outputs.chain_total = {10, 8, 0};
  outputs.chain_correct = {5, 2, 0};
  EXPECT_DOUBLE_EQ(*acceptance_estimate(outputs), 1 + 0.5 + 0.25);
}

TEST(Ttt, ADraftThatSaysWhatTheTeacherSaysCountsAsRightAtEverySlot) {
  const DraftShape shape = tiny_shape();
  auto m = model(tiny_draft(shape), tiny_head(shape), {.steps = 3});
  Tokens t = tokens(shape, 12, 0, 17);
  const TttOutputs outputs = run(*m, {t}, {.accuracy = true, .logits = true});
  // The teacher is made to say what the draft says at step 0.
  std::vector<int32_t> labels = m->teacher_argmax(t.last);
  const auto vd = static_cast<size_t>(shape.draft_vocab_size);
  for (size_t j = 0; j + 2 < t.ids.size(); ++j) {
    const auto row = outputs.logits[0].begin() + static_cast<long>(j * vd);
    labels[j + 1] = static_cast<int32_t>(2 * (std::max_element(row, row + static_cast<long>(vd)) - row) + 1);
  }
  TttSequence sequence = t.sequence();
  sequence.teacher_argmax = labels;
  const TttOutputs right = *m->run({&sequence, 1}, {.accuracy = true});
  EXPECT_EQ(right.correct[0], right.total[0]);
  EXPECT_EQ(right.total[0], 10);
  EXPECT_EQ(right.chain_correct[0], right.chain_total[0]);
}

TEST(Ttt, SaysWhichSequenceHasALossThatIsNotFinite) {
  const DraftShape shape = tiny_shape();
  auto m = model(tiny_draft(shape), tiny_head(shape));
  std::vector<Tokens> batch = {tokens(shape, 20, 4, 18), tokens(shape, 20, 4, 19)};
  batch[1].aux[5 * 72] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<TttSequence> sequences = {batch[0].sequence(), batch[1].sequence()};
  const auto outputs = m->run(sequences, {.gradients = true});
  ASSERT_FALSE(outputs.ok());
  EXPECT_NE(outputs.error().what.find("sequence 1"), std::string::npos) << outputs.error().what;
}

// fc reading columns a thousand times as large, with weights as much smaller, is the same model and must learn the
// same.
TEST(Ttt, LearnsTheSameWhateverTheSizeOfTheFeatures) {
  const DraftShape shape = tiny_shape();
  const auto head = tiny_head(shape);
  const Checkpoint plain = tiny_draft(shape);
  Tokens t = tokens(shape, 40, 5, 22), large = t;
  const size_t columns = 72;
  std::vector<float> rms(columns, 1.0f), factor(columns);
  for (size_t c = 0; c < columns; ++c) rms[c] = factor[c] = c % 3 == 0 ? 1024.0f : c % 3 == 1 ? 1.0f : 0.0625f;
  for (size_t i = 0; i < large.aux.size(); ++i) large.aux[i] *= factor[i % columns];
  Checkpoint small = plain;
  for (Tensor& tensor : small.tensors) {
    if (tensor.name != "fc.weight") continue;
    std::vector<float> values = *to_floats(tensor.view());
    for (size_t i = 0; i < values.size(); ++i) values[i] /= factor[i % columns];
    tensor = tensor_f32(tensor.name, tensor.shape, values);
  }
  auto a = model(plain, head), b = model(small, head);
  ASSERT_TRUE(a->set_feature_rms(std::vector<float>(columns, 1.0f)).ok());
  ASSERT_TRUE(b->set_feature_rms(rms).ok());
  const AdamWSettings adamw{.lr = 1e-3, .weight_decay = 0.1, .clip_norm = 0.5};
  for (int64_t step = 1; step <= 5; ++step) {
    const double loss = run(*a, {t}, {.gradients = true}).loss;
    EXPECT_NEAR(run(*b, {large}, {.gradients = true}).loss, loss, 1e-4 * loss) << "step " << step;
    ASSERT_TRUE(a->update(adamw, step).ok());
    ASSERT_TRUE(b->update(adamw, step).ok());
  }
  EXPECT_FALSE(a->set_feature_rms(std::vector<float>(3, 1.0f)).ok());
  EXPECT_FALSE(a->set_feature_rms(std::vector<float>(columns, 0.0f)).ok());
}

TEST(Ttt, RefusesWhatDoesNotFit) {
  const DraftShape shape = tiny_shape();
  const auto head = tiny_head(shape);
  Checkpoint twice = tiny_draft(shape);
  for (Tensor& t : twice.tensors) {
    if (t.name == "d2t") t = tensor_i64("d2t", t.shape, std::vector<int64_t>(20, 0)), t.bytes[8] = std::byte{0xff};
  }
  EXPECT_FALSE(TttModel::create(twice, head, {}).ok());
  EXPECT_FALSE(TttModel::create(tiny_draft(shape), head, {.steps = 0}).ok());
  DraftShape wide = shape;
  wide.target_hidden_size = 32;
  EXPECT_FALSE(TttModel::create(tiny_draft(wide), head, {}).ok());
  auto m = model(tiny_draft(shape), head);
  Tokens bad = tokens(shape, 8, 2, 20);
  bad.ids[3] = shape.vocab_size;
  const TttSequence sequence = bad.sequence();
  EXPECT_FALSE(m->run({&sequence, 1}, {}).ok());
}

TEST(Ttt, AFrozenHeadKeepsItsValuesAndChangesNoOtherGradient) {
  const DraftShape shape = tiny_shape();
  const auto head = tiny_head(shape);
  TttOptions options;
  options.steps = 3;
  const auto trained = model(tiny_draft(shape), head, options);
  options.freeze_head = true;
  const auto frozen = model(tiny_draft(shape), head, options);
  const std::vector<Tokens> batch = {tokens(shape, 40, 5, 21)};
  for (TttModel* one : {trained.get(), frozen.get()}) run(*one, batch, {.gradients = true});
  const auto want = trained->gradients(), got = frozen->gradients();
  for (size_t i = 0; i < want.size(); ++i) {
    const bool is_head = want[i].name == "lm_head.weight";
    EXPECT_EQ(want[i].bytes == got[i].bytes, !is_head) << want[i].name;
  }
  ASSERT_TRUE(frozen->update({.lr = 3e-3, .weight_decay = 0.1}, 1).ok());
  const auto after = frozen->weights();
  const Checkpoint before = tiny_draft(shape);
  for (const Tensor& t : after) EXPECT_EQ(t.bytes == before.find(t.name)->bytes, t.name == "lm_head.weight") << t.name;
}

TEST(Ttt, AdamWLowersTheLossAndItsMomentsComeBack) {
  const DraftShape shape = tiny_shape();
  const auto head = tiny_head(shape);
  auto m = model(tiny_draft(shape), head);
  const std::vector<Tokens> batch = {tokens(shape, 40, 5, 21)};
  const AdamWSettings adamw{.lr = 3e-3, .clip_norm = 0.5};
  const double before = run(*m, batch, {}).loss;
  for (int64_t step = 1; step <= 20; ++step) {
    run(*m, batch, {.gradients = true});
    ASSERT_TRUE(m->update(adamw, step).ok());
  }
  EXPECT_LT(run(*m, batch, {}).loss, 0.8 * before);

  Checkpoint middle = tiny_draft(shape);
  middle.tensors = m->weights();
  for (const Tensor& t : tiny_draft(shape).tensors) {
    if (t.name == "d2t") middle.tensors.push_back(t);
  }
  auto other = model(middle, head);
  ASSERT_TRUE(other->restore_optimizer(m->optimizer_state()).ok());
  for (TttModel* one : {m.get(), other.get()}) {
    run(*one, batch, {.gradients = true});
    ASSERT_TRUE(one->update(adamw, 21).ok());
  }
  for (size_t i = 0; i < m->weights().size(); ++i) EXPECT_EQ(m->weights()[i].bytes, other->weights()[i].bytes);
}

}  // namespace
}  // namespace aerie
