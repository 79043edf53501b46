// Where the files that ship with the program are, and which libraries it carries. Private to app.
#pragma once

#include <string>

#include "base/result.h"

namespace aerie {

// data/ of a source tree that the binary was built in, or share/aerie/ beside an installed one; kNotFound names both.
Result<std::string> shipped_file(const std::string& name);

// "LibTorch 2.13.0, llama.cpp 0c1e570": what is linked, or that it is not.
std::string libraries_text();

}  // namespace aerie
