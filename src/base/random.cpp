#include "base/random.h"

#include <cmath>
#include <numbers>

namespace aerie {
namespace {

uint64_t splitmix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

}  // namespace

Random::Random(uint64_t seed) : Random(seed, 0) {}

Random::Random(uint64_t seed, uint64_t stream) {
  uint64_t state = seed;
  uint64_t mixed = splitmix(state) ^ (stream * 0xd1342543de82ef95ull);
  for (uint64_t& word : state_) word = splitmix(mixed);
}

uint64_t Random::next() {
  const uint64_t result = rotate(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t bound) {
  // Values under this threshold would make the first few remainders more likely than the others.
  const uint64_t threshold = (0 - bound) % bound;
  for (;;)
    if (const uint64_t value = next(); value >= threshold) return value % bound;
}

double Random::unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - unit()));
  return radius * std::cos(2 * std::numbers::pi * unit());
}

}  // namespace aerie
