// Exports: strict names and shapes for each engine, and the same logits after reloading.
#include "draft/export.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "draft/load.h"
#include "draft/targets_for_tests.h"
#include "tensor/safetensors.h"

namespace aerie {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

// A fresh folder for each test.
std::string fresh_folder() {
  static const test::ScratchFolder all("export");
  const std::string path = all.path() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  EXPECT_TRUE(real_file_system().make_folders(path).ok());
  return path;
}

ExportSample sample_for(const Checkpoint& c, const std::vector<float>& table) {
  Random random(31);
  ExportSample s;
  s.ids = test::random_ids(12, c.shape.vocab_size, random);
  s.aux = test::random_floats(s.ids.size() * 3 * static_cast<size_t>(c.shape.target_hidden_size), 1.0, random);
  s.embeddings = table;
  return s;
}

Json config_of(const std::string& folder) {
  auto text = read_file(real_file_system(), folder + "/config.json");
  EXPECT_TRUE(text.ok());
  return text ? Json::parse(*text) : Json();
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  auto file = SafetensorsFile::open(folder + "/model.safetensors");
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().what);
  if (file) {
    for (const TensorView& t : file->tensors()) names.insert(t.name);
  }
  return names;
}

std::set<std::string> expected_names(const std::string& layer, std::initializer_list<std::string> more) {
  std::set<std::string> names{"fc.weight", "norm.weight", "lm_head.weight", "d2t"};
  for (const char* n : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                        "mlp.up_proj", "mlp.down_proj", "input_layernorm", "hidden_norm", "post_attention_layernorm"}) {
    names.insert(layer + "." + n + ".weight");
  }
  names.insert(more);
  return names;
}

// No message macro of gtest prints an aerie::Error by itself.
#define ASSERT_DONE(expression)                                \
  do {                                                         \
    auto done_result = (expression);                           \
    ASSERT_TRUE(done_result.ok()) << done_result.error().what; \
  } while (0)

TEST(ExportHf, EveryFlavorHasExactlyItsNamesAndTheTrainersLogits) {
  const std::string folder = fresh_folder();
  const Checkpoint c = test::random_checkpoint(test::small_shape(), 1, 1.0, true);
  const std::vector<float> table = test::random_table(c.shape, 2);
  const std::set<std::string> expected[] = {expected_names("midlayer", {"t2d"}), expected_names("layers.0", {}),
                                            expected_names("layers.0", {"t2d", "embed_tokens.weight"})};
  int i = 0;
  for (Flavor flavor : {Flavor::kSglang, Flavor::kVllm, Flavor::kSpeculators}) {
    for (WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
      SCOPED_TRACE(std::string(name_of(flavor)) + " " + std::string(name_of(type)));
      const std::string path = folder + "/" + std::string(name_of(flavor)) + std::string(name_of(type));
      const std::span<const float> embeddings =
          flavor == Flavor::kSpeculators ? std::span<const float>(table) : std::span<const float>();
      auto report = export_hf(real_file_system(), c, flavor, path, {.type = type}, embeddings);
      ASSERT_TRUE(report.ok()) << report.error().what;
      EXPECT_EQ(names_in(path), expected[i]);
      auto check = check_export(c, path, sample_for(c, table));
      ASSERT_TRUE(check.ok()) << check.error().what;
      EXPECT_EQ(check->tensors, 14u);
      EXPECT_GT(check->logits_compared, 500);
      if (type == WeightType::kF32) {
        EXPECT_EQ(check->worst_weight, 0);
      }
    }
    ++i;
  }
}

