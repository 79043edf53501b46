#include "app/look.h"

#include <cstdio>

#include "app/data.h"
#include "base/file.h"
#include "base/json.h"
#include "base/run_folder.h"
#include "base/text.h"
#include "store/store.h"
#include "tensor/gguf.h"
#include "tensor/safetensors.h"
#ifdef AERIE_HAVE_DRAFT
#include "draft/load.h"
#endif

namespace aerie {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }
void print(const char* name, const std::string& value) { std::printf("  %-22s %s\n", name, value.c_str()); }

std::string list_text(const std::vector<int>& values) {
  std::vector<std::string> parts;
  for (int value : values) parts.push_back(std::to_string(value));
  return "{" + join(parts, ", ") + "}";
}

struct StoreCounts {
  int64_t samples = 0, tokens = 0, supervised = 0;
};
StoreCounts count(const StoreReader& store) {
  StoreCounts counts;
  for (const SampleInfo& sample : store.samples()) {
    ++counts.samples;
    counts.tokens += sample.token_count;
    counts.supervised += sample.supervised_count;
  }
  return counts;
}

void print_binary() {
  print(version_text() + "\n");
  print("libraries", libraries_text());
#ifdef AERIE_HAVE_LLAMA
  print("targets", "llama (GGUF, embedded)");
#else
  print("targets", "none: built without llama.cpp (scripts/bootstrap brings it)");
#endif
#if defined(AERIE_HAVE_TRAIN) && defined(AERIE_HAVE_BENCH)
  print("commands", "demo run generate extract train export bench report store info");
#else
  print("commands", "generate extract store info; train, export, bench and report need LibTorch (scripts/bootstrap)");
#endif
}

void print_gguf(const GgufFile& gguf) {
  const std::string architecture = gguf.text("general.architecture") ? *gguf.text("general.architecture") : "unknown";
  print("kind", "GGUF, architecture " + architecture);
  if (const auto name = gguf.text("general.name")) print("name", *name);
  for (const auto& [label, key] : {std::pair{"layers", ".block_count"}, std::pair{"hidden size", ".embedding_length"},
                                   std::pair{"context length", ".context_length"},
                                   std::pair{"heads", ".attention.head_count"},
                                   std::pair{"key-value heads", ".attention.head_count_kv"}})
    if (const auto value = gguf.integer(architecture + key)) print(label, std::to_string(*value));
  uint64_t size_bytes = 0;
  for (const GgufTensor& tensor : gguf.tensors()) size_bytes += tensor.bytes.size();
  print("tensors", std::to_string(gguf.tensors().size()) + ", " + bytes_text(size_bytes));
  print("chat template", gguf.find("tokenizer.chat_template") ? "yes" : "none");
}

#ifdef AERIE_HAVE_DRAFT
Status print_draft(FileSystem& fs, const std::string& path) {
  TRY(const LoadedDraft draft, load_draft(fs, path));
  const Checkpoint& checkpoint = draft.checkpoint;
  const DraftShape& shape = checkpoint.shape;
  print("kind", "EAGLE-3 draft, " + draft.format + ", " + draft.weight_type);
  print("target", checkpoint.target_name.empty() ? "unknown" : checkpoint.target_name);
  print("target fingerprint", checkpoint.target_fingerprint.empty() ? "none" : checkpoint.target_fingerprint);
  print("boundaries", list_text(checkpoint.boundaries));
  print("hidden size", std::to_string(shape.hidden_size));
  print("draft vocabulary", std::to_string(shape.draft_vocab_size) + " of " + std::to_string(shape.vocab_size));
  return ok_status();
}
#else
Status print_draft(FileSystem&, const std::string&) {
  return invalid("drafts cannot be read: this binary was built without LibTorch");
}
#endif

Status print_store(FileSystem& fs, const std::string& path) {
  TRY(const std::unique_ptr<StoreReader> store, StoreReader::open(fs, path));
  const StoreHeader& header = store->header();
  const StoreCounts counts = count(*store);
  print("kind", "store of hidden states");
  print("target", header.target_name + " (" + header.architecture + ", " + header.weight_type + ")");
  print("target fingerprint", header.target_fingerprint);
  print("boundaries", list_text(header.boundaries) + ", final state " + (header.last_is_prenorm ? "before" : "after") + " the norm");
  print("hidden size", std::to_string(header.hidden_size) + " as " + header.dtype);
  print("samples", std::to_string(counts.samples));
  print("tokens", std::to_string(counts.tokens) + ", " + std::to_string(counts.supervised) + " supervised");
  return ok_status();
}

Status print_path(FileSystem& fs, const std::string& path) {
  TRY(const FileInfo facts, fs.info(path));
  print(path + "\n");
  TRY(const bool is_store, fs.exists(path + "/store.json"));
  if (is_store) return print_store(fs, path);
  Status draft = print_draft(fs, path);
  if (draft.ok()) return draft;
  if (facts.folder) return std::move(draft).error().under(path + " is no store, and not a draft that can be read");
  // What a file says of itself is shown even when it is a draft that cannot be used.
  if (path.ends_with(".safetensors")) {
    TRY(const SafetensorsFile file, SafetensorsFile::open(path));
    print("kind", "safetensors, " + std::to_string(file.tensors().size()) + " tensors");
    for (const auto& [key, value] : file.metadata()) print(key.c_str(), value.substr(0, 100));
    const auto format = file.metadata().find("format");
    const bool claims = format != file.metadata().end() && format->second.starts_with("aerie-draft");
    return claims ? std::move(draft) : ok_status();
  }
  TRY(const GgufFile gguf, GgufFile::open(path));
  print_gguf(gguf);
  const auto architecture = gguf.text("general.architecture");
  return architecture && *architecture == "eagle3" ? std::move(draft) : ok_status();
}

}  // namespace

Status info(const std::vector<std::string>& paths) {
  if (paths.empty()) print_binary();
  for (const std::string& path : paths) CHECKED(print_path(real_file_system(), path));
  return ok_status();
}

Status store_status(const std::string& path, bool json) {
  if (!json) {
    print(path + "\n");
    return print_store(real_file_system(), path);
  }
  TRY(const std::unique_ptr<StoreReader> store, StoreReader::open(real_file_system(), path));
  const StoreCounts counts = count(*store);
  const StoreHeader& header = store->header();
  std::vector<int64_t> boundaries(header.boundaries.begin(), header.boundaries.end());
  print(JsonObject()
            .add({"samples", counts.samples})
            .add({"tokens", counts.tokens})
            .add({"supervised_tokens", counts.supervised})
            .add({"target_fingerprint", header.target_fingerprint})
            .add({"target_name", header.target_name})
            .add({"dtype", header.dtype})
            .add_json("boundaries", json_array(boundaries))
            .text() + "\n");
  return ok_status();
}

Status store_verify(const std::string& path, bool json) {
  TRY(const std::unique_ptr<StoreReader> store, StoreReader::open(real_file_system(), path));
  CHECKED(store->verify());
  const StoreCounts counts = count(*store);
  if (json)
    print(JsonObject().add({"verified", true}).add({"samples", counts.samples}).text() + "\n");
  else
    print("every sum of " + std::to_string(counts.samples) + " samples is right\n");
  return ok_status();
}

}  // namespace aerie
