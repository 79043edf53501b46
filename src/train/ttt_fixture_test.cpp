// The model against what two independent trainers computed (tests/data/eagle3): logits, losses, accuracies and
// gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "tensor/safetensors.h"
#include "train/ttt.h"

namespace aerie {
namespace {

struct Fixture {
  SafetensorsFile file;
  nlohmann::json config, layer;
  bool specforge = false;
  int steps = 0;

  std::vector<float> floats(const std::string& name) const {
    auto view = file.find(name);
    EXPECT_TRUE(view.ok()) << name;
    return *to_floats(*view);
  }
  std::vector<int64_t> integers(const std::string& name) const {
    auto view = file.find(name);
    EXPECT_TRUE(view.ok()) << name;
    return *to_int64(*view);
  }
  bool flag(const char* name) const { return config.value(name, 0) != 0; }
  // SpecForge's name of a tensor as it is called in this file.
  std::string own_name(const std::string& name) const {
    return !specforge && name.starts_with("midlayer.") ? "layers.0." + name.substr(9) : name;
  }
};

Fixture load(const std::string& name) {
  auto file = SafetensorsFile::open(std::string(AERIE_TEST_DATA) + "/eagle3/" + name + ".safetensors");
  if (!file) throw std::runtime_error(file.error().what);
  const Metadata metadata = file->metadata();
  Fixture f{*std::move(file), nlohmann::json::parse(metadata.at("config")),
            nlohmann::json::parse(metadata.at("layer"))};
  f.specforge = metadata.at("peer").starts_with("specforge");
  f.steps = std::stoi(metadata.at("TTT"));
  return f;
}

Checkpoint checkpoint_of(const Fixture& f) {
  Checkpoint c;
  DraftShape& s = c.shape;
  s.hidden_size = s.target_hidden_size = f.layer["hidden_size"];
  s.intermediate_size = f.layer["intermediate_size"];
  s.head_count = f.layer["num_attention_heads"];
  s.kv_head_count = f.layer["num_key_value_heads"];
  s.head_size = f.layer["head_dim"];
  s.vocab_size = f.layer["vocab_size"];
  s.rms_norm_eps = f.layer["rms_norm_eps"];
  s.rope_theta = f.layer["rope_theta"];
  s.norm_before_residual = f.flag("norm_before_residual");
  s.norm_before_fc = f.flag("norm_before_fc");
  s.fc_norm = f.flag("fc_norm");
  // The two trainers mean different things by norm_output.
  s.normed_logits = f.specforge ? f.flag("norm_output") : true;
  s.norm_output = f.specforge ? false : f.flag("norm_output");
  const std::vector<int64_t> d2t = f.integers("input.d2t");
  s.draft_vocab_size = static_cast<int>(d2t.size());
  for (const auto& [name, shape] : expected_tensors(s)) {
    if (name == "d2t") {
      c.tensors.push_back(tensor_i64(name, shape, d2t));
    } else if (auto view = f.file.find("weight." + f.own_name(name)); view.ok()) {
      c.tensors.push_back({name, view->dtype, view->shape, {view->bytes.begin(), view->bytes.end()}});
    } else {
      EXPECT_EQ(name, "norm.weight");  // absent where the lm_head reads the un-normed state
      c.tensors.push_back(tensor_f32(name, shape, std::vector<float>(static_cast<size_t>(shape[0]), 1.0f)));
    }
  }
  return c;
}

TttOptions options_of(const Fixture& f) {
  TttOptions o;
  o.steps = f.steps;
  o.threads = 2;
  if (f.specforge) {
    o.mask = LossMask::kUnshifted;
    o.normaliser = LossNormaliser::kAllPositions;
    o.loss = LossKind::kSoftCrossEntropy;
    o.drop_out_of_vocabulary = true;
    o.step_decay = 0.8;
    o.last_is_prenorm = false;
  } else {
    o.mask = LossMask::kInput;
    o.step_decay = f.config["decay"];
  }
  return o;
}

struct Inputs {
  std::vector<int32_t> ids;
  std::vector<uint8_t> mask;
  std::vector<float> aux, last;
  TttSequence sequence() const { return {ids, mask, aux, last, {}}; }
};
Inputs inputs_of(const Fixture& f) {
  Inputs in;
  for (const int64_t id : f.integers("input.input_ids")) in.ids.push_back(static_cast<int32_t>(id));
  for (const int64_t m : f.integers("input.loss_mask")) in.mask.push_back(static_cast<uint8_t>(m));
  in.aux = f.floats("input.aux");
  in.last = f.floats(f.specforge ? "input.last_postnorm" : "input.last_prenorm");
  return in;
}

std::unique_ptr<TttModel> model_of(const Fixture& f) {
  auto head = std::make_shared<StoredHead>(
      StoredHead{f.floats("input.target_norm"), f.floats("input.target_lm_head"), f.floats("input.embed")});
  auto model = TttModel::create(checkpoint_of(f), head, options_of(f));
  if (!model) throw std::runtime_error(model.error().what);
  return *std::move(model);
}

class PeerFixture : public testing::TestWithParam<const char*> {};

TEST_P(PeerFixture, LogitsOfEverySlotAndStepAgree) {
  const Fixture f = load(GetParam());
  const Inputs in = inputs_of(f);
  const TttSequence sequence = in.sequence();
  auto outputs = model_of(f)->run({&sequence, 1}, {.logits = true});
  ASSERT_TRUE(outputs.ok()) << outputs.error().what;
  const size_t vd = static_cast<size_t>(checkpoint_of(f).shape.draft_vocab_size);
  for (int k = 0; k < f.steps; ++k) {
    const std::vector<float> expected = f.floats("out.logits." + std::to_string(k));
    const std::vector<float>& got = outputs->logits[static_cast<size_t>(k)];
    ASSERT_EQ(got.size(), expected.size());
    // speculators keeps one slot less and pads with a row that is no slot of ours.
    const size_t rows = in.ids.size() - (f.specforge ? 0 : 1);
    double worst = 0;
    for (size_t i = 0; i < rows * vd; ++i) worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
    EXPECT_LE(worst, 1e-4) << "step " << k;
  }
}

TEST_P(PeerFixture, LossesAgree) {
  const Fixture f = load(GetParam());
  const Inputs in = inputs_of(f);
  const TttSequence sequence = in.sequence();
  auto outputs = model_of(f)->run({&sequence, 1}, {});
  ASSERT_TRUE(outputs.ok()) << outputs.error().what;
  for (int k = 0; k < f.steps; ++k) {
    EXPECT_NEAR(outputs->step_loss[static_cast<size_t>(k)], f.floats("out.loss." + std::to_string(k))[0], 1e-5)
        << "step " << k;
  }
  EXPECT_NEAR(outputs->loss, f.floats("out.loss_total")[0], 1e-5);
}

TEST_P(PeerFixture, EveryGradientAgrees) {
  const Fixture f = load(GetParam());
  const Inputs in = inputs_of(f);
  const TttSequence sequence = in.sequence();
  auto model = model_of(f);
  auto outputs = model->run({&sequence, 1}, {.gradients = true});
  ASSERT_TRUE(outputs.ok()) << outputs.error().what;
  for (const Tensor& gradient : model->gradients()) {
    const std::vector<float> got = *to_floats(gradient.view());
    auto view = f.file.find("grad." + f.own_name(gradient.name));
    const std::vector<float> expected = view.ok() ? *to_floats(*view) : std::vector<float>(got.size(), 0.0f);
    ASSERT_EQ(got.size(), expected.size()) << gradient.name;
    double largest = 0, worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(double{expected[i]}));
      worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
    }
    EXPECT_LE(worst, 1e-4 * largest) << gradient.name;
  }
}

