// Commands that only look: info, store status, store verify. They print on stdout and change nothing. Private to app.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace aerie {

// Without paths: what this binary can do. With: facts of each model, draft, checkpoint or store.
Status info(const std::vector<std::string>& paths);
Status store_status(const std::string& path, bool json);
Status store_verify(const std::string& path, bool json);

}  // namespace aerie
