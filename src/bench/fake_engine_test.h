// An engine made of arithmetic, with its own clock: answers, acceptances and times are what a test wants them to be.
#pragma once

#include <algorithm>
#include <string>

#include "bench/bench.h"

namespace aerie::bench_test {

struct FakeEngine {
  double plain_step_s = 0.010;
  double draft_step_s = 0.001;
  double row_s = 0.0005;  // each further row of a verifying pass, on top of a plain step
  double prefill_row_s = 0.001;
  double noise = 0.01;                       // gaps in many-row passes move by this
  int accepts = 2;                           // of the drafted tokens, in each round (all when fewer are drafted)
  int end_after = 0;                         // the answer ends by itself after this many tokens; 0 = never
  std::function<double(int call)> slowness;  // factor on all times of this call
  std::function<void(const DecodeRequest&, Decoded&)> spoil;
  FakeClock clock;
  std::vector<DecodeRequest> calls;

  Result<Decoded> decode(const DecodeRequest& request, std::stop_token stop) {
    if (stop.stop_requested()) return cancelled("stopped");
    calls.push_back(request);
    const double factor = slowness ? slowness(static_cast<int>(calls.size()) - 1) : 1;
    Decoded answer;
    const size_t length =
        end_after > 0 ? std::min<size_t>(static_cast<size_t>(end_after), static_cast<size_t>(request.max_tokens))
                      : static_cast<size_t>(request.max_tokens);
    answer.stopped = end_after > 0 && end_after <= request.max_tokens;
    for (size_t i = 0; i < length; ++i) {
      answer.ids.push_back(request.prompt_ids[0] * 1000 + static_cast<int32_t>(i));
      answer.gaps.push_back(static_cast<float>(2 + (request.draft_length > 0 ? noise : 0)));
    }
    size_t out = 0;
    while (out < length) {
      const int drafted = request.draft_length;
      const int accepted = std::min({accepts, drafted, static_cast<int>(length - out) - 1});
      answer.drafted.push_back(drafted);
      answer.accepted.push_back(accepted);
      answer.draft_s += factor * draft_step_s * drafted;
      answer.verify_s += factor * (plain_step_s + row_s * drafted);
      out += static_cast<size_t>(accepted) + 1;
    }
    answer.prefill_s = factor * prefill_row_s * static_cast<double>(request.prompt_ids.size());
    answer.total_s = answer.prefill_s + answer.draft_s + answer.verify_s;
    clock.advance(answer.total_s);
    if (spoil) spoil(request, answer);
    return answer;
  }

  BenchEngine engine() {
    BenchEngine made;
    made.decode = [this](const DecodeRequest& request, std::stop_token stop) { return decode(request, stop); };
    made.now_s = [this] { return clock.monotonic_s(); };
    return made;
  }
};

inline std::vector<BenchPrompt> prompts(int count) {
  std::vector<BenchPrompt> made;
  for (int i = 0; i < count; ++i)
    made.push_back({"p" + std::to_string(i + 1), "Question " + std::to_string(i + 1) + "?", {i + 1, 7, 7}});
  return made;
}

inline BenchConfig config(std::vector<int> lengths = {1, 2, 4}, int max_tokens = 31) {
  BenchConfig made;
  made.draft_lengths = std::move(lengths);
  made.max_tokens = max_tokens;
  return made;
}

}  // namespace aerie::bench_test
