// Decoding through llama.cpp: nothing is lost, what is drafted is what the trainer's draft means, and what would abort
// is refused before. A tiny F32 target written by the test makes equality exact; the real model stands at the end.
#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "draft/decoder.h"
#include "draft/export.h"
#include "draft/load.h"
#include "draft/sequential.h"
#include "draft/targets_for_tests.h"
#include "llama-cpp.h"
#include "target/llama/llama_private.h"

namespace aerie {
namespace {

using testing::HasSubstr;

#define ASSERT_DONE(expression)                                \
  do {                                                         \
    auto done_result = (expression);                           \
    ASSERT_TRUE(done_result.ok()) << done_result.error().what; \
  } while (0)

std::string path_of(const std::string& name) {
  static const test::ScratchFolder all("decoder");
  return all.path() + "/" + name;
}

// What the target's layers see, by one pass over all ids in a context of its own: [T, 3 * width].
std::vector<float> features(const std::string& model_path, const std::vector<int32_t>& ids,
                            const std::vector<int>& boundaries) {
  llama_model_ptr model(llama_model_load_from_file(model_path.c_str(), llama_model_default_params()));
  auto params = llama_context_default_params();
  params.n_ctx = 1024;
  params.n_batch = params.n_ubatch = 1024;
  params.n_threads = params.n_threads_batch = 2;
  params.type_k = params.type_v = GGML_TYPE_F32;
  llama_context_ptr context(llama_init_from_model(model.get(), params));
  for (int b : boundaries) llama_set_embeddings_layer_inp(context.get(), static_cast<uint32_t>(b), true);
  std::vector<llama_token> tokens(ids.begin(), ids.end());
  EXPECT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))), 0);
  const auto width = static_cast<size_t>(llama_model_n_embd(model.get()));
  std::vector<float> aux(ids.size() * 3 * width);
  for (size_t b = 0; b < 3; ++b) {
    const float* rows = llama_get_embeddings_layer_inp(context.get(), static_cast<uint32_t>(boundaries[b]));
    for (size_t t = 0; t < ids.size(); ++t)
      std::copy_n(rows + t * width, width, aux.begin() + static_cast<std::ptrdiff_t>((3 * t + b) * width));
  }
  return aux;
}

// The reference decoder's chain after every round of a run must be the one that llama.cpp proposed. Returns the number
// of tokens compared; a difference counts only where the reference saw no near tie.
int expect_chains_of_the_reference(const Checkpoint& checkpoint, std::span<const float> table,
                                   std::span<const float> aux, const std::vector<int32_t>& prompt, const Decoded& run,
                                   double tie) {
  std::vector<int32_t> ids = prompt;
  ids.insert(ids.end(), run.ids.begin(), run.ids.end());
  auto draft = SequentialDraft::make(checkpoint, table);
  EXPECT_TRUE(draft.ok());
  const auto width = 3 * static_cast<size_t>(checkpoint.shape.target_hidden_size);
  size_t seen = prompt.size() - 1;  // rows in the target's cache before the round
  int compared = 0;
  for (size_t round = 0; round < run.drafts.size(); ++round) {
    DraftOutput out;
    for (auto slot = static_cast<size_t>(draft->length()); slot < seen; ++slot) {
      out = draft->feed(std::span(aux).subspan(slot * width, width), ids[slot + 1]);
    }
    for (size_t i = 0; i < run.drafts[round].size(); ++i) {
      std::vector<float> sorted = out.logits;
      std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
      if (out.best_token != run.drafts[round][i]) {
        EXPECT_LT(sorted[0] - sorted[1], tie) << "round " << round << ", chain position " << i << ": llama.cpp drafted "
                                              << run.drafts[round][i] << ", the reference " << out.best_token;
        break;
      }
      ++compared;
      if (i + 1 < run.drafts[round].size()) out = draft->step(out.state, run.drafts[round][i]);
    }
    draft->rollback(static_cast<int>(seen));
    // The next round's seed slot is fed anew, so one slot must be missing even when nothing was accepted.
    seen += 1 + static_cast<size_t>(run.accepted[round]);
  }
  return compared;
}

