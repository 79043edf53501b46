#include "train/fitted_draft.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "train/batches.h"
#include "train/dense.h"
#include "train/floats.h"
#include "train/kernels.h"

namespace aerie {
namespace {

using dense::Into;
using dense::Matrix;

constexpr int64_t kMostRows = 32768, kFewestRows = 256;
constexpr int64_t kRowsForScale = 4096;
constexpr int64_t kHeldOutTokens = 1024;
constexpr double kRidge = 0.1;    // of the columns' mean square
constexpr double kOwnScore = 12;  // mean attention score of a slot with itself at the start
constexpr double kNoise = 0.002;  // tells heads of a group apart
constexpr uint64_t kOrderStream = 1'000'004, kNoiseStream = 1'000'005;

// What the regressions read, of one sample: rows j = 0..T-2.
struct Rows {
  int64_t count = 0;
  Floats features, token, here, next;  // F_j as fc reads it, rms(embed(x_{j+1})), u_j, u_{j+1}
  Floats inverse;
};

class Fitter {
 public:
  Fitter(Checkpoint& draft, const StoreReader& store, std::shared_ptr<const StoredHead> head, const TttOptions& options,
         const TrainConfig& config, std::stop_token stop)
      : draft_(draft),
        shape_(draft.shape),
        store_(store),
        head_(std::move(head)),
        options_(options),
        config_(config),
        stop_(std::move(stop)),
        ones_(static_cast<size_t>(3 * shape_.target_hidden_size), 1.0f) {}

  Result<std::vector<float>> feature_rms(std::vector<size_t> order) {
    choose(std::move(order), kRowsForScale);
    const int64_t columns = 3 * int64_t{shape_.target_hidden_size};
    std::vector<double> sums(static_cast<size_t>(columns), 0);
    int64_t rows = 0;
    TRY(const bool read, for_each_sample([&](const Rows& r) {
          for (int64_t i = 0; i < r.count * columns; ++i) {
            const double value = r.features.data()[i];
            sums[static_cast<size_t>(i % columns)] += value * value;
          }
          rows += r.count;
        }));
    std::vector<float> rms;
    if (!read || rows == 0) return rms;
    double mean = 0;
    for (const double sum : sums) mean += std::sqrt(sum / static_cast<double>(rows)) / static_cast<double>(columns);
    if (!(mean > 0) || !std::isfinite(mean)) return rms;
    for (const double sum : sums) {
      rms.push_back(static_cast<float>(std::max(std::sqrt(sum / static_cast<double>(rows)), 0.01 * mean)));
    }
    return rms;
  }

  Result<FitReport> fit(std::vector<size_t> order) {
    choose(std::move(order), kMostRows);
    FitReport report;
    for (const size_t i : fitted_on_) report.rows += length_of(i) - 1;
    if (report.rows < kFewestRows) return report;
    dense::set_threads(config_.threads);
    TRY(const bool state, fit_state());
    if (!state) return report;
    TRY(const bool step, fit_step());
    if (!step) return report;
    write();
    report.fitted = true;
    CHECKED(scale_norm(report));
    return report;
  }

 private:
  int64_t length_of(size_t index) const {
    return std::min<int64_t>(store_.samples()[index].token_count, config_.max_length);
  }

  // About a tenth of the samples decide the norm's scale and are not fitted on.
  void choose(std::vector<size_t> order, int64_t most_rows) {
    Random random(static_cast<uint64_t>(config_.seed), kOrderStream);
    random.shuffle(order);
    int64_t rows = 0, held = 0;
    for (size_t i = 0; i < order.size() && rows < most_rows; ++i) {
      if (i % 10 == 9 && held < kHeldOutTokens) {
        held_out_.push_back(order[i]);
        held += length_of(order[i]);
      } else {
        fitted_on_.push_back(order[i]);
        rows += length_of(order[i]);
      }
    }
  }

  Result<bool> for_each_sample(const std::function<void(const Rows&)>& use) {
    for (const size_t index : fitted_on_) {
      if (stop_.stop_requested()) return cancelled("training was stopped while its start was fitted");
      TRY(const Sample sample, read_cut(store_, index, config_.max_length));
      if (sample.input_ids.size() < 2) continue;
      fill(sample);
      use(rows_);
    }
    return true;
  }

