#include "target/boundaries.h"

#include <gtest/gtest.h>

#include "target/target.h"

namespace aerie {
namespace {

TEST(Boundaries, DefaultsAreThreeDifferentOnesFromSevenLayersOn) {
  for (int n = 7; n <= 128; ++n) {
    const auto boundaries = default_boundaries(n);
    ASSERT_TRUE(boundaries.ok()) << n;
    EXPECT_EQ(*boundaries, (std::vector<int>{2, n / 2, n - 3}));
    EXPECT_LT((*boundaries)[0], (*boundaries)[1]) << n;
    EXPECT_LT((*boundaries)[1], (*boundaries)[2]) << n;
  }
}

TEST(Boundaries, OfSixLayersWouldRepeatAndAreRefused) {
  const auto boundaries = default_boundaries(6);
  ASSERT_FALSE(boundaries.ok());
  EXPECT_EQ(boundaries.error().code, Code::kInvalid);
}

TEST(Boundaries, GoThroughEveryNumberingAndBack) {
  for (int n = 7; n <= 128; ++n) {
    for (int b : {2, n / 2, n - 3, n}) {
      EXPECT_EQ(boundary_of_output_id(output_id_of_boundary(b)), b);
      EXPECT_EQ(boundary_of_vllm_id(vllm_id_of_boundary(b)), b);
      EXPECT_EQ(hugging_face_index_of_boundary(b, n), b == n ? -1 : b);
    }
    // SpecForge's own defaults {1, n/2-1, n-4} are these boundaries.
    EXPECT_EQ(boundary_of_output_id(1), 2);
    EXPECT_EQ(boundary_of_output_id(n / 2 - 1), n / 2);
    EXPECT_EQ(boundary_of_output_id(n - 4), n - 3);
  }
}

TEST(TargetFingerprint, ChangesWithWeightsAndBoundaries) {
  TargetFacts facts;
  facts.weights_fingerprint = "a";
  const std::vector<int> some = {2, 4, 5}, others = {2, 4, 6};
  const std::string first = target_fingerprint(facts, some);
  EXPECT_EQ(first, target_fingerprint(facts, some));
  EXPECT_NE(first, target_fingerprint(facts, others));
  facts.weights_fingerprint = "b";
  EXPECT_NE(first, target_fingerprint(facts, some));
}

}  // namespace
}  // namespace aerie