class TinyDecoder : public testing::Test {
 protected:
  static constexpr int kTokens = 160;

  void prepare(int words, void (*change)(DraftShape&) = nullptr) {
    tiny_.words = words;
    target_ = path_of("target.gguf");
    draft_ = path_of("draft.gguf");
    ASSERT_DONE(test::write_tiny_target(target_, tiny_, 17));
    checkpoint_ = test::draft_for(tiny_, 23);
    if (change != nullptr) {
      DraftShape shape = checkpoint_.shape;
      change(shape);
      Checkpoint changed = test::random_checkpoint(shape, 29);
      changed.target_layer_count = tiny_.layers;
      checkpoint_ = changed;
    }
    ASSERT_DONE(
        export_gguf(real_file_system(), checkpoint_, target_, draft_, {.overwrite = true, .type = WeightType::kF32}));
    config_.target = target_;
    config_.draft = draft_;
    config_.context = 512;
    config_.batch = 64;
    config_.threads = 1;
    config_.kv_type = "f32";
    config_.flash_attention = false;
    auto opened = SpeculativeDecoder::open(config_);
    ASSERT_TRUE(opened.ok()) << opened.error().what;
    decoder_ = std::move(*opened);
  }

  DecodeRequest request(int draft_length, uint64_t prompt_seed, size_t prompt_tokens = 9) const {
    Random random(prompt_seed);
    DecodeRequest r;
    r.prompt_ids = test::random_ids(prompt_tokens, tiny_.vocab, random);
    r.max_tokens = kTokens;
    r.draft_length = draft_length;
    r.ignore_end = true;
    return r;
  }

  test::TinyTarget tiny_;
  std::string target_, draft_;
  Checkpoint checkpoint_;
  DecoderConfig config_;
  std::unique_ptr<SpeculativeDecoder> decoder_;
};

TEST_F(TinyDecoder, GreedyOutputIsThePlainOneForEveryDraftLength) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  int64_t accepted = 0, drafted = 0;
  for (uint64_t seed : {1u, 2u}) {
    auto plain = decoder_->decode(request(0, seed));
    ASSERT_TRUE(plain.ok()) << plain.error().what;
    ASSERT_EQ(plain->ids.size(), static_cast<size_t>(kTokens));
    EXPECT_EQ(plain->gaps.size(), plain->ids.size());
    EXPECT_EQ(plain->acceptance_length(), 1.0);
    EXPECT_TRUE(plain->acceptance_by_position().empty());
    for (int length = 1; length <= 8; ++length) {
      auto run = decoder_->decode(request(length, seed));
      ASSERT_TRUE(run.ok()) << run.error().what;
      const OutputComparison compared = compare_outputs(*plain, *run);
      EXPECT_TRUE(compared.equal) << "length " << length << ", token " << compared.first_difference << ", gap "
                                  << compared.gap_plain;
      for (size_t i = 0; i < run->accepted.size(); ++i) accepted += run->accepted[i], drafted += run->drafted[i];
    }
  }
  EXPECT_GT(accepted, 200);  // the draft must be right now and then, or rollback was never partial
  EXPECT_LT(accepted, drafted);
}

TEST_F(TinyDecoder, SampledOutputIsThePlainOneWithTheSameSeed) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  DecodeRequest r = request(0, 4);
  r.temperature = 0.8;
  r.top_p = 0.95;
  r.seed = 42;
  auto plain = decoder_->decode(r);
  ASSERT_TRUE(plain.ok()) << plain.error().what;
  for (int length : {1, 3, 5}) {
    r.draft_length = length;
    auto run = decoder_->decode(r);
    ASSERT_TRUE(run.ok()) << run.error().what;
    EXPECT_EQ(run->ids, plain->ids) << length;
  }
  r.seed = 43;
  EXPECT_NE(decoder_->decode(r)->ids, plain->ids);
}

