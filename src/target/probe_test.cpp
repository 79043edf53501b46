#include "target/probe.h"

#include <gtest/gtest.h>

#include "target/fake_target.h"

namespace aerie {
namespace {

const std::vector<int> kBoundaries = {2, 4, 5};

// The sentence of the probe for a target with this fault; empty when it passed.
std::string sentence_for(void (*set)(FakeFaults&)) {
  FakeTarget target;
  set(target.faults());
  const auto report = probe(target, kBoundaries, {});
  return report.ok() ? "" : report.error().what;
}

TEST(Probe, TrustsATargetWhoseStatesAreRight) {
  FakeTarget target;
  const auto report = probe(target, kBoundaries, {});
  ASSERT_TRUE(report.ok()) << report.error().what;
  EXPECT_TRUE(report->passed());
  EXPECT_EQ(report->row_norms.size(), 3 * kBoundaries.size());
  EXPECT_NE(report->json().find("\"greedy token\""), std::string::npos);
}

TEST(Probe, CatchesPermutedRows) {
  EXPECT_NE(sentence_for([](FakeFaults& f) { f.swap_rows = true; }), "");
}

TEST(Probe, CatchesABoundaryOffByOne) {
  EXPECT_NE(sentence_for([](FakeFaults& f) { f.boundary_off_by_one = true; }), "");
}

TEST(Probe, CatchesAFinalStateOneLayerEarly) {
  EXPECT_NE(sentence_for([](FakeFaults& f) { f.last_one_layer_early = true; }), "");
}

TEST(Probe, CatchesAFinalStateAfterTheNorm) {
  const std::string sentence = sentence_for([](FakeFaults& f) { f.postnorm_last = true; });
  EXPECT_NE(sentence, "");
}

TEST(Probe, CatchesNaN) {
  EXPECT_NE(sentence_for([](FakeFaults& f) { f.nan = true; }).find("finite"), std::string::npos);
}

TEST(Probe, CatchesAMissingRow) {
  EXPECT_NE(sentence_for([](FakeFaults& f) { f.drop_last_row = true; }).find("shape"), std::string::npos);
}

TEST(Probe, CatchesStatesThatDependOnTheSequenceBefore) {
  EXPECT_NE(sentence_for([](FakeFaults& f) { f.leaking_context = true; }), "");
}

TEST(Probe, RefusesABoundaryOutsideTheTarget) {
  FakeTarget target;
  const auto report = probe(target, std::vector<int>{2, 4, 99}, {});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().what.find("99"), std::string::npos);
}

}  // namespace
}  // namespace aerie
