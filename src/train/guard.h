// Where exceptions end: LibTorch and the allocator throw, and nothing of it leaves this room. Private to train.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace aerie {

// f()'s Result, or an Error in the place of an exception: kFull with what to do about too little memory, else kInternal
// with the exception's first line (LibTorch puts a stack trace below it).
template <class F>
auto guarded(std::string_view doing, std::string_view needs_less, F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    return full("there is not enough memory for " + std::string(doing) + "; " + std::string(needs_less));
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    return internal(std::string(doing) + " failed: " + std::string(text.substr(0, text.find('\n'))));
  }
}

}  // namespace aerie