// speculators counts against the reduced vocabulary, so only SpecForge's files have these numbers.
class SpecForgeFixture : public testing::TestWithParam<const char*> {};

TEST_P(SpecForgeFixture, AccuracyAgainstTheFullVocabularyAgrees) {
  const Fixture f = load(GetParam());
  const Inputs in = inputs_of(f);
  const TttSequence sequence = in.sequence();
  auto outputs = model_of(f)->run({&sequence, 1}, {.accuracy = true});
  ASSERT_TRUE(outputs.ok()) << outputs.error().what;
  for (int k = 0; k < f.steps; ++k) {
    const std::vector<float> expected = f.floats("out.acc." + std::to_string(k));
    EXPECT_EQ(outputs->correct[static_cast<size_t>(k)], static_cast<int64_t>(expected[0])) << "step " << k;
    EXPECT_EQ(outputs->total[static_cast<size_t>(k)], static_cast<int64_t>(expected[1])) << "step " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Trainers, SpecForgeFixture,
                         testing::Values("specforge_base", "specforge_fcnorm", "specforge_nonormout"),
                         [](const auto& one) { return std::string(one.param); });
INSTANTIATE_TEST_SUITE_P(Trainers, PeerFixture,
                         testing::Values("specforge_base", "specforge_fcnorm", "specforge_nonormout",
                                         "speculators_base", "speculators_default31", "speculators_fcnorm",
                                         "speculators_nbr"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace aerie
