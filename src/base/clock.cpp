#include "base/clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace aerie {
namespace {

class RealClock : public Clock {
 public:
  double monotonic_s() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double wall_s() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

std::string utc_text(double wall_s) {
  const double whole = std::floor(wall_s);
  const std::time_t seconds = static_cast<std::time_t>(whole);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>((wall_s - whole) * 1000));
  return text;
}

Deadline Deadline::after(double seconds, const Clock& clock) { return Deadline(clock, clock.monotonic_s() + seconds); }

double Deadline::remaining_s() const { return std::max(0.0, at_s_ - clock_->monotonic_s()); }

}  // namespace aerie
