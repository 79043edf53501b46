// check_export(): what lies on disk is the draft that was trained.
#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "draft/export.h"
#include "draft/load.h"
#include "draft/sequential.h"
#include "train/ttt.h"

namespace aerie {
namespace {

// How far a stored type may move weights (over a tensor's largest) and logits (over the largest logit). bf16 keeps 8
// bits and f16 11; logits add a few hundred rounding errors of either sign, and a chain of steps feeds them back.
struct Allowed {
  double weight;
  double logit;
};
Allowed allowed_for(std::string_view weight_type) {
  if (weight_type == "F32") return {0, 1e-4};
  if (weight_type == "F16") return {1e-3, 1e-2};
  if (weight_type == "BF16") return {4e-3, 5e-2};
  return {1.2e-2, 1e-1};  // Q8_0
}

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (float v : values) largest = std::max(largest, std::fabs(double{v}));
  return largest;
}

// GGUF holds these two as 32-bit floats, and readers differ in the decimal they make of one.
DraftShape as_stored(DraftShape shape) {
  shape.rms_norm_eps = static_cast<float>(shape.rms_norm_eps);
  shape.rope_theta = static_cast<float>(shape.rope_theta);
  return shape;
}

Status compare_facts(const Checkpoint& trained, const Checkpoint& exported, const std::string& path) {
  if (!(as_stored(trained.shape) == as_stored(exported.shape)))
    return corrupt(fmt::format("{}: sizes or flags differ from the trained draft's", path));
  if (trained.boundaries != exported.boundaries) {
    return corrupt(fmt::format("{}: boundaries [{}] instead of [{}]", path, fmt::join(exported.boundaries, ", "),
                               fmt::join(trained.boundaries, ", ")));
  }
  if (trained.target_fingerprint != exported.target_fingerprint) {
    return corrupt(
        fmt::format("{}: fingerprint {} instead of {}", path, exported.target_fingerprint, trained.target_fingerprint));
  }
  return ok_status();
}

Status compare_weights(const Checkpoint& trained, const Checkpoint& exported, const std::string& path, double allowed,
                       ExportCheck& check) {
  for (const Tensor& tensor : trained.tensors) {
    const Tensor* other = exported.find(tensor.name);
    if (other == nullptr || other->shape != tensor.shape) return corrupt(fmt::format("{}: no '{}'", path, tensor.name));
    ++check.tensors;
    if (tensor.name == "d2t") {
      if (tensor.bytes != other->bytes) return corrupt(path + ": d2t leads to other tokens than the trained one");
      continue;
    }
    TRY(const std::vector<float> a, to_floats(tensor.view()));
    TRY(const std::vector<float> b, to_floats(other->view()));
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(double{a[i]} - b[i]));
    const double largest = largest_of(a);
    const double relative = largest > 0 ? worst / largest : worst;
    check.worst_weight = std::max(check.worst_weight, relative);
    if (relative > allowed) {
      return corrupt(fmt::format(
          "{}: '{}' differs from the trained one by {:.3g} of its largest value, more than its type explains", path,
          tensor.name, relative));
    }
  }
  return ok_status();
}

// The trainer's forward pass over the sample: logits of every step, one row a position.
Result<std::vector<std::vector<float>>> trainer_logits(const Checkpoint& trained, const ExportSample& sample) {
  auto head = std::make_shared<StoredHead>();
  const auto width = static_cast<size_t>(trained.shape.target_hidden_size);
  head->norm.assign(width, 1.0f);
  head->lm_head = sample.embeddings;  // the teacher plays no part in logits; the table serves as the tied head
  TttOptions options;
  options.steps = sample.ttt_steps;
  TRY(const auto model, TttModel::create(trained, head, options));
  const std::vector<uint8_t> mask(sample.ids.size(), 1);
  const std::vector<float> last(sample.ids.size() * width, 0.0f);
  const TttSequence sequence{sample.ids, mask, sample.aux, last, {}};
  TttWants wants;
  wants.logits = true;
  TRY(TttOutputs outputs, model->run(std::span(&sequence, 1), wants));
  if (outputs.logits.size() != static_cast<size_t>(sample.ttt_steps)) return internal("the trainer gave no logits");
  return std::move(outputs.logits);
}

