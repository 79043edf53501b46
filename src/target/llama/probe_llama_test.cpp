// The probe against real engines whose captures are spoilt: a tiny exact model, and the real one where it is there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "target/llama/tiny_model.h"
#include "target/probe.h"
#include "target/tampered_target.h"

namespace aerie {
namespace {

using test::permute_rows;
using test::TamperedTarget;

std::string real_model() { return std::getenv("AERIE_MODEL") ? std::getenv("AERIE_MODEL") : ""; }

// The failed check's sentence; empty when the probe passed.
std::string sentence_of(TamperedTarget& target) {
  const auto boundaries = default_boundaries(target.facts().layer_count);
  const auto report = probe(target, *boundaries, {});
  return report.ok() ? "" : report.error().what;
}

void norm_last(TamperedTarget& target, Captured& captured) {
  const auto head = target.head();
  ASSERT_TRUE(head.ok());
  const size_t width = head->norm.size();
  for (size_t j = 0; j < static_cast<size_t>(captured.row_count); ++j) {
    float* row = captured.last.data() + j * width;
    double square = 0;
    for (size_t i = 0; i < width; ++i) square += double{row[i]} * row[i];
    const double scale = 1 / std::sqrt(square / static_cast<double>(width) + target.facts().rms_norm_eps);
    for (size_t i = 0; i < width; ++i) row[i] = static_cast<float>(row[i] * scale * head->norm[i]);
  }
  if (captured.boundaries.back() == target.facts().layer_count) captured.states.back() = captured.last;
}

// Every way of spoiling must be noticed; each is told apart by its name in a failure.
void expect_every_fault_is_seen(Target& real) {
  TamperedTarget target(real);
  EXPECT_EQ(sentence_of(target), "");
  const int n = real.facts().layer_count;
  const auto seen = [&](const char* fault, const char* check) {
    const std::string sentence = sentence_of(target);
    EXPECT_NE(sentence.find(std::string("'") + check + "'"), std::string::npos) << fault << " gave: " << (sentence.empty() ? "(passed)" : sentence);
  };
  target.tamper([](Captured& c) { permute_rows(c, [&](size_t j) { return (j + 1) % static_cast<size_t>(c.row_count); }); });
  seen("rows moved by one", "boundary 0");
  target.tamper([](Captured& c) {
    const std::vector<float> embeddings = c.states[0];
    permute_rows(c, [&](size_t j) { return static_cast<size_t>(c.row_count) - 1 - j; });
    if (c.boundaries[0] == 0) c.states[0] = embeddings;
  });
  seen("rows of all but the embeddings reversed", "row order");
  target.tamper([](Captured& c) {
    const std::vector<float> embeddings = c.states[0];
    if (c.row_count > 5) permute_rows(c, [](size_t j) { return j == 4 ? size_t{5} : j == 5 ? size_t{4} : j; });
    if (c.boundaries[0] == 0) c.states[0] = embeddings;
  });
  seen("rows 4 and 5 of all but the embeddings changed places", "row order");
  target.tamper(nullptr, [n](std::vector<int> asked) {
    if (asked.size() <= static_cast<size_t>(n))  // only when not all are asked for
      for (int& b : asked) b = std::min(b + 1, n);
    return asked;
  });
  seen("boundaries one too high when extraction asks", "boundaries as asked");
  target.tamper([n](Captured& c) {
    if (c.states.size() > static_cast<size_t>(n)) std::rotate(c.states.begin(), c.states.begin() + 1, c.states.end());
  });
  seen("boundaries one too high", "boundary 0");
  target.tamper([n](Captured& c) {
    if (c.states.size() > static_cast<size_t>(n)) std::swap(c.states[static_cast<size_t>(n / 2)], c.states[static_cast<size_t>(n / 2 + 1)]);
  });
  seen("two middle boundaries changed places", "order of boundaries");
  target.tamper([](Captured& c) {
    if (c.states.size() > 1) std::swap(c.states[0], c.states[1]);
  }, [](std::vector<int> asked) { return asked; });
  seen("boundaries in another order than asked", "boundary 0");
  target.tamper([n](Captured& c) {
    if (c.states.size() > static_cast<size_t>(n)) c.last = c.states[static_cast<size_t>(n - 1)];
  });
  seen("final state one layer early", "last boundary");
  target.tamper([&](Captured& c) { norm_last(target, c); });
  seen("final state after the norm", "final state before the norm");
  target.tamper([n](Captured& c) {
    if (c.states.size() > static_cast<size_t>(n)) c.states[3][7] = std::nanf("");
  });
  seen("a value that is no number", "finite");
  target.tamper([](Captured& c) { --c.row_count; });
  seen("a row less", "shape");
}

TEST(ProbeOfLlama, SeesEveryFaultOfATinyExactModel) {
  const std::string path = testing::TempDir() + "probe_tiny_" + std::to_string(getpid()) + ".gguf";
  ASSERT_TRUE(test::write_tiny_model(path, {}).ok());
  TargetConfig config;
  config.model = path;
  config.context = 128;
  config.threads = 1;
  config.parallel = 4;
  auto target = open_target(config);
  ASSERT_TRUE(target.ok()) << target.error().what;
  expect_every_fault_is_seen(**target);
  TamperedTarget swapped(**target);
  for (size_t b = 1; b < 7; ++b) {
    swapped.tamper([b](Captured& c) {
      if (c.states.size() > 8) std::swap(c.states[b], c.states[b + 1]);
    });
    EXPECT_NE(sentence_of(swapped).find("'order of boundaries'"), std::string::npos) << b;
  }
  std::filesystem::remove(path);
}

TEST(ProbeOfLlama, SeesEveryFaultOfTheRealModel) {
  if (!std::filesystem::exists(real_model())) GTEST_SKIP() << "AERIE_MODEL names no model: scripts/bootstrap --env prints it";
  TargetConfig config;
  config.model = real_model();
  config.context = 128;
  config.batch = 64;
  config.threads = 1;
  config.parallel = 4;
  auto target = open_target(config);
  ASSERT_TRUE(target.ok()) << target.error().what;
  expect_every_fault_is_seen(**target);
}

}  // namespace
}  // namespace aerie
