// What one batch needs computed: which slots of which sequence are rows of the step matrices, where their tokens,
// positions and teacher rows are, and which rows have a loss at which step.
//
// Slots without any loss at any step need only their step-0 keys and values, so prompts cost little: their queries,
// MLPs and all of their later steps are left out. That is exact, not an approximation. Plain values. Private to train.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/ttt.h"

namespace aerie {

// Consecutive active slots [slot, slot + count) of one sequence; rows [row, row + count) of the step matrices.
struct PlanSpan {
  int64_t row = 0, count = 0;
  int64_t slot = 0;       // slots before it in its sequence, all of them keys
  int64_t key_row = 0;    // row of slot 0 of its sequence in the step-0 key matrix
  int64_t token_row = 0;  // row of the token that slot `slot` reads at step 0; step k reads k rows further
};

// One sequence's keys: rows [key_row, key_row + keys) are slots 0..keys-1; token rows [token_row, token_row + keys + K
// - 1) are its tokens 1.., with token 0 past its end.
struct PlanSequence {
  int64_t key_row = 0, keys = 0, token_row = 0;
};

// A teacher row with a loss, or counted for accuracy.
struct PlanTeacher {
  int32_t sequence = 0, row = 0;  // of the batch, of its sequence (t)
  int64_t step0_row = -1;         // active row of slot t-1; slot t-1-k is k rows before it
  int32_t steps = 0;              // steps 0..steps-1 have slot t-1-k >= 0
  bool loss = true;               // false: out of the draft vocabulary, only counted
  int32_t label = -1;             // teacher's best token over all V; -1 = not known, not needed
};

struct Plan {
  std::vector<PlanSequence> sequences;
  std::vector<PlanSpan> spans;
  std::vector<PlanTeacher> teachers;  // by sequence, then row
  std::vector<int32_t> position;      // [active rows] slot number
  std::vector<int32_t> key_position;  // [key rows]
  std::vector<int32_t> key_of_row;    // [active rows] row of the same slot in the key matrix
  std::vector<int32_t> tokens;        // [token rows] ids
  int64_t rows = 0, key_rows = 0, token_rows = 0;
  int64_t positions = 0;            // largest position + 1, steps included
  std::vector<int64_t> loss_rows;   // [K]
  std::vector<double> coefficient;  // [K] 1 / normaliser; 0 when nothing has a loss
  bool all_rows_are_keys = false;   // active rows and key rows are the same rows in the same order
};

// `labels[i]` are the teacher's argmax of sequence i, or empty when neither accuracy nor dropping needs them.
// `drafted[id]` tells whether a target token is in the draft vocabulary.
Plan make_plan(std::span<const TttSequence> batch, std::span<const std::vector<int32_t>> labels,
               const std::vector<uint8_t>& drafted, const TttOptions& options, const TttWants& wants);

}  // namespace aerie