class LogitComparison {
 public:
  explicit LogitComparison(ExportCheck& check) : check_(check) {}
  void add(std::span<const float> trained, std::span<const float> exported) {
    for (size_t i = 0; i < trained.size(); ++i) {
      const double difference = std::fabs(double{trained[i]} - exported[i]);
      worst_ = std::max(worst_, std::isfinite(difference) ? difference : INFINITY);
    }
    largest_ = std::max(largest_, largest_of(trained));
    check_.logits_compared += static_cast<int64_t>(trained.size());
    agreed_ += std::max_element(trained.begin(), trained.end()) - trained.begin() ==
               std::max_element(exported.begin(), exported.end()) - exported.begin();
    ++rows_;
  }
  void finish() {
    check_.worst_logit = largest_ > 0 ? worst_ / largest_ : worst_;
    check_.argmax_agreement = rows_ > 0 ? static_cast<double>(agreed_) / static_cast<double>(rows_) : 1.0;
  }

 private:
  ExportCheck& check_;
  double worst_ = 0, largest_ = 0;
  int64_t agreed_ = 0, rows_ = 0;
};

// Decodes the sample slot by slot: true features up to slot j, then the draft's own states with the sample's tokens.
Status compare_logits(const Checkpoint& trained, const Checkpoint& exported, const ExportSample& sample,
                      ExportCheck& check) {
  TRY(const auto expected, trainer_logits(trained, sample));
  TRY(SequentialDraft draft, SequentialDraft::make(exported, sample.embeddings));
  const auto width = 3 * static_cast<size_t>(trained.shape.target_hidden_size);
  const auto columns = static_cast<size_t>(trained.shape.draft_vocab_size);
  LogitComparison comparison(check);
  for (size_t slot = 0; slot + 1 < sample.ids.size(); ++slot) {
    DraftOutput out = draft.feed(std::span(sample.aux).subspan(slot * width, width), sample.ids[slot + 1]);
    for (size_t k = 0; k < expected.size(); ++k) {
      if (k > 0) {
        if (slot + 1 + k >= sample.ids.size()) break;
        out = draft.step(out.state, sample.ids[slot + 1 + k]);
      }
      comparison.add(std::span(expected[k]).subspan(slot * columns, columns), out.logits);
    }
    draft.rollback(static_cast<int>(slot) + 1);
  }
  comparison.finish();
  return ok_status();
}

Status check_sample(const Checkpoint& trained, const ExportSample& sample) {
  const size_t aux = sample.ids.size() * 3 * static_cast<size_t>(trained.shape.target_hidden_size);
  const bool inside = std::all_of(sample.ids.begin(), sample.ids.end(),
                                  [&](int32_t id) { return id >= 0 && id < trained.shape.vocab_size; });
  if (sample.ids.size() < 3 || sample.aux.size() != aux || !inside || sample.ttt_steps < 1) {
    return invalid(
        fmt::format("the sample for checking an export needs 3 tokens of the vocabulary at least and {} states, not {} "
                    "tokens and {} states",
                    aux, sample.ids.size(), sample.aux.size()));
  }
  return ok_status();
}

}  // namespace

Result<ExportCheck> check_export(const Checkpoint& trained, const std::string& path, const ExportSample& sample) {
  CHECKED(check_sample(trained, sample));
  TRY(const LoadedDraft loaded, load_draft(real_file_system(), path, trained.target_layer_count));
  const Allowed allowed = allowed_for(loaded.weight_type);
  ExportCheck check;
  check.tolerance = allowed.logit;
  CHECKED(compare_facts(trained, loaded.checkpoint, path));
  CHECKED(compare_weights(trained, loaded.checkpoint, path, allowed.weight, check));
  CHECKED(compare_logits(trained, loaded.checkpoint, sample, check));
  if (check.worst_logit > allowed.logit) {
    return corrupt(
        fmt::format("{}: logits differ from the trainer's by {:.3g} of the largest, more than {:.3g} that {} explains",
                    path, check.worst_logit, allowed.logit, loaded.weight_type));
  }
  return check;
}

}  // namespace aerie
