#include "draft/load.h"

#include <fmt/format.h>

#include "draft/layout.h"
#include "draft/load_formats.h"

namespace aerie {

Result<LoadedDraft> load_draft(FileSystem& fs, const std::string& path, int target_layer_count) {
  auto info = fs.info(path);
  if (!info) return std::move(info).error().under("draft");
  LoadedDraft loaded;
  if (info->folder) {
    TRY(loaded, layout::load_hf(fs, path, target_layer_count));
  } else if (path.ends_with(".gguf")) {
    TRY(loaded, layout::load_gguf(path));
  } else if (path.ends_with(".safetensors")) {
    TRY(loaded.checkpoint, read_checkpoint(path));
    loaded.format = "aerie";
    loaded.weight_type = "F32";
  } else {
    return invalid(fmt::format(
        "{} is no draft: give a folder with config.json, a .gguf, or a checkpoint's draft.safetensors", path));
  }
  CHECKED(layout::check_whole(loaded.checkpoint, path));
  return loaded;
}

Status check_target(const Checkpoint& draft, std::string_view draft_path, std::string_view target_fingerprint,
                    std::string_view target_name, bool allow_unbound) {
  if (draft.target_fingerprint.empty()) {
    if (allow_unbound) return ok_status();
    return invalid(
        fmt::format("the draft {} does not say which target it was trained for, so nothing proves that it fits '{}'",
                    draft_path, target_name));
  }
  if (draft.target_fingerprint == target_fingerprint) return ok_status();
  return invalid(fmt::format(
      "the draft {} was trained for target '{}' (fingerprint {}), and the target here is '{}' (fingerprint "
      "{}): another model, quantisation, tokenizer, chat template or set of boundaries. Use that target, or "
      "train a draft for this one",
      draft_path, draft.target_name, draft.target_fingerprint, target_name, target_fingerprint));
}

}  // namespace aerie
