// Result<T> and Status: how every function of Aerie that can fail says so.
//
// A Result holds a value or an Error; the class is [[nodiscard]], so an ignored failure does not compile. An Error is
// one of nine codes and one sentence for a person: what failed, where, and what to do. Context is put in front on the
// way up with under(). Values only: no sharing, safe to move between threads. Nothing here throws; dereferencing a
// failed Result is a programmer's error (assert).
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace aerie {

enum class Code {
  kInvalid,      // the caller's input is wrong and stays wrong: bad option, bad file content of the user's own writing
  kNotFound,     // a named thing is not there
  kExists,       // a thing is there that must not be replaced
  kUnavailable,  // not now: unreachable, busy, locked; may be tried again
  kTimeout,      // a deadline passed; may be tried again
  kCorrupt,      // stored bytes are not what was written
  kFull,         // no space, quota or budget left
  kCancelled,    // stopped on request
  kInternal,     // a defect of ours, or a failure of the machine that has no better name
};

// The code's name as it stands in events and logs: "invalid", "not_found", ...
std::string_view code_name(Code code);

struct [[nodiscard]] Error {
  Code code;
  std::string what;

  // Puts "context: " in front of the sentence and returns *this moved, for `return error.under("...")`.
  Error under(std::string_view context) &&;
  // True for unavailable and timeout: the only codes that are ever tried again.
  bool retryable() const { return code == Code::kUnavailable || code == Code::kTimeout; }
};

Error invalid(std::string what);
Error not_found(std::string what);
Error exists(std::string what);
Error unavailable(std::string what);
Error timed_out(std::string what);
Error corrupt(std::string what);
Error full(std::string what);
Error cancelled(std::string what);
Error internal(std::string what);

// The Error of a failed system call: "<doing>: <strerror>", with the code that fits errno (ENOSPC -> full, ...).
Error from_errno(int error_number, std::string_view doing);

// The process exit code of design.md section 4: 1 failed, 2 bad use, 3 try later, 4 corrupt data, 130 interrupted.
int exit_code(const Error& error);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return held_.index() == 0; }
  // Not for Result<bool>, where `if (exists(path))` would look right and ask only whether the question could be answered.
  explicit operator bool() const requires(!std::is_same_v<T, bool>) { return ok(); }

  T& operator*() & { return std::get<0>(checked()); }
  const T& operator*() const& { return std::get<0>(const_cast<Result*>(this)->checked()); }
  T&& operator*() && { return std::move(std::get<0>(checked())); }
  T* operator->() { return &std::get<0>(checked()); }
  const T* operator->() const { return &std::get<0>(const_cast<Result*>(this)->checked()); }

  const Error& error() const& {
    assert(!ok());
    return std::get<1>(held_);
  }
  Error&& error() && {
    assert(!ok());
    return std::move(std::get<1>(held_));
  }

 private:
  std::variant<T, Error>& checked() {
    assert(ok() && "a failed Result was dereferenced");
    return held_;
  }
  std::variant<T, Error> held_;
};

struct Done {};
using Status = Result<Done>;
inline Status ok_status() { return Done{}; }

}  // namespace aerie

#define AERIE_JOIN2(a, b) a##b
#define AERIE_JOIN(a, b) AERIE_JOIN2(a, b)
#define AERIE_TRY_IMPL(tmp, decl, ...)          \
  auto tmp = (__VA_ARGS__);                     \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = *std::move(tmp)

// TRY(auto x, f()); unwraps the value of f() or returns its Error from the enclosing function.
#define TRY(decl, ...) AERIE_TRY_IMPL(AERIE_JOIN(try_result_, __COUNTER__), decl, __VA_ARGS__)
// CHECKED(f()); passes a failure of f() on.
#define CHECKED(...)                                               \
  do {                                                             \
    if (auto checked_result = (__VA_ARGS__); !checked_result.ok()) \
      return std::move(checked_result).error();                    \
  } while (0)