  void fill(const Sample& sample) {
    const int64_t h = shape_.hidden_size, n = static_cast<int64_t>(sample.input_ids.size()) - 1;
    rows_.count = n;
    float* inverse = rows_.inverse.size(n + 1);
    float* features = rows_.features.size(n * 3 * h);
    std::copy_n(sample.aux.data(), n * 3 * h, features);
    if (shape_.norm_before_fc) {
      const Matrix all{features, n, 3 * h, 3 * h};
      kernels::rms_norm(all, all, ones_.data(), shape_.rms_norm_eps, inverse);
    }
    for (int c = 0; shape_.fc_norm && c < 3; ++c) {
      const Matrix part{features + c * h, n, h, 3 * h};
      kernels::rms_norm(part, part, ones_.data(), shape_.rms_norm_eps, inverse);
    }
    const std::vector<float>& table = head_->embeddings.empty() ? head_->lm_head : head_->embeddings;
    const Matrix token{rows_.token.size(n * h), n, h, h};
    for (int64_t j = 0; j < n; ++j) {
      std::copy_n(table.data() + int64_t{sample.input_ids[static_cast<size_t>(j + 1)]} * h, h, token.data + j * h);
    }
    kernels::rms_norm(token, token, ones_.data(), shape_.rms_norm_eps, inverse);
    unit(rows_.here, sample.last.data(), n);
    unit(rows_.next, sample.last.data() + h, n);
  }

  void unit(Floats& into, const float* last, int64_t n) {
    const int64_t h = shape_.hidden_size;
    const Matrix rows{into.size(n * h), n, h, h};
    std::copy_n(last, n * h, rows.data);
    for (int64_t i = 0; !options_.last_is_prenorm && i < n * h; ++i) {
      const float weight = head_->norm[static_cast<size_t>(i % h)];
      rows.data[i] = std::abs(weight) > 1e-6f ? rows.data[i] / weight : 0;
    }
    kernels::rms_norm(rows, rows, ones_.data(), shape_.rms_norm_eps, rows_.inverse.data());
  }

  // weights [inputs, outputs] of the least squares with each input column scaled to unit mean square.
  static bool solve(Floats& weights, Floats& gram, Floats& moment, int64_t inputs, int64_t outputs, int64_t rows) {
    std::vector<float> scale(static_cast<size_t>(inputs));
    for (int64_t i = 0; i < inputs; ++i) {
      const float mean = gram.data()[i * inputs + i] / static_cast<float>(rows);
      scale[static_cast<size_t>(i)] = mean > 0 ? 1.0f / std::sqrt(mean) : 1.0f;
    }
    for (int64_t i = 0; i < inputs; ++i) {
      const float own = scale[static_cast<size_t>(i)];
      for (int64_t j = 0; j < inputs; ++j) gram.data()[i * inputs + j] *= own * scale[static_cast<size_t>(j)];
      for (int64_t j = 0; j < outputs; ++j) moment.data()[i * outputs + j] *= own;
    }
    const Matrix x{weights.size(inputs * outputs), inputs, outputs, outputs};
    if (!dense::solve_ridge(x, {gram.data(), inputs, inputs, inputs}, kRidge * static_cast<double>(rows),
                            {moment.data(), inputs, outputs, outputs})) {
      return false;
    }
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t j = 0; j < outputs; ++j) x.data[i * outputs + j] *= scale[static_cast<size_t>(i)];
    }
    return true;
  }

  Result<bool> fit_state() {
    const int64_t h = shape_.hidden_size, inputs = 3 * h;
    Floats gram, moment;
    const Matrix g{gram.zeroed(inputs * inputs), inputs, inputs, inputs}, m{moment.zeroed(inputs * h), inputs, h, h};
    int64_t count = 0;
    TRY(const bool read, for_each_sample([&](const Rows& r) {
          const Matrix features{r.features.data(), r.count, inputs, inputs};
          dense::multiply_tn(g, features, features, Into::kAdd);
          dense::multiply_tn(m, features, {r.here.data(), r.count, h, h}, Into::kAdd);
          count += r.count;
        }));
    return read && solve(state_map_, gram, moment, inputs, h, count);
  }