TEST_F(TinyDecoder, DraftsTheChainOfTheReferenceDecoder) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  const DecodeRequest r = request(4, 5);
  auto run = decoder_->decode(r);
  ASSERT_TRUE(run.ok()) << run.error().what;
  std::vector<int32_t> ids = r.prompt_ids;
  ids.insert(ids.end(), run->ids.begin(), run->ids.end());
  const std::vector<float> table = [&] {
    auto file = GgufFile::open(target_);
    auto values = to_floats(TensorView{"t", DType::kF32, file->find_tensor("token_embd.weight")->ne,
                                       file->find_tensor("token_embd.weight")->bytes});
    return *values;
  }();
  const int compared = expect_chains_of_the_reference(
      checkpoint_, table, features(target_, ids, checkpoint_.boundaries), r.prompt_ids, *run, 1e-3);
  EXPECT_GT(compared, 250);
}

TEST_F(TinyDecoder, DraftsTheChainOfTheReferenceWithAReducedShuffledVocabularyAndTheOtherFlags) {
  prepare(0, [](DraftShape& s) {
    s.norm_before_residual = true;
    s.norm_before_fc = true;
    s.kv_head_count = 1;
    s.head_size = 16;
  });
  const DecodeRequest r = request(5, 6, 150);  // a prompt of several prefill passes
  auto run = decoder_->decode(r);
  ASSERT_TRUE(run.ok()) << run.error().what;
  std::vector<int32_t> ids = r.prompt_ids;
  ids.insert(ids.end(), run->ids.begin(), run->ids.end());
  auto file = GgufFile::open(target_);
  const GgufTensor* embd = file->find_tensor("token_embd.weight");
  auto table = to_floats(TensorView{"t", DType::kF32, embd->ne, embd->bytes});
  ASSERT_TRUE(table.ok());
  EXPECT_GT(expect_chains_of_the_reference(checkpoint_, *table, features(target_, ids, checkpoint_.boundaries),
                                           r.prompt_ids, *run, 1e-3),
            250);
}

TEST_F(TinyDecoder, CountsRoundsAndKeepsLimits) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  DecodeRequest r = request(3, 7);
  r.max_tokens = 10;
  auto run = decoder_->decode(r);
  ASSERT_TRUE(run.ok()) << run.error().what;
  EXPECT_EQ(run->ids.size(), 10u);
  EXPECT_FALSE(run->stopped);
  size_t from_rounds = 0;
  for (int a : run->accepted) from_rounds += static_cast<size_t>(a) + 1;
  EXPECT_EQ(from_rounds, 10u);
  EXPECT_GT(run->verify_s, 0);
  EXPECT_GE(run->total_s, run->prefill_s + run->verify_s);

  // Up to the very end of the context, in both ways alike.
  r.max_tokens = 10000;
  auto speculative = decoder_->decode(r);
  r.draft_length = 0;
  auto plain = decoder_->decode(r);
  ASSERT_TRUE(plain.ok() && speculative.ok());
  EXPECT_EQ(plain->ids.size(), 512u - 9 + 1);
  EXPECT_EQ(plain->ids, speculative->ids);

  r.prompt_ids = {3};  // the shortest prompt: nothing to prefill
  r.max_tokens = 20;
  auto one_plain = decoder_->decode(r);
  r.draft_length = 3;
  auto one = decoder_->decode(r);
  ASSERT_TRUE(one.ok() && one_plain.ok());
  EXPECT_EQ(one->ids, one_plain->ids);
}

