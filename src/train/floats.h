// A block of floats, aligned for vector units, that keeps its memory when it gets smaller: the trainer's buffers live
// from step to step, because returning and faulting in hundreds of megabytes a step costs more than some of the
// arithmetic.
//
// One owner; moves, does not copy. Contents are undefined after size() unless zeroed. Out of memory throws
// std::bad_alloc, as any container does. Private to train.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace aerie {

class Floats {
 public:
  // Makes room for n floats; the contents are lost when it has to grow.
  float* size(int64_t n) {
    if (n > capacity_) {
      memory_.reset();
      memory_.reset(static_cast<float*>(::operator new(static_cast<size_t>(n) * sizeof(float), kAlign)));
      capacity_ = n;
    }
    count_ = n;
    return memory_.get();
  }
  float* zeroed(int64_t n) {
    size(n);
    if (n > 0) std::memset(memory_.get(), 0, static_cast<size_t>(n) * sizeof(float));
    return memory_.get();
  }
  float* data() const { return memory_.get(); }
  int64_t count() const { return count_; }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlign); }
  };
  std::unique_ptr<float, Free> memory_;
  int64_t capacity_ = 0, count_ = 0;
};

}  // namespace aerie
