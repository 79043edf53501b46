// The probe: proof, before the first sample, that a target's hidden states are what training and serving need.
//
// Runs short prompts through capture() and checks: row count, finite values, order of rows (a second pass over a prefix
// gives the same leading rows), boundaries told apart and in the right place, the final state pre-norm, and
// argmax(lm_head(norm(last))) equal to the target's own greedy token. A target that fails is refused with the check's name and numbers.
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
  std::string boundary_digest;  // of three rows of each boundary of the probe prompt, rounded; compared at load
  bool passed() const;
  std::string json() const;  // goes into the store's header
};

// kInvalid with the failed check's sentence when the target cannot be trusted; other errors as capture() gives them.
Result<ProbeReport> probe(Target& target, std::span<const int> boundaries, std::stop_token stop);

}  // namespace aerie
