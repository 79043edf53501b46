// Any text as a configuration file: it is taken or refused with one sentence that names the place, and what was taken
// comes back the same from the resolved file.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace {

struct Settings {
  bool flag = false;
  int count = 3;
  int64_t large = 1;
  double rate = 0.5, free = 0;
  std::string kind = "a", name = "x";
  std::vector<int> layers{1, 2};
  std::vector<std::string> words{"w"};

  void fields(aerie::FieldList& v) {
    v("flag", flag, "a flag");
    v("count", count, "a count").range(0, 100);
    v("large", large, "a large number");
    v("rate", rate, "a rate").range(0, 1);
    v("free", free, "any number");
    v("kind", kind, "a kind").one_of({"a", "b"});
    v("name", name, "any text");
    v("layers", layers, "some layers").range(-1, 64);
    v("words", words, "some words");
  }
  bool operator==(const Settings&) const = default;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Settings first;
  aerie::Config config;
  config.add("room", first);
  if (const auto status = config.load_toml_text(text, "f.toml"); !status.ok()) {
    if (status.error().code != aerie::Code::kInvalid || !status.error().what.starts_with("f.toml:")) std::abort();
    // The same text as a setting must not crash either.
    (void)config.set(text).ok();
    return 0;
  }
  if (first.count < 0 || first.count > 100 || first.rate < 0 || first.rate > 1 ||
      (first.kind != "a" && first.kind != "b"))
    std::abort();
  Settings second;
  aerie::Config again;
  again.add("room", second);
  if (!again.load_toml_text(config.resolved_toml(), "resolved.toml").ok() || !(first == second)) std::abort();
  return 0;
}
