#include "base/file_errors.h"

#include <cerrno>

namespace aerie {
namespace {

std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOSPC: return "; free some space there, then the same command goes on";
    case EDQUOT: return "; the quota there is used up: free some space, then the same command goes on";
    case EFBIG: return "; a limit on the size of files (ulimit -f) is reached: raise it, then the same command goes on";
    case EROFS: return "; the file system there is read-only: name another place";
    case EACCES:
    case EPERM: return "; this user may not do that there: change the permissions or name another place";
    case EIO: return "; the disk or the server behind it failed: look into the kernel's messages before going on";
    case ESTALE: return "; the network file system lost the file: mount it again, then the same command goes on";
    case EMFILE:
    case ENFILE: return "; too many files are open: raise the limit (ulimit -n)";
    default: return "";
  }
}

}  // namespace

Error file_error(int error_number, std::string_view verb, const std::string& path) {
  Error error = from_errno(error_number, std::string(verb) + " " + path);
  error.what += advice(error_number);
  return error;
}

Error file_is_broken(const std::string& path) {
  return internal(path + ": an earlier write to this file failed, so it must be written anew");
}

Error file_is_closed(const std::string& path) { return internal(path + " is closed already"); }

Error file_is_cut(const std::string& path, uint64_t ends_at) {
  return corrupt(path + " ends at byte " + std::to_string(ends_at) + ", more was expected: it is cut short");
}

}  // namespace aerie