TEST(ExportHf, ConfigsSayEverythingTheEnginesRead) {
  const std::string folder = fresh_folder();
  Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  c.boundaries = {1, 3, 6};  // not the default, so that they are written
  const std::vector<float> table = test::random_table(c.shape, 2);
  const ExportOptions options{
      .facts_json = R"({"architecture": "llama", "bos_id": 1, "eos_id": 2, "model_path": "target.gguf"})"};
  ASSERT_DONE(export_hf(real_file_system(), c, Flavor::kSglang, folder + "/s", options));
  ASSERT_DONE(export_hf(real_file_system(), c, Flavor::kVllm, folder + "/v", options));
  ASSERT_DONE(export_hf(real_file_system(), c, Flavor::kSpeculators, folder + "/p", options, table));
  const Json s = config_of(folder + "/s"), v = config_of(folder + "/v"), p = config_of(folder + "/p");

  EXPECT_EQ(s["architectures"], Json({"LlamaForCausalLMEagle3"}));
  EXPECT_EQ(s["model_type"], "llama");
  EXPECT_EQ(s["num_hidden_layers"], 1);
  EXPECT_EQ(s["vocab_size"], 40);
  EXPECT_EQ(s["draft_vocab_size"], 24);
  EXPECT_EQ(s["max_position_embeddings"], 512);
  EXPECT_EQ(s["head_dim"], 8);
  EXPECT_EQ(s["tie_word_embeddings"], false);
  EXPECT_EQ(s["rope_parameters"]["rope_theta"], 10000.0);
  EXPECT_EQ(s["rope_theta"], 10000.0);
  EXPECT_TRUE(s.contains("rope_scaling") && s["rope_scaling"].is_null());
  EXPECT_EQ(s["torch_dtype"], "bfloat16");
  EXPECT_EQ(s["eos_token_id"], 2);
  EXPECT_EQ(s["eagle_config"]["eagle_aux_hidden_state_layer_ids"], Json({0, 2, 5}));  // layer outputs
  EXPECT_EQ(s["aerie"]["boundaries"], Json({1, 3, 6}));
  EXPECT_EQ(s["aerie"]["numberings"]["layer_outputs"], Json({0, 2, 5}));
  EXPECT_EQ(s["aerie"]["target_fingerprint"], "fingerprint-of-a-test");

  EXPECT_EQ(v["architectures"], Json({"Eagle3LlamaForCausalLM"}));
  EXPECT_EQ(v["eagle_aux_hidden_state_layer_ids"], Json({1, 3, 6}));
  EXPECT_EQ(v["norm_before_residual"], false);

  EXPECT_EQ(p["architectures"], Json({"Eagle3DraftModel"}));
  EXPECT_EQ(p["speculators_model_type"], "eagle3");
  EXPECT_EQ(p["transformer_layer_config"]["hidden_size"], 32);
  EXPECT_EQ(p["norm_before_residual"], false);  // absent would mean true there
  EXPECT_EQ(p["eagle_aux_hidden_state_layer_ids"], Json({1, 3, 6}));
  EXPECT_EQ(p["speculators_config"]["algorithm"], "eagle3");
  EXPECT_EQ(p["speculators_config"]["verifier"]["name_or_path"], "target.gguf");
}

TEST(ExportHf, HuggingFaceHasNoStateOfTheBoundaryAfterTheLastLayer) {
  const std::string folder = fresh_folder();
  Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  c.boundaries = {2, 5, c.target_layer_count};
  ASSERT_DONE(export_hf(real_file_system(), c, Flavor::kVllm, folder + "/v", {}));
  EXPECT_EQ(config_of(folder + "/v")["aerie"]["numberings"]["hf_hidden_states"], Json({2, 5, nullptr}));
}

TEST(ExportHf, SglangIdsFollowTheTargetsArchitecture) {
  const std::string folder = fresh_folder();
  Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  const auto ids = [&](const std::string& name, const std::string& architecture) {
    auto report = export_hf(real_file_system(), c, Flavor::kSglang, folder + "/" + name,
                            {.facts_json = "{\"architecture\": \"" + architecture + "\"}"});
    EXPECT_TRUE(report.ok()) << report.error().what;
    return report ? report->layer_ids : std::vector<int>{-9};
  };
  EXPECT_THAT(ids("default", "llama"), ElementsAre());  // {2, 4, 5} of 8 layers: every engine's own choice
  EXPECT_FALSE(config_of(folder + "/default")["eagle_config"].contains("eagle_aux_hidden_state_layer_ids"));
  c.boundaries = {3, 4, 6};
  EXPECT_THAT(ids("llama", "llama"), ElementsAre(2, 3, 5));
  EXPECT_THAT(ids("gptoss", "gpt-oss"), ElementsAre(3, 4, 6));
  EXPECT_THAT(ids("deepseek", "deepseek2"), ElementsAre(3, 4, 6));
  c.boundaries = {2, 4, 6};
  EXPECT_THAT(ids("deepseek1", "deepseek2"), ElementsAre(1, 3, 5));  // first id 1: SGLang adds one
  c.boundaries = {0, 4, 6};
  EXPECT_FALSE(export_hf(real_file_system(), c, Flavor::kSglang, folder + "/zero", {}).ok());
}

