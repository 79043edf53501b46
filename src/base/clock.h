// Time, from one interface so that tests replace it, and Deadline, the bound on every wait.
//
// A Clock is owned by whoever made it and outlives its users; real_clock() lives as long as the program. All calls are
// safe from any thread. Nothing here fails.
#pragma once

#include <atomic>
#include <string>

namespace aerie {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds on a clock that never jumps; only differences mean something.
  virtual double monotonic_s() const = 0;
  // Seconds since 1970-01-01 UTC.
  virtual double wall_s() const = 0;
};

Clock& real_clock();

// A clock that moves only when told to.
class FakeClock : public Clock {
 public:
  double monotonic_s() const override { return now_s_; }
  double wall_s() const override { return 1.75e9 + now_s_; }
  void advance(double seconds) { now_s_ = now_s_ + seconds; }

 private:
  std::atomic<double> now_s_{0};
};

// "2026-12-01T09:30:00.123Z" of a wall time.
std::string utc_text(double wall_s);

// A moment after which a wait must end. There is no "never": every wait names its bound.
class Deadline {
 public:
  static Deadline after(double seconds, const Clock& clock = real_clock());
  bool expired() const { return remaining_s() <= 0; }
  // Seconds left, 0 once expired.
  double remaining_s() const;

 private:
  Deadline(const Clock& clock, double at_s) : clock_(&clock), at_s_(at_s) {}
  const Clock* clock_;
  double at_s_;
};

}  // namespace aerie