  // The step's map, and the directions of its output that carry most of it.
  Result<bool> fit_step() {
    const int64_t h = shape_.hidden_size, inputs = 2 * h;
    Floats gram, moment, input, residual, inverse;
    const Matrix g{gram.zeroed(inputs * inputs), inputs, inputs, inputs}, m{moment.zeroed(inputs * h), inputs, h, h};
    int64_t count = 0;
    TRY(const bool read, for_each_sample([&](const Rows& r) {
          const int64_t n = r.count;
          const Matrix in{input.size(n * inputs), n, inputs, inputs}, state{residual.size(n * h), n, h, h};
          dense::multiply_nn(state, {r.features.data(), n, 3 * h, 3 * h}, {state_map_.data(), 3 * h, h, h},
                             Into::kReplace);
          kernels::rms_norm({in.data + h, n, h, inputs}, state, ones_.data(), shape_.rms_norm_eps, inverse.size(n));
          for (int64_t j = 0; j < n; ++j) {
            std::copy_n(r.token.data() + j * h, h, in.data + j * inputs);
            const float* base = shape_.norm_before_residual ? in.data + j * inputs + h : state.data + j * h;
            for (int64_t i = 0; i < h; ++i) state.data[j * h + i] = r.next.data()[j * h + i] - base[i];
          }
          dense::multiply_tn(g, in, in, Into::kAdd);
          dense::multiply_tn(m, in, state, Into::kAdd);
          count += n;
        }));
    if (!read) return false;
    std::vector<float> kept(gram.data(), gram.data() + inputs * inputs);  // solve() scales it
    if (!solve(step_map_, gram, moment, inputs, h, count)) return false;
    // Second moment of the map's outputs: map^T gram map.
    Floats half, output;
    const Matrix t{half.size(inputs * h), inputs, h, h}, o{output.size(h * h), h, h, h};
    const dense::ConstMatrix map{step_map_.data(), inputs, h, h};
    dense::multiply_nn(t, {kept.data(), inputs, inputs, inputs}, map, Into::kReplace);
    dense::multiply_tn(o, map, t, Into::kReplace);
    rank_ = std::min<int64_t>(h, int64_t{shape_.kv_head_count} * shape_.head_size);
    return dense::top_eigenvectors({directions_.size(h * rank_), h, rank_, rank_}, o);
  }

