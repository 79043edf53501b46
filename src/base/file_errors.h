// The sentences of failed file operations, the same for the real and the simulated file system. Private to base.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace aerie {

// "<verb> <path>: <strerror>; <what to do>".
Error file_error(int error_number, std::string_view verb, const std::string& path);
// What every use of a file says after one of its writes, syncs or closes failed.
Error file_is_broken(const std::string& path);
Error file_is_closed(const std::string& path);
Error file_is_cut(const std::string& path, uint64_t ends_at);

}  // namespace aerie