TEST(ExportHf, RefusesWhatAnEngineCannotCompute) {
  const std::string folder = fresh_folder();
  DraftShape shape = test::small_shape();
  shape.norm_before_residual = true;
  auto sglang = export_hf(real_file_system(), test::random_checkpoint(shape, 1), Flavor::kSglang, folder + "/a", {});
  ASSERT_FALSE(sglang.ok());
  EXPECT_EQ(sglang.error().code, Code::kInvalid);
  EXPECT_THAT(sglang.error().what, HasSubstr("norm_before_residual"));
  EXPECT_TRUE(export_hf(real_file_system(), test::random_checkpoint(shape, 1), Flavor::kVllm, folder + "/b", {}).ok());
  shape.normed_logits = false;
  EXPECT_FALSE(export_hf(real_file_system(), test::random_checkpoint(shape, 1), Flavor::kVllm, folder + "/c", {}).ok());
  auto bare = export_hf(real_file_system(), test::random_checkpoint(test::small_shape(), 1), Flavor::kSpeculators,
                        folder + "/d", {});
  ASSERT_FALSE(bare.ok());
  EXPECT_THAT(bare.error().what, HasSubstr("embedding"));
  Checkpoint two = test::random_checkpoint(test::small_shape(), 1);
  two.boundaries = {2, 5};
  EXPECT_FALSE(export_hf(real_file_system(), two, Flavor::kVllm, folder + "/e", {}).ok());
  EXPECT_FALSE(*real_file_system().exists(folder + "/e"));
}

TEST(ExportHf, KeepsWhatIsThereUnlessAskedAndLeavesNoTemporaries) {
  const std::string folder = fresh_folder();
  const Checkpoint first = test::random_checkpoint(test::small_shape(), 1);
  Checkpoint second = test::random_checkpoint(test::small_shape(), 2);
  second.target_name = "second";
  FileSystem& fs = real_file_system();
  ASSERT_DONE(export_hf(fs, first, Flavor::kVllm, folder + "/x", {}));
  auto again = export_hf(fs, second, Flavor::kVllm, folder + "/x", {});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::kExists);
  EXPECT_EQ(load_draft(fs, folder + "/x")->checkpoint.target_name, "test target");
  ASSERT_DONE(export_hf(fs, second, Flavor::kVllm, folder + "/x", {.overwrite = true}));
  EXPECT_EQ(load_draft(fs, folder + "/x")->checkpoint.target_name, "second");
  EXPECT_THAT(*fs.list(folder), ElementsAre("x"));

  // What others put into the folder is not removed with it.
  const std::vector<std::string> theirs = {"README.md", "tokenizer_config.json", "model.safetensors.index.json"};
  for (const std::string& name : theirs) ASSERT_DONE(write_file_atomically(fs, folder + "/x/" + name, "mine"));
  auto moved = export_hf(fs, first, Flavor::kVllm, folder + "/x", {.overwrite = true});
  ASSERT_TRUE(moved.ok()) << moved.error().what;
  EXPECT_THAT(moved->note, HasSubstr("x.old"));
  for (const std::string& name : theirs) EXPECT_TRUE(*fs.exists(folder + "/x.old/" + name)) << name;
}

