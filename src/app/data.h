// Where the files that ship with the program are, and which libraries it carries. Private to app.
#pragma once

#include <string>

namespace aerie {

// In data/ of the source tree that the binary was built in, or in share/aerie/ beside an installed one. Where neither has
// it, the path in the source tree: whoever opens it says that it is not there.
std::string shipped_file(const std::string& name);

// "LibTorch 2.13.0, llama.cpp 0c1e570": what is linked, or that it is not.
std::string libraries_text();

}  // namespace aerie
