#include "target/llama/llama_target.h"

#include "chat.h"  // libllama-common: the Jinja renderer that llama-server uses
#include "llama.h"
#include "target/llama/capture.h"
#include "target/llama/dequantize.h"
#include "target/llama/facts.h"
#include "target/llama/generate.h"
#include "target/llama/library.h"

namespace aerie {
namespace {

using llama::Capturer;
using llama::Generator;
using llama::ModelPtr;

class LlamaTarget : public Target {
 public:
  static Result<std::unique_ptr<Target>> open(const TargetConfig& config, const std::string& copies_folder) {
    TRY(GgufFile gguf, GgufFile::open(config.model));
    TRY(TargetFacts facts, llama::read_facts(gguf, config.model));
    if (facts.context_length > 0 && config.context > facts.context_length)
      return invalid("target.context is " + std::to_string(config.context) + ", and " + config.model + " was trained for " +
                     std::to_string(facts.context_length) + " tokens: set it to that or less");
    std::string run_file = config.model;
    if (!config.unpack.empty()) {
      TRY(run_file, unpacked_copy(real_file_system(), config.model, config.unpack, copies_folder));
    }
    TRY(ModelPtr model, llama::open_model(run_file));
    if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get()) || llama_model_is_diffusion(model.get()))
      return invalid(config.model + " is no model that writes text from left to right, and a target must be one");
    facts.engine_version = llama_library_version();
    if (!config.unpack.empty()) facts.engine_version += ", weights unpacked to " + config.unpack;
    return std::unique_ptr<Target>(new LlamaTarget(config, std::move(gguf), std::move(facts), std::move(model)));
  }

  const TargetFacts& facts() const override { return facts_; }

  Result<std::vector<int32_t>> tokenize(const std::string& text, bool parse_special) override {
    const auto length = static_cast<int32_t>(text.size());
    std::vector<int32_t> ids(text.size() + 8);
    for (int attempt = 0; attempt < 2; ++attempt) {
      // No BOS is added: render() writes it, and text for training is taken as it is.
      const int32_t count = llama_tokenize(vocab(), text.data(), length, ids.data(), static_cast<int32_t>(ids.size()), false, parse_special);
      if (count >= 0) {
        ids.resize(static_cast<size_t>(count));
        return ids;
      }
      ids.resize(static_cast<size_t>(-static_cast<int64_t>(count)));
    }
    return internal("llama.cpp cannot tokenise a text of " + std::to_string(text.size()) + " bytes" + llama::because());
  }

  Result<std::string> detokenize(std::span<const int32_t> ids) override {
    CHECKED(llama::check_ids(*model_, ids));
    std::string text(ids.size() * 8 + 16, '\0');
    for (int attempt = 0; attempt < 2; ++attempt) {
      const int32_t count = llama_detokenize(vocab(), ids.data(), static_cast<int32_t>(ids.size()), text.data(),
                                             static_cast<int32_t>(text.size()), false, true);
      if (count >= 0) {
        text.resize(static_cast<size_t>(count));
        return text;
      }
      text.resize(static_cast<size_t>(-static_cast<int64_t>(count)));
    }
    return internal("llama.cpp cannot write " + std::to_string(ids.size()) + " tokens as text" + llama::because());
  }

  Result<std::string> render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) override {
    if (facts_.chat_template.empty())
      return invalid(facts_.model_path + " has no chat template: it is a base model, and conversations cannot be rendered for it");
    try {
      if (!templates_) templates_ = common_chat_templates_init(model_.get(), "");
      common_chat_templates_inputs inputs;
      inputs.use_jinja = true;
      inputs.add_generation_prompt = add_generation_prompt;
      for (const ChatMessage& message : messages) {
        common_chat_msg one;
        one.role = message.role;
        one.content = message.content;
        inputs.messages.push_back(std::move(one));
      }
      return bos_in_front() + common_chat_templates_apply(templates_.get(), inputs).prompt;
    } catch (const std::exception& error) {
      return invalid("the chat template of " + facts_.model_path + " cannot render these messages: " + error.what());
    }
  }

  Status generate(const std::vector<GenerateRequest>& requests, const OnGenerated& done, std::stop_token stop,
                  std::stop_token enough) override {
    capturer_.reset();  // one context at a time: their caches are the largest things here
    if (!generator_) {
      TRY(generator_, Generator::open(*model_, config_));
    }
    return generator_->run(requests, done, stop, enough);
  }

  Result<Captured> capture(std::span<const int32_t> ids, std::span<const int> boundaries, std::stop_token stop) override {
    generator_.reset();
    if (!capturer_) {
      TRY(capturer_, Capturer::open(*model_, facts_, config_));
    }
    return capturer_->run(ids, boundaries, stop);
  }

  Result<TargetHead> head() override { return llama::read_head(gguf_, facts_); }

 private:
  LlamaTarget(const TargetConfig& config, GgufFile gguf, TargetFacts facts, ModelPtr model)
      : config_(config), gguf_(std::move(gguf)), facts_(std::move(facts)), model_(std::move(model)) {}

  // The renderer takes the BOS away from a model whose tokenizer adds it, as llama-server lets the tokenizer do; tokenize()
  // adds nothing, so it is put back here.
  std::string bos_in_front() const {
    const llama_token bos = llama_vocab_get_add_bos(vocab()) ? llama_vocab_bos(vocab()) : LLAMA_TOKEN_NULL;
    return bos == LLAMA_TOKEN_NULL ? "" : llama_vocab_get_text(vocab(), bos);
  }

  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }

  TargetConfig config_;
  GgufFile gguf_;
  TargetFacts facts_;
  ModelPtr model_;  // before everything that borrows it
  common_chat_templates_ptr templates_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<Capturer> capturer_;
};

}  // namespace

Result<TargetFacts> read_llama_facts(const std::string& model) {
  TRY(const GgufFile gguf, GgufFile::open(model));
  return llama::read_facts(gguf, model);
}

Result<std::unique_ptr<Target>> open_llama_target(const TargetConfig& config, const std::string& copies_folder) {
  return LlamaTarget::open(config, copies_folder);
}

std::string llama_library_version() { return llama_version(); }

}  // namespace aerie
