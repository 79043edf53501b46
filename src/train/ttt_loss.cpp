#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "train/kernels.h"
#include "train/ttt_state.h"

namespace aerie {

using dense::Into;
using dense::Matrix;

namespace {

// Logits that may stand in memory at once: large enough for fast products, small enough to stay near the cores.
constexpr int64_t kLogitsAtOnce = 8 << 20;

// The rows of all steps that belong to one chunk of teacher rows.
struct ChunkRows {
  std::vector<int32_t> teacher, step;
  std::vector<int64_t> row;  // of the step matrices
  std::vector<float> coefficient;
  void add(int32_t t, int32_t k, int64_t r, float c) {
    teacher.push_back(t);
    step.push_back(k);
    row.push_back(r);
    coefficient.push_back(c);
  }
};

ChunkRows rows_of(std::span<const PlanTeacher> teachers, const Plan& plan, const TttOptions& options) {
  ChunkRows rows;
  double weight = 1;
  for (int k = 0; k < options.steps; ++k, weight *= options.step_decay) {
    const auto gradient = static_cast<float>(weight * plan.coefficient[static_cast<size_t>(k)]);
    for (size_t i = 0; i < teachers.size(); ++i) {
      if (k < teachers[i].steps)
        rows.add(static_cast<int32_t>(i), k, teachers[i].step0_row - k, teachers[i].loss ? gradient : 0);
    }
  }
  return rows;
}

// What is known of one slot at each step: 1 right, 0 wrong, -1 not supervised.
void count_chains(const std::vector<std::vector<int8_t>>& hits, TttOutputs& outputs) {
  const size_t rows = hits.empty() ? 0 : hits[0].size();
  for (size_t r = 0; r < rows; ++r) {
    bool right = true;
    for (size_t k = 0; k < hits.size(); ++k) {
      if (hits[k][r] < 0) break;
      right = right && hits[k][r] == 1;
      ++outputs.chain_total[k];
      if (right) ++outputs.chain_correct[k];
    }
  }
}

}  // namespace

// Rows of `work.teacher`: the target's distribution over the draft vocabulary, once for all steps.
void TttModel::State::teacher_rows(std::span<const TttSequence> batch, std::span<const PlanTeacher> teachers) {
  const int64_t ht = shape.target_hidden_size, vd = shape.draft_vocab_size, n = static_cast<int64_t>(teachers.size());
  const Matrix hidden{work.teacher_hidden.size(n * ht), n, ht, ht};
  for (int64_t i = 0; i < n; ++i) {
    const PlanTeacher& t = teachers[static_cast<size_t>(i)];
    const float* from = batch[static_cast<size_t>(t.sequence)].last.data() + int64_t{t.row} * ht;
    std::copy(from, from + ht, hidden.data + i * ht);
  }
  if (options.last_is_prenorm) {
    kernels::rms_norm(hidden, hidden, head->norm.data(), shape.rms_norm_eps, work.teacher_inverse.size(n));
  }
  float* teacher = work.teacher.size(n * vd);
  dense::multiply_nt({teacher, n, vd, vd}, hidden, {teacher_head.data(), vd, ht, ht}, Into::kReplace);
  kernels::softmax_rows(teacher, n, vd, work.negative_entropy.size(n));
}

// Linear layer and divergence in one, a chunk of teacher rows at a time, gradients made on the way: nothing of size
// tokens x vocabulary ever exists, and rows without a loss are never multiplied.
Status TttModel::State::loss(std::span<const TttSequence> batch, const Plan& plan, const TttWants& wants,
                             TttOutputs& outputs) {
  const int64_t h = shape.hidden_size, vd = shape.draft_vocab_size;
  if (wants.gradients) {
    for (StepBuffers& step : work.steps) step.d_head.zeroed(plan.rows * h);
  }
  std::vector<std::vector<int8_t>> hits;
  if (wants.accuracy) hits.assign(work.steps.size(), std::vector<int8_t>(static_cast<size_t>(plan.rows), -1));
  const auto most = static_cast<size_t>(std::clamp<int64_t>(kLogitsAtOnce / (options.steps * vd), 8, 128));
  std::vector<int32_t> best;
  const std::span<const PlanTeacher> all = plan.teachers;
  for (size_t first = 0; first < all.size(); first += most) {
    const std::span<const PlanTeacher> chunk = all.subspan(first, std::min(most, all.size() - first));
    teacher_rows(batch, chunk);
    const ChunkRows rows = rows_of(chunk, plan, options);
    const auto n = static_cast<int64_t>(rows.row.size());
    const Matrix states{work.head_rows.size(n * h), n, h, h}, logits{work.logits.size(n * vd), n, vd, vd};
    for (int64_t i = 0; i < n; ++i) {
      const float* from = head_input(rows.step[static_cast<size_t>(i)]) + rows.row[static_cast<size_t>(i)] * h;
      std::copy(from, from + h, states.data + i * h);
    }
    const dense::ConstMatrix lm_head{weights.lm_head, vd, h, h};
    dense::multiply_nt(logits, states, lm_head, Into::kReplace);
    float* cross_entropy = work.cross_entropy.size(n);
    best.resize(static_cast<size_t>(n));
    kernels::loss_rows({n, vd, work.teacher.data(), rows.teacher.data(), rows.coefficient.data(), wants.gradients},
                       logits.data, cross_entropy, wants.accuracy ? best.data() : nullptr);

    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto k = static_cast<size_t>(rows.step[at]);
      const PlanTeacher& t = chunk[static_cast<size_t>(rows.teacher[at])];
      const double entropy = options.loss == LossKind::kKl ? work.negative_entropy.data()[rows.teacher[at]] : 0;
      const double value = entropy + cross_entropy[i];
      if (!std::isfinite(value)) {
        return invalid(fmt::format("the loss of sequence {} of the batch is not finite at teacher row {}, step {}",
                                   t.sequence, t.row, k));
      }
      if (t.loss) outputs.step_loss[k] += value * plan.coefficient[k];
      if (wants.accuracy) {
        const bool right = target_of[static_cast<size_t>(best[at])] == t.label;
        hits[k][static_cast<size_t>(rows.row[at])] = right ? 1 : 0;
        ++outputs.total[k];
        if (right) ++outputs.correct[k];
      }
    }
    if (!wants.gradients) continue;
    const Matrix d_states{work.d_head_rows.size(n * h), n, h, h};
    dense::multiply_nn(d_states, logits, lm_head, Into::kReplace);
    if (!options.freeze_head) dense::multiply_tn({gradients.lm_head, vd, h, h}, logits, states, Into::kAdd);
    for (int64_t i = 0; i < n; ++i) {
      StepBuffers& step = work.steps[static_cast<size_t>(rows.step[static_cast<size_t>(i)])];
      const float* from = d_states.data + i * h;
      std::copy(from, from + h, step.d_head.data() + rows.row[static_cast<size_t>(i)] * h);
    }
  }
  count_chains(hits, outputs);
  return ok_status();
}

}  // namespace aerie