TEST_F(TinyDecoder, StopsAtTheEndTokenAndOnRequest) {
  ASSERT_NO_FATAL_FAILURE(prepare(0));  // all words alike: the end token comes by chance
  DecodeRequest r = request(3, 8);
  r.ignore_end = false;
  r.temperature = 1.5;
  bool ended = false;
  for (r.seed = 0; r.seed < 20 && !ended; ++r.seed) {
    r.draft_length = 3;
    auto run = decoder_->decode(r);
    r.draft_length = 0;
    auto plain = decoder_->decode(r);
    ASSERT_TRUE(run.ok() && plain.ok());
    EXPECT_EQ(run->ids, plain->ids);
    EXPECT_EQ(run->stopped, plain->stopped);
    if (run->stopped) {
      ended = true;
      EXPECT_EQ(run->ids.back(), 0);
    }
  }
  EXPECT_TRUE(ended);
  std::stop_source stop;
  stop.request_stop();
  auto cancelled_run = decoder_->decode(r, stop.get_token());
  ASSERT_FALSE(cancelled_run.ok());
  EXPECT_EQ(cancelled_run.error().code, Code::kCancelled);
}

TEST_F(TinyDecoder, RefusesBadRequests) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  DecodeRequest r = request(0, 1);
  r.prompt_ids = {};
  EXPECT_FALSE(decoder_->decode(r).ok());
  r.prompt_ids = {1, 2, 40};
  auto outside = decoder_->decode(r);
  ASSERT_FALSE(outside.ok());
  EXPECT_THAT(outside.error().what, HasSubstr("40"));
  r.prompt_ids.assign(600, 1);
  EXPECT_FALSE(decoder_->decode(r).ok());
  r.prompt_ids = {1, 2};
  r.draft_length = 17;
  EXPECT_FALSE(decoder_->decode(r).ok());
  config_.draft.clear();
  auto alone = SpeculativeDecoder::open(config_);
  ASSERT_TRUE(alone.ok()) << alone.error().what;
  r.draft_length = 3;
  EXPECT_FALSE((*alone)->decode(r).ok());
  r.draft_length = 0;
  EXPECT_TRUE((*alone)->decode(r).ok());
}

TEST_F(TinyDecoder, MeasuresCosts) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  const std::vector<int32_t> prompt = request(0, 9, 64).prompt_ids;
  auto costs = decoder_->measure_costs(prompt, 8, 3);
  ASSERT_TRUE(costs.ok()) << costs.error().what;
  EXPECT_GT(costs->plain_step_s, 0);
  EXPECT_EQ(costs->verify_s.size(), 8u);
  for (double s : costs->verify_s) EXPECT_GT(s, 0);
  for (double s : costs->refresh_s) EXPECT_GT(s, 0);
  EXPECT_FALSE(decoder_->measure_costs(std::span(prompt).first(4), 8, 3).ok());
}