TEST(Reordering, InterleavesTheHalvesOfEveryHeadAndBack) {
  std::vector<float> rows;  // two heads of four rows, one column
  for (int i = 0; i < 8; ++i) rows.push_back(static_cast<float>(i));
  const std::vector<float> mixed = to_interleaved_rows(rows, 1, 4);
  EXPECT_THAT(mixed, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_EQ(to_half_split_rows(mixed, 1, 4), rows);
  Random random(1);
  const std::vector<float> big = test::random_floats(48 * 5, 1.0, random);
  EXPECT_EQ(to_half_split_rows(to_interleaved_rows(big, 5, 12), 5, 12), big);
  EXPECT_NE(to_interleaved_rows(big, 5, 12), big);
}

class ExportGguf : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    target_ = folder_ + "/target.gguf";
    ASSERT_DONE(write_tiny_target(target_, tiny_, 3));
    draft_ = test::draft_for(tiny_, 4);
    table_ = test::random_table(draft_.shape, 5);
  }
  test::TinyTarget tiny_;
  std::string folder_, target_;
  Checkpoint draft_;
  std::vector<float> table_;
};

TEST_F(ExportGguf, HoldsEveryKeyAndReloadsToTheTrainersLogits) {
  for (WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16, WeightType::kQ8}) {
    SCOPED_TRACE(name_of(type));
    Checkpoint c = draft_;
    if (type == WeightType::kQ8)
      c = test::random_checkpoint(
          [&] {
            DraftShape s = draft_.shape;
            s.intermediate_size = 64, s.head_size = 16;  // rows of multiples of 32
            return s;
          }(),
          4);
    const std::string path = folder_ + "/" + std::string(name_of(type)) + ".gguf";
    auto report = export_gguf(real_file_system(), c, target_, path, {.type = type});
    ASSERT_TRUE(report.ok()) << report.error().what;
    EXPECT_EQ(report->names.size(), 14u);
    auto check = check_export(c, path, sample_for(c, table_));
    ASSERT_TRUE(check.ok()) << check.error().what;
    EXPECT_GT(check->argmax_agreement, 0.8);
  }
  auto file = GgufFile::open(folder_ + "/F16.gguf");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->text("general.architecture"), "eagle3");
  EXPECT_EQ(*file->integer("eagle3.block_count"), 1);
  EXPECT_EQ(*file->integer("eagle3.target_hidden_size"), 32);
  EXPECT_EQ(*file->integer("eagle3.context_length"), 512);
  EXPECT_EQ(*file->integer("eagle3.attention.head_count_kv"), 2);
  EXPECT_EQ(file->find("eagle3.target_layers")->values.size(), 3u);
  EXPECT_EQ(std::get<int64_t>(file->find("eagle3.target_layers")->values[1]), 4);
  EXPECT_EQ(*file->text("aerie.target_fingerprint"), "fingerprint-of-a-test");
  EXPECT_EQ(file->find("tokenizer.ggml.tokens")->values.size(), 40u);
  EXPECT_EQ(file->find_tensor("output_norm.weight")->type, static_cast<uint32_t>(GgmlType::kF32));
  EXPECT_EQ(file->find_tensor("fc.weight")->ne, (std::vector<int64_t>{96, 32}));
  EXPECT_EQ(file->find_tensor("token_embd.weight"), nullptr);
}

TEST_F(ExportGguf, MapsToAbsoluteIdsAndPermutesOnlyQueryAndKey) {
  ASSERT_DONE(export_gguf(real_file_system(), draft_, target_, folder_ + "/d.gguf", {.type = WeightType::kF32}));
  auto file = GgufFile::open(folder_ + "/d.gguf");
  ASSERT_TRUE(file.ok());
  const GgufTensor* map = file->find_tensor("d2t");
  auto ids = to_int64(TensorView{"d2t", DType::kI64, map->ne, map->bytes});
  auto offsets = to_int64(draft_.find("d2t")->view());
  ASSERT_TRUE(ids.ok() && offsets.ok());
  for (size_t i = 0; i < ids->size(); ++i) EXPECT_EQ((*ids)[i], (*offsets)[i] + static_cast<int64_t>(i));
  const auto same_bytes = [&](const char* gguf, const char* ours) {
    const auto bytes = file->find_tensor(gguf)->bytes;
    const auto& own = draft_.find(ours)->bytes;
    return std::equal(bytes.begin(), bytes.end(), own.begin(), own.end());
  };
  EXPECT_FALSE(same_bytes("blk.0.attn_q.weight", "midlayer.self_attn.q_proj.weight"));
  EXPECT_FALSE(same_bytes("blk.0.attn_k.weight", "midlayer.self_attn.k_proj.weight"));
  EXPECT_TRUE(same_bytes("blk.0.attn_v.weight", "midlayer.self_attn.v_proj.weight"));
  EXPECT_TRUE(same_bytes("blk.0.attn_norm.weight", "midlayer.input_layernorm.weight"));
  EXPECT_TRUE(same_bytes("blk.0.attn_norm_2.weight", "midlayer.hidden_norm.weight"));
}

