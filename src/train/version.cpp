#include <torch/headeronly/version.h>

#include "train/train.h"

namespace aerie {

std::string torch_version() { return TORCH_VERSION; }

}  // namespace aerie
