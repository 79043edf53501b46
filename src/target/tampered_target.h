// For tests: a real target whose captures are spoilt in one way before they are handed on, to see that the probe notices.
//
// Captures of the real one are kept by ids and boundaries, so that many spoilt runs cost one. One thread. Borrows the target.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "target/target.h"

namespace aerie::test {

class TamperedTarget : public Target {
 public:
  // `spoil` gets what was captured; `capture_as` may change which boundaries are really captured.
  using Spoil = std::function<void(Captured&)>;
  using CaptureAs = std::function<std::vector<int>(const std::vector<int>&)>;
  explicit TamperedTarget(Target& inner) : inner_(inner) {}
  void tamper(Spoil spoil, CaptureAs capture_as = nullptr) {
    spoil_ = std::move(spoil);
    capture_as_ = std::move(capture_as);
  }

  const TargetFacts& facts() const override { return inner_.facts(); }
  Result<std::vector<int32_t>> tokenize(const std::string& text, bool special) override { return inner_.tokenize(text, special); }
  Result<std::string> detokenize(std::span<const int32_t> ids) override { return inner_.detokenize(ids); }
  Result<std::string> render(const std::vector<ChatMessage>& messages, bool prompt) override { return inner_.render(messages, prompt); }
  Result<TargetHead> head() override { return inner_.head(); }

  // Greedy single tokens only, as the probe asks for; kept like captures.
  Status generate(const std::vector<GenerateRequest>& requests, const OnGenerated& done, std::stop_token stop,
                  std::stop_token enough) override {
    if (answers_.empty()) {
      answers_.resize(requests.size());
      const auto keep = [&](size_t i, Result<Generated> generated) -> Status {
        TRY(answers_[i], std::move(generated));
        return ok_status();
      };
      CHECKED(inner_.generate(requests, keep, stop, enough));
    }
    for (size_t i = 0; i < requests.size(); ++i) CHECKED(done(i, answers_[i]));
    return ok_status();
  }

  Result<Captured> capture(std::span<const int32_t> ids, std::span<const int> boundaries, std::stop_token stop) override {
    const std::vector<int> asked(boundaries.begin(), boundaries.end());
    const std::vector<int> real = capture_as_ ? capture_as_(asked) : asked;
    const std::pair key{std::vector<int32_t>(ids.begin(), ids.end()), real};
    auto found = kept_.find(key);
    if (found == kept_.end()) {
      TRY(Captured fresh, inner_.capture(ids, real, stop));
      found = kept_.emplace(key, std::move(fresh)).first;
    }
    Captured captured = found->second;
    captured.boundaries = asked;
    if (spoil_) spoil_(captured);
    return captured;
  }

 private:
  Target& inner_;
  Spoil spoil_;
  CaptureAs capture_as_;
  std::map<std::pair<std::vector<int32_t>, std::vector<int>>, Captured> kept_;
  std::vector<Generated> answers_;
};

// Applies `permute` (old row -> new row) to every captured row.
inline void permute_rows(Captured& captured, const std::function<size_t(size_t)>& permute) {
  const auto rows = static_cast<size_t>(captured.row_count);
  const auto moved = [&](std::vector<float>& states) {
    const size_t width = states.size() / rows;
    std::vector<float> out(states.size());
    for (size_t j = 0; j < rows; ++j)
      std::copy_n(states.begin() + static_cast<std::ptrdiff_t>(j * width), width, out.begin() + static_cast<std::ptrdiff_t>(permute(j) * width));
    states = std::move(out);
  };
  for (auto& states : captured.states) moved(states);
  moved(captured.last);
}

}  // namespace aerie::test