TEST_F(ExportGguf, RefusesAnotherTargetAndWhatLlamaCannot) {
  FileSystem& fs = real_file_system();
  Checkpoint other = draft_;
  other.target_layer_count = 9;
  auto wrong = export_gguf(fs, other, target_, folder_ + "/a.gguf", {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().what, testing::AllOf(HasSubstr("9 layers"), HasSubstr("8 layers")));
  for (auto change : {+[](DraftShape& s) { s.fc_norm = true; }, +[](DraftShape& s) { s.norm_output = true; },
                      +[](DraftShape& s) { s.normed_logits = false; }}) {
    DraftShape shape = draft_.shape;
    change(shape);
    auto refused = export_gguf(fs, test::random_checkpoint(shape, 1), target_, folder_ + "/b.gguf", {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kInvalid);
  }
  Checkpoint last = draft_;
  last.boundaries = {2, 4, 8};
  EXPECT_FALSE(export_gguf(fs, last, target_, folder_ + "/c.gguf", {}).ok());
  EXPECT_FALSE(*fs.exists(folder_ + "/c.gguf"));
  ASSERT_DONE(export_gguf(fs, draft_, target_, folder_ + "/d.gguf", {}));
  auto again = export_gguf(fs, draft_, target_, folder_ + "/d.gguf", {});
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::kExists);
  EXPECT_TRUE(export_gguf(fs, draft_, target_, folder_ + "/d.gguf", {.overwrite = true}).ok());
}

// The check must be able to fail: an export of other weights, or with the rows of q left unpermuted.
TEST_F(ExportGguf, CheckFindsForeignWeightsAndUnpermutedRows) {
  FileSystem& fs = real_file_system();
  ASSERT_DONE(
      export_gguf(fs, test::draft_for(tiny_, 99), target_, folder_ + "/other.gguf", {.type = WeightType::kF32}));
  auto check = check_export(draft_, folder_ + "/other.gguf", sample_for(draft_, table_));
  ASSERT_FALSE(check.ok());
  EXPECT_EQ(check.error().code, Code::kCorrupt);

  Checkpoint twisted = draft_;
  for (Tensor& t : twisted.tensors) {
    if (t.name != "midlayer.self_attn.q_proj.weight") continue;
    auto values = to_floats(t.view());
    t = tensor_f32(t.name, t.shape, to_half_split_rows(*values, t.shape.back(), twisted.shape.head_size));
  }
  ASSERT_DONE(export_gguf(fs, twisted, target_, folder_ + "/twisted.gguf", {.type = WeightType::kF32}));
  EXPECT_FALSE(check_export(draft_, folder_ + "/twisted.gguf", sample_for(draft_, table_)).ok());
}

TEST(LoadDraft, ReadsWhatOtherToolsWrite) {
  const std::string folder = fresh_folder();
  FileSystem& fs = real_file_system();
  Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  ASSERT_DONE(export_hf(fs, c, Flavor::kSglang, folder + "/x", {.type = WeightType::kF32}));
  // As SpecForge leaves it: no aerie block, layer outputs as ids.
  Json config = config_of(folder + "/x");
  config.erase("aerie");
  config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {1, 3, 4};
  ASSERT_DONE(write_file_atomically(fs, folder + "/x/config.json", config.dump()));
  auto loaded = load_draft(fs, folder + "/x", 8);
  ASSERT_TRUE(loaded.ok()) << loaded.error().what;
  EXPECT_THAT(loaded->checkpoint.boundaries, ElementsAre(2, 4, 5));
  EXPECT_EQ(loaded->format, "hf");
  EXPECT_EQ(loaded->checkpoint.find("fc.weight")->bytes, c.find("fc.weight")->bytes);
  config["eagle_config"].erase("eagle_aux_hidden_state_layer_ids");
  ASSERT_DONE(write_file_atomically(fs, folder + "/x/config.json", config.dump()));
  EXPECT_THAT(load_draft(fs, folder + "/x", 30)->checkpoint.boundaries, ElementsAre(2, 15, 27));
  EXPECT_TRUE(load_draft(fs, folder + "/x")->checkpoint.boundaries.empty());
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  ASSERT_DONE(write_file_atomically(fs, folder + "/x/config.json", config.dump()));
  EXPECT_FALSE(load_draft(fs, folder + "/x", 30).ok());
}

TEST(LoadDraft, RefusesAReducedVocabularyWithoutItsMapAndUnknownTensors) {
  const std::string folder = fresh_folder();
  FileSystem& fs = real_file_system();
  const Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  ASSERT_DONE(export_hf(fs, c, Flavor::kVllm, folder + "/x", {.type = WeightType::kF32}));
  const auto rewrite = [&](auto keep, std::vector<Tensor> more) {
    std::vector<TensorView> views;
    for (const Tensor& t : more) views.push_back(t.view());
    auto file = SafetensorsFile::open(folder + "/x/model.safetensors");
    ASSERT_TRUE(file.ok());
    for (const TensorView& t : file->tensors()) {
      if (keep(t.name)) views.push_back(t);
    }
    ASSERT_DONE(write_safetensors(fs, folder + "/y/model.safetensors", views, {}));
  };
  ASSERT_DONE(fs.make_folders(folder + "/y"));
  ASSERT_DONE(write_file_atomically(fs, folder + "/y/config.json", *read_file(fs, folder + "/x/config.json")));
  rewrite([](const std::string& name) { return name != "d2t"; }, {});
  auto without = load_draft(fs, folder + "/y");
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.error().what, HasSubstr("d2t"));
  const std::vector<float> one{1.0f};
  rewrite([](const std::string&) { return true; }, {tensor_f32("layers.1.mlp.weight", {1}, one)});
  auto unknown = load_draft(fs, folder + "/y");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().what, HasSubstr("layers.1.mlp.weight"));
}

