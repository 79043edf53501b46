#include "train/trainer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "train/fitted_draft.h"
#include "train/guard.h"
#include "train/initial_draft.h"
#include "train/schedule.h"

namespace aerie {
namespace {

constexpr uint64_t kReadAheadBytes = 256ull << 20;
constexpr int64_t kStepsBeforeEstimate = 5;  // of a time-limited run, before its number of steps is guessed
constexpr int kValidationsARun = 10;
constexpr const char* kBest = "checkpoints/best/draft.safetensors";

LossMask mask_named(const std::string& name) {
  return name == "input" ? LossMask::kInput : name == "unshifted" ? LossMask::kUnshifted : LossMask::kPredicted;
}

std::string sample_names(const std::vector<Sample>& samples) {
  std::vector<std::string> names;
  for (const Sample& s : samples) names.push_back(s.id);
  return join(names, ", ");
}

// For people.
std::string text_of(const std::optional<double>& value, int digits, double times = 1) {
  return value ? fmt::format("{:.{}f}", times * *value, digits) : "unknown";
}

// Absent when max_length cut every supervised token off.
std::optional<double> loss_of(const TttOutputs& outputs) {
  return outputs.loss_rows.front() > 0 ? std::optional(outputs.loss) : std::nullopt;
}

// What is unknown is left out.
void add_known(Fields& fields, const char* name, const std::optional<double>& value) {
  if (value) fields.emplace_back(name, *value);
}

}  // namespace

Trainer::Trainer(FileSystem& fs, std::string store_path, const TrainConfig& config, RunFolder& run,
                 std::stop_token stop)
    : store_path_(std::move(store_path)), config_(config), run_(run), stop_(std::move(stop)), fs_(fs) {}

Result<TrainResult> Trainer::go() {
  CHECKED(prepare());
  CHECKED(loop());
  return result();
}

Status Trainer::prepare() {
  if (config_.freeze_head && config_.init == "random")
    return invalid("train.freeze_head keeps the output matrix as it starts, and train.init = random starts it with noise; use fitted or target");
  TRY(store_, StoreReader::open(fs_, store_path_));
  split_ = split_samples(store_->samples(), config_.validation_share);
  if (split_.train.empty()) {
    return invalid(fmt::format("the store {} has no sample with a supervised token to train on ({} samples)",
                               store_path_, store_->samples().size()));
  }
  int64_t tokens = 0;
  for (const size_t index : split_.validation) {
    tokens += std::min<int64_t>(store_->samples()[index].token_count, config_.max_length);
    if (!validated_.empty() && tokens > config_.validation_tokens) break;
    validated_.push_back(index);
  }
  CHECKED(choose_words());
  order_.emplace(store_->samples(), split_.train, config_.max_length, config_.batch_tokens, config_.seed);
  total_steps_ = order_->batches_an_epoch() * config_.epochs;
  if (config_.max_steps > 0) total_steps_ = std::min<int64_t>(total_steps_, config_.max_steps);
  CHECKED(make_model());
  CHECKED(fs_.make_folders(run_.file("checkpoints/last")));
  return fs_.make_folders(run_.file("checkpoints/best"));
}

// Counts what the target answered with; the validation samples only to say how well the choice covers them.
Status Trainer::choose_words() {
  const auto vocab = static_cast<size_t>(store_->header().vocab_size);
  std::vector<int64_t> train(vocab, 0), validation(vocab, 0);
  const auto count = [&](const std::vector<size_t>& indices, std::vector<int64_t>& counts) -> Status {
    for (const size_t index : indices) {
      if (stop_.stop_requested()) return cancelled("training was stopped while it counted tokens");
      TRY(const Sample sample, store_->read_tokens(index));
      const size_t kept = std::min(sample.input_ids.size(), static_cast<size_t>(config_.max_length));
      for (size_t i = 0; i < kept; ++i) {
        if (sample.loss_mask[i] == 0) continue;
        const auto id = static_cast<size_t>(sample.input_ids[i]);
        if (id >= vocab)
          return corrupt(fmt::format("sample {} has token {}, but the target has {} tokens", sample.id, id, vocab));
        ++counts[id];
      }
    }
    return ok_status();
  };
  CHECKED(count(split_.train, train));
  CHECKED(count(split_.validation, validation));
  TRY(words_, choose_vocabulary(train, config_.draft_vocab));
  const std::optional<double> in_validation = coverage_of(validation, words_.targets);
  log_info("vocabulary",
           fmt::format("the draft can propose {} of {} tokens: {} % of the answers' {} tokens ({} different ones), "
                       "{} % in validation",
                       words_.targets.size(), vocab, text_of(words_.coverage, 2, 100), words_.counted, words_.distinct,
                       text_of(in_validation, 2, 100)));
  Fields facts = {{"size", words_.targets.size()},
                  {"supervised_tokens", words_.counted},
                  {"distinct_tokens", words_.distinct}};
  add_known(facts, "coverage", words_.coverage);
  add_known(facts, "validation_coverage", in_validation);
  return run_.event("vocabulary", facts);
}

Status Trainer::make_model() {
  TRY(const DraftShape shape, draft_shape_of(store_->header(), config_, static_cast<int>(words_.targets.size())));
  TRY(StoredHead stored, read_target_head(fs_, store_path_));
  const auto head = std::make_shared<const StoredHead>(std::move(stored));
  TttOptions options;
  options.steps = config_.ttt_steps;
  options.mask = mask_named(config_.mask);
  options.step_decay = config_.step_decay;
  options.freeze_head = config_.freeze_head;
  options.last_is_prenorm = store_->header().last_is_prenorm;
  options.threads = config_.threads;
  draft_ = initial_draft(shape, store_->header(), *head, words_, config_);
  const std::string path = run_.file("checkpoints/last/resume.safetensors");
  TRY(std::optional<Resumed> resumed, read_resume(fs_, path, identity()));
  if (resumed) {
    const auto d2t = *draft_.find("d2t");
    std::vector<Tensor> moments;
    draft_.tensors = {d2t};
    for (Tensor& t : resumed->tensors)
      (t.name.starts_with("exp_avg") || t.name == "feature_scale" ? moments : draft_.tensors).push_back(std::move(t));
    TRY(model_, TttModel::create(draft_, head, options));
    if (!moments.empty()) CHECKED(model_->restore_optimizer(moments));
    state_ = resumed->state;
    CHECKED(measure_best(head, options));
    log_info("resume", fmt::format("going on after step {} of {}", state_.step, path));
  } else {
    // Of an attempt that left no state to go on from, perhaps of other settings.
    const std::string old = run_.file(kBest);
    TRY(const bool there, fs_.exists(old));
    if (there) CHECKED(fs_.remove(old));
    if (config_.init == "fitted") CHECKED(fit_start(head, options));
    TRY(model_, TttModel::create(draft_, head, options));
    TRY(const auto rms, feature_rms(draft_, *store_, split_.train, head, options, config_, stop_));
    if (!rms.empty()) CHECKED(model_->set_feature_rms(rms));
  }
  draft_.tensors = {*draft_.find("d2t")};
  elapsed_before_s_ = state_.elapsed_s;
  first_step_ = saved_step_ = state_.step;
  return ok_status();
}

// A kill between best/draft.safetensors and the next save leaves a draft there of which the state knows nothing. The
// run then does those steps again, and other ones than before when a time limit shapes the learning rate: so the best
// draft is what the file holds, measured anew, and never what the state remembers of an older one. The same weights
// measure the same, so a run without a time limit still ends as a straight one.
Status Trainer::measure_best(const std::shared_ptr<const StoredHead>& head, const TttOptions& options) {
  if (state_.finished) return ok_status();  // its last save came after everything else
  state_.best_step = -1;
  state_.best = {};
  const std::string path = run_.file(kBest);
  TRY(const bool there, fs_.exists(path));
  if (validated_.empty() || !there) return ok_status();
  auto best = read_checkpoint(path);
  if (!best) return std::move(best).error().under("going on with the best draft so far");
  TRY(const auto model, TttModel::create(*best, head, options));
  TRY(state_.best, measure_validation(*model));
  state_.best_step = best->step;
  return ok_status();
}

Status Trainer::fit_start(const std::shared_ptr<const StoredHead>& head, const TttOptions& options) {
  TRY(const FitReport fit, fit_draft(draft_, *store_, split_.train, head, options, config_, stop_));
  if (!fit.fitted) {
    log_warning("not_fitted",
                fmt::format("the draft's start could not be fitted to {} tokens; it starts from the target's "
                            "output matrix and random weights",
                            fit.rows));
    return ok_status();
  }
  log_info("fitted", fmt::format("the draft starts from a regression on {} tokens: acceptance estimate {} before "
                                 "training",
                                 fit.rows, text_of(fit.acceptance, 2)));
  Fields facts = {{"rows", fit.rows}, {"norm_scale", fit.norm_scale}};
  add_known(facts, "held_out_loss", fit.loss);
  add_known(facts, "acceptance_estimate", fit.acceptance);
  return run_.event("fitted", facts);
}

RunIdentity Trainer::identity() const {
  const StoreHeader& h = store_->header();
  const DraftShape& s = draft_.shape;
  Sha256 samples, words;
  for (const size_t index : split_.train) {
    const SampleInfo& info = store_->samples()[index];
    samples.add(fmt::format("{} {} {}\n", info.id, info.token_count, info.supervised_count));
  }
  for (const int32_t id : words_.targets) words.add(fmt::format("{}\n", id));
  const TrainConfig& c = config_;
  return {{"target", h.target_fingerprint},
          {"boundaries", fmt::format("{}", fmt::join(h.boundaries, ","))},
          {"training samples", fmt::format("{} samples, digest {}", split_.train.size(), samples.hex())},
          {"hidden_size", std::to_string(s.hidden_size)},
          {"intermediate_size", std::to_string(s.intermediate_size)},
          {"draft_vocab", std::to_string(s.draft_vocab_size)},
          {"draft vocabulary's digest", words.hex()},
          {"ttt_steps", std::to_string(c.ttt_steps)},
          {"norm_before_residual", c.norm_before_residual ? "true" : "false"},
          {"norm_before_fc", c.norm_before_fc ? "true" : "false"},
          {"init", c.init},
          {"freeze_head", c.freeze_head ? "true" : "false"},
          {"mask", c.mask},
          {"step_decay", fmt::format("{}", c.step_decay)},
          {"epochs", std::to_string(c.epochs)},
          {"max_steps", std::to_string(c.max_steps)},
          {"batch_tokens", std::to_string(c.batch_tokens)},
          {"max_length", std::to_string(c.max_length)},
          {"lr", fmt::format("{}", c.lr)},
          {"warmup_share", fmt::format("{}", c.warmup_share)},
          {"min_lr_share", fmt::format("{}", c.min_lr_share)},
          {"beta1", fmt::format("{}", c.beta1)},
          {"beta2", fmt::format("{}", c.beta2)},
          {"weight_decay", fmt::format("{}", c.weight_decay)},
          {"clip_norm", fmt::format("{}", c.clip_norm)},
          {"seed", std::to_string(c.seed)}};
}

double Trainer::elapsed_s() const { return elapsed_before_s_ + real_clock().monotonic_s() - started_s_; }

bool Trainer::over() const {
  return state_.finished || state_.step >= total_steps_ ||
         (config_.time_limit_s > 0 && state_.step > 0 && elapsed_s() >= config_.time_limit_s);
}

// The share of the run that is done: by steps, or by time where that ends sooner.
double Trainer::progress() const {
  double share = static_cast<double>(state_.step) / static_cast<double>(total_steps_);
  if (config_.time_limit_s > 0) share = std::max(share, elapsed_s() / config_.time_limit_s);
  return std::min(1.0, share);
}

// The same once the next step is done, which the learning rate of that step goes by.
double Trainer::progress_after_next() const {
  double share = static_cast<double>(state_.step + 1) / static_cast<double>(total_steps_);
  if (config_.time_limit_s > 0 && state_.step > 0) {
    const double spent = elapsed_s();
    share = std::max(share, (spent + spent / static_cast<double>(state_.step)) / config_.time_limit_s);
  }
  return std::min(1.0, share);
}

Status Trainer::loop() {
  started_s_ = saved_at_s_ = real_clock().monotonic_s();
  if (over()) return ok_status();
  tenths_seen_ = static_cast<int>(progress() * kValidationsARun);
  BatchReader reader(store_, *order_, state_.step, total_steps_, config_.max_length, kReadAheadBytes);
  while (!over()) {
    if (stop_.stop_requested()) return stopped();
    Status done = one_step(reader);
    if (!done && done.error().code == Code::kCancelled) return stopped();  // while it waited for a batch
    CHECKED(std::move(done));
    if (validation_due()) CHECKED(validate());
    const bool late =
        config_.checkpoint_every_s > 0 && real_clock().monotonic_s() - saved_at_s_ >= config_.checkpoint_every_s;
    if (late || state_.step % config_.checkpoint_every == 0) CHECKED(save());
  }
  if (state_.validated_step != state_.step) CHECKED(validate());
  state_.finished = true;
  CHECKED(save());
  if (progress_) {
    progress_->finish(fmt::format("trained {} steps, loss {}, acceptance estimate {}", state_.step,
                                  text_of(state_.train_loss, 3), text_of(state_.best.acceptance, 2)));
  }
  return ok_status();
}

// Keeps what was done; returns kCancelled.
Status Trainer::stopped() {
  CHECKED(save());
  return cancelled(fmt::format("training was stopped after step {}; start it again to go on from there", state_.step));
}

Status Trainer::one_step(BatchReader& reader) {
  const double began = real_clock().monotonic_s();
  TRY(const std::vector<Sample> samples, reader.next(stop_));
  const auto context = [&] {
    return fmt::format("training stopped at step {} (samples {}); the last checkpoint is kept", state_.step + 1,
                       sample_names(samples));
  };
  const double lr = learning_rate(config_.lr, config_.warmup_share, config_.min_lr_share, progress_after_next());
  auto outputs = model_->run(sequences_of(samples), {.gradients = true});
  if (!outputs) return std::move(outputs).error().under(context());
  AdamWSettings adamw;
  adamw.lr = lr;
  adamw.beta1 = config_.beta1;
  adamw.beta2 = config_.beta2;
  adamw.weight_decay = config_.weight_decay;
  adamw.clip_norm = config_.clip_norm;
  auto norm = model_->update(adamw, state_.step + 1);
  if (!norm) return std::move(norm).error().under(context());
  ++state_.step;
  // Smoothed over about twenty steps, so that one odd batch does not look like a turn.
  if (const auto loss = loss_of(*outputs)) {
    state_.train_loss = state_.train_loss ? 0.95 * *state_.train_loss + 0.05 * *loss : *loss;
  }
  return report_step(samples, *outputs, lr, *norm, real_clock().monotonic_s() - began);
}

Status Trainer::report_step(const std::vector<Sample>& samples, const TttOutputs& outputs, double lr, double norm,
                            double seconds) {
  int64_t tokens = 0;
  for (const Sample& s : samples) tokens += static_cast<int64_t>(s.input_ids.size());
  Fields facts = {{"step", state_.step},
                  {"epoch", (state_.step - 1) / order_->batches_an_epoch() + 1},
                  {"lr", lr},
                  {"grad_norm", norm},
                  {"tokens", tokens},
                  {"supervised", outputs.loss_rows.front()},
                  {"tokens_per_s", static_cast<double>(tokens) / seconds},
                  {"seconds", seconds}};
  add_known(facts, "loss", loss_of(outputs));
  std::vector<double> step_loss = outputs.step_loss;  // of the steps that a supervised slot reached
  while (!step_loss.empty() && outputs.loss_rows[step_loss.size() - 1] == 0) step_loss.pop_back();
  CHECKED(run_.event("train_step", facts, "\"step_loss\": " + json_array(step_loss)));
  show(tokens);
  return ok_status();
}

// A time-limited run knows its number of steps only after some; the bar begins then.
void Trainer::show(int64_t tokens) {
  const double limit = config_.time_limit_s;
  if (!progress_) {
    if (limit > 0 && state_.step - first_step_ < kStepsBeforeEstimate) return;
    int64_t total = total_steps_;
    if (limit > 0) {
      const double a_step = (elapsed_s() - elapsed_before_s_) / static_cast<double>(state_.step - first_step_);
      total = std::min(total, state_.step + static_cast<int64_t>(std::max(0.0, limit - elapsed_s()) / a_step));
    }
    ProgressOptions options;
    options.stage = "train";
    options.unit = "steps";
    options.total = total;
    options.done_before = state_.step - 1;
    options.second_unit = "tokens";
    progress_ = std::make_unique<Progress>(options, &run_);
  }
  Fields facts;
  add_known(facts, "loss", state_.train_loss);
  add_known(facts, "acceptance", state_.validation.acceptance);
  progress_->facts(std::move(facts));
  progress_->advance(1, tokens);
}

// By steps, or whenever another tenth of the run has passed.
bool Trainer::validation_due() {
  if (config_.eval_every > 0) return state_.step % config_.eval_every == 0;
  const int tenths = static_cast<int>(progress() * kValidationsARun);
  return std::exchange(tenths_seen_, tenths) < tenths;
}

Result<ValidationResult> Trainer::measure_validation(TttModel& model) {
  ValidationResult sum;
  const auto steps = static_cast<size_t>(config_.ttt_steps);
  TttOutputs all;
  for (auto* counts : {&all.loss_rows, &all.correct, &all.total, &all.chain_correct, &all.chain_total})
    counts->assign(steps, 0);
  std::vector<double> losses(steps, 0);
  validation_labels_.resize(validated_.size());
  for (size_t i = 0; i < validated_.size(); ++i) {
    TRY(const Sample sample, read_cut(*store_, validated_[i], config_.max_length));
    if (validation_labels_[i].empty()) validation_labels_[i] = model.teacher_argmax(sample.last);
    const TttSequence sequence{sample.input_ids, sample.loss_mask, sample.aux, sample.last, validation_labels_[i]};
    auto outputs = model.run({&sequence, 1}, {.accuracy = true});
    if (!outputs) return std::move(outputs).error().under("validating on sample " + sample.id);
    for (size_t k = 0; k < steps; ++k) {
      losses[k] += outputs->step_loss[k] * static_cast<double>(outputs->loss_rows[k]);
      all.loss_rows[k] += outputs->loss_rows[k];
      all.correct[k] += outputs->correct[k];
      all.total[k] += outputs->total[k];
      all.chain_correct[k] += outputs->chain_correct[k];
      all.chain_total[k] += outputs->chain_total[k];
    }
    if (progress_) progress_->tick();
  }
  double weight = 1;
  for (size_t k = 0; k < steps; ++k, weight *= config_.step_decay) {
    if (all.loss_rows[k] == 0) break;
    sum.loss = sum.loss.value_or(0) + weight * losses[k] / static_cast<double>(all.loss_rows[k]);
    sum.accuracy.push_back(static_cast<double>(all.correct[k]) / static_cast<double>(all.total[k]));
  }
  sum.acceptance = acceptance_estimate(all);
  return sum;
}

Status Trainer::validate() {
  if (validated_.empty()) return ok_status();
  TRY(state_.validation, measure_validation(*model_));
  state_.validated_step = state_.step;
  Fields facts = {{"step", state_.step}, {"samples", validated_.size()}};
  add_known(facts, "loss", state_.validation.loss);
  add_known(facts, "acceptance_estimate", state_.validation.acceptance);
  CHECKED(run_.event("validation", facts, "\"accuracy\": " + json_array(state_.validation.accuracy)));
  // Any number is above an absent one; an absent one is never the best.
  if (!(state_.validation.acceptance > state_.best.acceptance)) return ok_status();
  state_.best = state_.validation;
  state_.best_step = state_.step;
  // Not saved at once: measure_best() finds what a kill before the next save leaves.
  return write_checkpoint(fs_, run_.file(kBest), checkpoint_now());
}

Checkpoint Trainer::checkpoint_now() const {
  Checkpoint c = draft_;
  c.step = state_.step;
  for (Tensor& t : model_->weights()) c.tensors.push_back(std::move(t));
  return c;
}

// The file to go on from first: should the process die between the two, the draft is only older, and still whole.
Status Trainer::save() {
  if (saved_step_ == state_.step && !state_.finished) return ok_status();
  state_.elapsed_s = elapsed_s();
  std::vector<Tensor> tensors = model_->weights();
  for (Tensor& t : model_->optimizer_state()) tensors.push_back(std::move(t));
  CHECKED(write_resume(fs_, run_.file("checkpoints/last/resume.safetensors"), state_, identity(), tensors));
  CHECKED(write_checkpoint(fs_, run_.file("checkpoints/last/draft.safetensors"), checkpoint_now()));
  saved_step_ = state_.step;
  saved_at_s_ = real_clock().monotonic_s();
  return run_.event("checkpoint", {{"step", state_.step}, {"path", run_.file("checkpoints/last/draft.safetensors")}});
}

TrainResult Trainer::result() const {
  TrainResult r;
  r.steps = state_.step;
  r.train_loss = state_.train_loss;
  r.validation_loss = state_.best.loss;
  r.accuracy = state_.best.accuracy;
  r.acceptance_estimate = state_.best.acceptance;
  r.vocabulary_coverage = words_.coverage;
  r.last_checkpoint = run_.file("checkpoints/last/draft.safetensors");
  r.best_checkpoint = state_.best_step >= 0 ? run_.file(kBest) : r.last_checkpoint;
  return r;
}

Result<TrainResult> train(const std::string& store_path, const TrainConfig& config, RunFolder& run,
                          std::stop_token stop) {
  if (config.device == "cuda") {
    return invalid("train.device is cuda, but this build's trainer runs on the CPU; set it to cpu or auto");
  }
  // Once more around the whole: make_model(), update() and save() compute and allocate as well as TttModel::run().
  return guarded("training", "lower batch_tokens, max_length or draft_vocab; a checkpoint that was saved is kept", [&] {
    return Trainer(real_file_system(), store_path, config, run, std::move(stop)).go();
  });
}

}  // namespace aerie
