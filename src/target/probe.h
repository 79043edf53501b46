// The probe: proof, before the first sample, that a target's hidden states are what training and serving need.
//
// Runs one short text through capture() and checks: row count; finite values; order of rows (passes over prefixes give the
// same leading rows); boundary 0 is the embeddings, no two boundaries are the same or changed places, the last one is the
// final state; asked alone or together they are the same; the final state is pre-norm; argmax(lm_head(norm(last))) is the
// target's own greedy token. A target that fails is refused with the check's name and numbers.
// What it cannot see: rows misplaced only in sequences longer than its text (40 tokens).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "target/target.h"

namespace aerie {

struct ProbeReport {
  struct Check {
    std::string name;
    bool passed = false;
    std::string detail;  // what was measured
  };
  std::vector<Check> checks;
  std::vector<int> boundaries;
  // Lengths of three rows (second, middle, last) of each boundary of the probe prompt, boundary by boundary: what tells,
  // later, whether the same boundaries of the same model are seen. Machines and batch shapes differ by a few percent.
  std::vector<double> row_norms;
  bool passed() const;
  std::string json() const;  // goes into the store's header
};

// kInvalid with the failed check's sentence when the target cannot be trusted; other errors as capture() gives them.
Result<ProbeReport> probe(Target& target, std::span<const int> boundaries, std::stop_token stop);

}  // namespace aerie