TEST(LoadDraft, RefusesSizesThatNoDraftCanHave) {
  FileSystem& fs = real_file_system();
  const std::string folder = fresh_folder();
  const Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  ASSERT_DONE(export_hf(fs, c, Flavor::kSglang, folder + "/x", {}));
  const auto text = read_file(fs, folder + "/x/config.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  for (const char* key : {"vocab_size", "num_attention_heads", "num_key_value_heads", "hidden_size"})
    for (const int64_t size : {int64_t{-1}, int64_t{0}, int64_t{1} << 31, int64_t{1} << 32}) {
      Json config = Json::parse(*text);
      config[key] = size;
      ASSERT_DONE(write_file_atomically(fs, folder + "/x/config.json", config.dump()));
      EXPECT_FALSE(load_draft(fs, folder + "/x").ok()) << key << " " << size;
    }
}

TEST(LoadDraft, MismatchOfTheTargetNamesBothSides) {
  const Checkpoint c = test::random_checkpoint(test::small_shape(), 1);
  EXPECT_TRUE(check_target(c, "draft", "fingerprint-of-a-test", "test target").ok());
  auto other = check_target(c, "draft", "another", "other target");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().what, testing::AllOf(HasSubstr("test target"), HasSubstr("fingerprint-of-a-test"),
                                                 HasSubstr("other target"), HasSubstr("another")));
  Checkpoint unbound = c;
  unbound.target_fingerprint.clear();
  EXPECT_FALSE(check_target(unbound, "draft", "x", "y").ok());
  EXPECT_TRUE(check_target(unbound, "draft", "x", "y", true).ok());
}

}  // namespace
}  // namespace aerie