// Each of these makes llama.cpp abort or draft nonsense; here each is a sentence that names both files.
TEST_F(TinyDecoder, RefusesADraftThatDoesNotFit) {
  ASSERT_NO_FATAL_FAILURE(prepare(6));
  const auto refused = [&](const std::string& why) {
    auto opened = SpeculativeDecoder::open(config_);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Code::kInvalid);
    EXPECT_THAT(opened.error().what,
                testing::AllOf(HasSubstr(config_.target), HasSubstr(config_.draft), HasSubstr(why)));
  };
  const std::string other = path_of("other.gguf");
  config_.target = other;
  const auto other_target = [&](auto change) {
    test::TinyTarget t = tiny_;
    change(t);
    ASSERT_DONE(test::write_tiny_target(other, t, 5));
  };
  other_target([](test::TinyTarget& t) { t.width = 64; });
  refused("32");
  other_target([](test::TinyTarget& t) { t.layers = 4; });
  refused("boundaries");
  other_target([](test::TinyTarget& t) { t.vocab = 41; });
  refused("tokens");
  other_target([](test::TinyTarget& t) { t.architecture = "qwen2"; });
  refused("qwen2");
  config_.target = target_;
  config_.target_fingerprint = "of-another-target";
  refused("fingerprint-of-a-test");
  config_.target_fingerprint = "fingerprint-of-a-test";
  EXPECT_TRUE(SpeculativeDecoder::open(config_).ok());
  config_.draft = target_;
  refused("eagle3");
  config_.draft = path_of("absent.gguf");
  auto absent = SpeculativeDecoder::open(config_);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
}

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("AERIE_MODEL");
    if (path == nullptr) GTEST_SKIP() << "AERIE_MODEL does not name a GGUF";
    target_ = path;
    draft_ = path_of("real_draft.gguf");
    auto file = GgufFile::open(target_);
    ASSERT_TRUE(file.ok()) << file.error().what;
    DraftShape s;
    s.hidden_size = s.target_hidden_size = static_cast<int>(*file->integer("llama.embedding_length"));
    s.intermediate_size = 256;
    s.head_count = 9, s.kv_head_count = 3, s.head_size = 64;
    s.vocab_size = static_cast<int>(file->find("tokenizer.ggml.tokens")->values.size());
    s.draft_vocab_size = 4000;
    s.context_length = 8192;
    s.rope_theta = *file->number("llama.rope.freq_base");
    checkpoint_ = test::random_checkpoint(s, 3, 3.0, true);  // large weights: no near ties between drafts
    checkpoint_.target_layer_count = static_cast<int>(*file->integer("llama.block_count"));
    checkpoint_.boundaries = {2, checkpoint_.target_layer_count / 2, checkpoint_.target_layer_count - 3};
    ASSERT_DONE(
        export_gguf(real_file_system(), checkpoint_, target_, draft_, {.overwrite = true, .type = WeightType::kF16}));
    config_.target = target_;
    config_.draft = draft_;
    config_.context = 256;
    config_.threads = 2;
  }
  std::string target_, draft_;
  Checkpoint checkpoint_;
  DecoderConfig config_;
};

TEST_F(RealModel, ARandomDraftChangesNothingAndIsAcceptedAlmostNever) {
  auto decoder = SpeculativeDecoder::open(config_);
  ASSERT_TRUE(decoder.ok()) << decoder.error().what;
  DecodeRequest r;
  r.prompt_ids = {1,   9690,  198, 2683, 359,  253, 5356, 5646, 11173, 3365, 2, 198, 1,    4093,
                  198, 19556, 506, 260,  3575, 282, 4649, 47,   2,     198,  1, 520, 9531, 198};
  r.max_tokens = 16;
  auto plain = (*decoder)->decode(r);
  ASSERT_TRUE(plain.ok()) << plain.error().what;
  r.draft_length = 3;
  auto run = (*decoder)->decode(r);
  ASSERT_TRUE(run.ok()) << run.error().what;
  const OutputComparison compared = compare_outputs(*plain, *run);
  // A quantised target rounds otherwise over four rows than over one: only a near tie may turn.
  if (!compared.equal) {
    EXPECT_LT(compared.gap_plain, 0.5) << "token " << compared.first_difference;
  }
  EXPECT_LT(run->acceptance_length(), 1.2);
  EXPECT_GE(plain->ids.size(), 5u);
}

TEST_F(RealModel, IsRefusedWhenTheDraftIsOfAnotherTarget) {
  config_.target_fingerprint = "of-this-model";
  auto opened = SpeculativeDecoder::open(config_);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().what, testing::AllOf(HasSubstr("of-this-model"), HasSubstr("fingerprint-of-a-test")));
  const std::string tiny = path_of("tiny.gguf");
  ASSERT_DONE(test::write_tiny_target(tiny, {}, 1));
  config_.target_fingerprint.clear();
  config_.target = tiny;
  EXPECT_FALSE(SpeculativeDecoder::open(config_).ok());
}

}  // namespace
}  // namespace aerie