  std::vector<float> noise(Random& random, int64_t count, double deviation) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(random.normal() * deviation);
    return values;
  }

  void replace(const std::string& name, const std::vector<float>& values) {
    for (Tensor& t : draft_.tensors) {
      if (t.name == name) t = tensor_f32(name, t.shape, values);
    }
  }

  void write() {
    const int64_t h = shape_.hidden_size, hd = shape_.head_size, group = shape_.head_count / shape_.kv_head_count;
    const int64_t kv = shape_.kv_head_count * hd, q = shape_.head_count * hd;
    Random random(static_cast<uint64_t>(config_.seed), kNoiseStream);
    std::vector<float> fc(static_cast<size_t>(h * 3 * h));
    for (int64_t i = 0; i < 3 * h; ++i) {
      for (int64_t o = 0; o < h; ++o) fc[static_cast<size_t>(o * 3 * h + i)] = state_map_.data()[i * h + o];
    }
    Floats carried;  // [2 H, rank] what each value reads
    const Matrix c{carried.size(2 * h * rank_), 2 * h, rank_, rank_};
    dense::multiply_nn(c, {step_map_.data(), 2 * h, h, h}, {directions_.data(), h, rank_, rank_}, Into::kReplace);
    std::vector<float> v_proj = noise(random, kv * 2 * h, kNoise), o_proj = noise(random, h * q, kNoise);
    for (int64_t d = 0; d < rank_; ++d) {
      for (int64_t i = 0; i < 2 * h; ++i) v_proj[static_cast<size_t>(d * 2 * h + i)] += c.data[i * rank_ + d];
    }
    // Every query head of a group brings the group's values; each gets its share.
    for (int64_t head = 0; head < shape_.head_count; ++head) {
      for (int64_t e = 0; e < hd; ++e) {
        const int64_t d = head / group * hd + e;
        for (int64_t o = 0; d < rank_ && o < h; ++o) {
          o_proj[static_cast<size_t>(o * q + head * hd + e)] +=
              directions_.data()[o * rank_ + d] / static_cast<float>(group);
        }
      }
    }
    const double own = std::sqrt(kOwnScore / (2.0 * static_cast<double>(h) * std::sqrt(static_cast<double>(hd))));
    const std::vector<float> k_proj = noise(random, kv * 2 * h, own);
    std::vector<float> q_proj = noise(random, q * 2 * h, own / 4);
    for (int64_t row = 0; row < q; ++row) {
      const int64_t key = row / hd / group * hd + row % hd;
      for (int64_t i = 0; i < 2 * h; ++i)
        q_proj[static_cast<size_t>(row * 2 * h + i)] += k_proj[static_cast<size_t>(key * 2 * h + i)];
    }
    replace("fc.weight", fc);
    replace("midlayer.self_attn.q_proj.weight", q_proj);
    replace("midlayer.self_attn.k_proj.weight", k_proj);
    replace("midlayer.self_attn.v_proj.weight", v_proj);
    replace("midlayer.self_attn.o_proj.weight", o_proj);
  }

  // Tries scales of the last norm on the held-out samples, from sure to unsure, until the loss rises.
  Status scale_norm(FitReport& report) {
    if (held_out_.empty()) return ok_status();
    std::vector<Sample> samples;
    for (const size_t index : held_out_) {
      TRY(Sample sample, read_cut(store_, index, config_.max_length));
      samples.push_back(std::move(sample));
    }
    const std::vector<float> norm = head_->norm;
    for (const double scale : {1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2}) {
      std::vector<float> scaled = norm;
      for (float& w : scaled) w *= static_cast<float>(scale);
      Checkpoint tried = draft_;
      for (Tensor& t : tried.tensors) {
        if (t.name == "norm.weight") t = tensor_f32(t.name, t.shape, scaled);
      }
      TRY(const auto model, TttModel::create(tried, head_, options_));
      auto outputs = model->run(sequences_of(samples), {.accuracy = true});
      if (!outputs) return std::move(outputs).error().under("fitting the draft's start");
      if (outputs->loss_rows.front() == 0) break;  // no supervised slot: nothing to tell a scale by
      if (report.loss && outputs->loss >= *report.loss) break;
      report.loss = outputs->loss;
      report.acceptance = acceptance_estimate(*outputs);
      report.norm_scale = scale;
      draft_ = std::move(tried);
    }
    return ok_status();
  }

  Checkpoint& draft_;
  const DraftShape shape_;
  const StoreReader& store_;
  std::shared_ptr<const StoredHead> head_;
  const TttOptions& options_;
  const TrainConfig& config_;
  std::stop_token stop_;
  std::vector<float> ones_;
  std::vector<size_t> fitted_on_, held_out_;
  Rows rows_;
  Floats state_map_, step_map_, directions_;
  int64_t rank_ = 0;
};

}  // namespace

Result<std::vector<float>> feature_rms(Checkpoint& draft, const StoreReader& store, const std::vector<size_t>& chosen,
                                       std::shared_ptr<const StoredHead> head, const TttOptions& options,
                                       const TrainConfig& config, std::stop_token stop) {
  return Fitter(draft, store, std::move(head), options, config, std::move(stop)).feature_rms(chosen);
}

Result<FitReport> fit_draft(Checkpoint& draft, const StoreReader& store, const std::vector<size_t>& chosen,
                            std::shared_ptr<const StoredHead> head, const TttOptions& options,
                            const TrainConfig& config, std::stop_token stop) {
  return Fitter(draft, store, std::move(head), options, config, std::move(stop)).fit(chosen);
}

}  // namespace aerie
