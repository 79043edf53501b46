#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace aerie {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalid: return "invalid";
    case Code::kNotFound: return "not_found";
    case Code::kExists: return "exists";
    case Code::kUnavailable: return "unavailable";
    case Code::kTimeout: return "timeout";
    case Code::kCorrupt: return "corrupt";
    case Code::kFull: return "full";
    case Code::kCancelled: return "cancelled";
    case Code::kInternal: return "internal";
  }
  return "internal";
}

Error Error::under(std::string_view context) && {
  what.insert(0, ": ").insert(0, context);
  return std::move(*this);
}

Error invalid(std::string what) { return {Code::kInvalid, std::move(what)}; }
Error not_found(std::string what) { return {Code::kNotFound, std::move(what)}; }
Error exists(std::string what) { return {Code::kExists, std::move(what)}; }
Error unavailable(std::string what) { return {Code::kUnavailable, std::move(what)}; }
Error timed_out(std::string what) { return {Code::kTimeout, std::move(what)}; }
Error corrupt(std::string what) { return {Code::kCorrupt, std::move(what)}; }
Error full(std::string what) { return {Code::kFull, std::move(what)}; }
Error cancelled(std::string what) { return {Code::kCancelled, std::move(what)}; }
Error internal(std::string what) { return {Code::kInternal, std::move(what)}; }

namespace {

Code code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return Code::kNotFound;
    case EEXIST: return Code::kExists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return Code::kFull;
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP: return Code::kInvalid;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH: return Code::kUnavailable;
    case ETIMEDOUT: return Code::kTimeout;
    case EINTR:
    case ECANCELED: return Code::kCancelled;
    default: return Code::kInternal;
  }
}

}  // namespace

Error from_errno(int error_number, std::string_view doing) {
  return {code_of(error_number), std::string(doing) + ": " + std::strerror(error_number)};
}

int exit_code(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kExists: return 2;
    case Code::kUnavailable:
    case Code::kTimeout:
    case Code::kFull: return 3;
    case Code::kCorrupt: return 4;
    case Code::kCancelled: return 130;
    case Code::kInternal: return 1;
  }
  return 1;
}

}  // namespace aerie
