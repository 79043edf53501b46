#include "train/ttt_plan.h"

#include <algorithm>

namespace aerie {
namespace {

// Spans nearer than this are joined: a few idle rows cost less than two more attention calls a step.
constexpr int64_t kJoin = 16;

int mask_shift(LossMask mask) {
  switch (mask) {
    case LossMask::kPredicted: return 1;
    case LossMask::kInput: return 0;
    case LossMask::kUnshifted: return -1;
  }
  return 1;
}

// Teacher rows 1..T-1 of a sequence that the mask lets through.
std::vector<int32_t> supervised_rows(const TttSequence& s, LossMask mask) {
  const int shift = mask_shift(mask);
  const auto length = static_cast<int32_t>(s.ids.size());
  std::vector<int32_t> rows;
  for (int32_t t = 1; t < length; ++t) {
    if (t + shift < length && s.loss_mask[static_cast<size_t>(t + shift)] != 0) rows.push_back(t);
  }
  return rows;
}

struct SlotRange {
  int64_t begin = 0, end = 0;
};

// Slots t-1-k (k < K) of all rows t, as joined ranges.
std::vector<SlotRange> active_slots(const std::vector<int32_t>& rows, int steps) {
  std::vector<SlotRange> ranges;
  for (const int32_t t : rows) {
    const SlotRange own{std::max<int64_t>(0, int64_t{t} - steps), t};
    if (!ranges.empty() && own.begin <= ranges.back().end + kJoin) {
      ranges.back().end = own.end;
    } else {
      ranges.push_back(own);
    }
  }
  return ranges;
}

class Planner {
 public:
  Planner(const TttOptions& options, const TttWants& wants) : options_(options), wants_(wants) {}

  void add(int32_t index, const TttSequence& s, const std::vector<int32_t>& labels,
           const std::vector<uint8_t>& drafted) {
    std::vector<int32_t> rows = supervised_rows(s, options_.mask);
    const auto outside = [&](int32_t t) {
      return options_.drop_out_of_vocabulary && drafted[static_cast<size_t>(labels[static_cast<size_t>(t)])] == 0;
    };
    if (!wants_.accuracy) std::erase_if(rows, outside);
    std::vector<SlotRange> ranges = active_slots(rows, options_.steps);
    if (wants_.logits && !s.ids.empty()) ranges = {{0, static_cast<int64_t>(s.ids.size())}};
    const size_t first_span = plan_.spans.size();
    add_sequence(s, ranges);
    size_t span = first_span;
    for (const int32_t t : rows) {
      while (t > plan_.spans[span].slot + plan_.spans[span].count) ++span;
      PlanTeacher teacher;
      teacher.sequence = index;
      teacher.row = t;
      teacher.step0_row = plan_.spans[span].row + (t - 1 - plan_.spans[span].slot);
      teacher.steps = std::min(options_.steps, t);
      teacher.loss = !outside(t);
      if (!labels.empty()) teacher.label = labels[static_cast<size_t>(t)];
      plan_.teachers.push_back(teacher);
    }
  }

  Plan finish(std::span<const TttSequence> batch) {
    const auto steps = static_cast<size_t>(options_.steps);
    plan_.loss_rows.assign(steps, 0);
    for (const PlanTeacher& t : plan_.teachers) {
      for (int k = 0; t.loss && k < t.steps; ++k) ++plan_.loss_rows[static_cast<size_t>(k)];
    }
    size_t longest = 0;
    for (const TttSequence& s : batch) longest = std::max(longest, s.ids.size());
    plan_.coefficient.assign(steps, 0);
    for (size_t k = 0; k < steps; ++k) {
      const double count = options_.normaliser == LossNormaliser::kAllPositions
                               ? static_cast<double>(longest * batch.size())
                               : static_cast<double>(plan_.loss_rows[k]);
      if (plan_.loss_rows[k] > 0) plan_.coefficient[k] = 1.0 / count;
    }
    plan_.all_rows_are_keys = plan_.rows == plan_.key_rows;
    return std::move(plan_);
  }

 private:
  void add_sequence(const TttSequence& s, const std::vector<SlotRange>& ranges) {
    PlanSequence sequence;
    sequence.key_row = plan_.key_rows;
    sequence.token_row = plan_.token_rows;
    sequence.keys = ranges.empty() ? 0 : ranges.back().end;
    for (const SlotRange& range : ranges) {
      PlanSpan span;
      span.row = plan_.rows;
      span.count = range.end - range.begin;
      span.slot = range.begin;
      span.key_row = sequence.key_row;
      span.token_row = sequence.token_row + range.begin;
      plan_.spans.push_back(span);
      for (int64_t slot = range.begin; slot < range.end; ++slot) {
        plan_.position.push_back(static_cast<int32_t>(slot));
        plan_.key_of_row.push_back(static_cast<int32_t>(sequence.key_row + slot));
      }
      plan_.rows += span.count;
    }
    for (int64_t slot = 0; slot < sequence.keys; ++slot) plan_.key_position.push_back(static_cast<int32_t>(slot));
    if (sequence.keys > 0) {
      const int64_t tokens = sequence.keys + options_.steps - 1;
      for (int64_t i = 1; i <= tokens; ++i) {
        plan_.tokens.push_back(i < static_cast<int64_t>(s.ids.size()) ? s.ids[static_cast<size_t>(i)] : 0);
      }
      plan_.token_rows += tokens;
      plan_.positions = std::max(plan_.positions, tokens);
    }
    plan_.key_rows += sequence.keys;
    plan_.sequences.push_back(sequence);
  }

  const TttOptions& options_;
  const TttWants& wants_;
  Plan plan_;
};

}  // namespace

Plan make_plan(std::span<const TttSequence> batch, std::span<const std::vector<int32_t>> labels,
               const std::vector<uint8_t>& drafted, const TttOptions& options, const TttWants& wants) {
  Planner planner(options, wants);
  static const std::vector<int32_t> kNone;
  for (size_t i = 0; i < batch.size(); ++i) {
    planner.add(static_cast<int32_t>(i), batch[i], labels.empty() ? kNone : labels[i], drafted);
  }
  return planner.finish(batch);
}

}  // namespace aerie
