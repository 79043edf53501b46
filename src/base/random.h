// Random numbers that are the same on every machine and every standard library: splitmix64 and xoshiro256**
// (Blackman and Vigna, 2018), uniform draws without modulo bias, Fisher-Yates shuffle.
//
// A Random is a value; its state can be saved and restored. One thread an object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace aerie {

class Random {
 public:
  explicit Random(uint64_t seed);
  // Same seed, other stream: for one generator a sample, a rank, an epoch.
  Random(uint64_t seed, uint64_t stream);

  uint64_t next();
  uint64_t below(uint64_t bound);  // 0..bound-1, unbiased
  double unit();                   // [0, 1), 53 bits
  double normal();                 // mean 0, deviation 1

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

  std::array<uint64_t, 4> state() const { return state_; }
  void restore(const std::array<uint64_t, 4>& state) { state_ = state; }

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace aerie
