#include "train/initial_draft.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/random.h"

namespace aerie {
namespace {

using Json = nlohmann::json;

constexpr double kDeviation = 0.02;
constexpr double kSmall = 0.002;               // of what is added to the residual stream
constexpr uint64_t kWeightStream = 1'000'003;  // apart from the epochs' streams

template <class Number>
Status take(const Json& facts, const char* name, Number& value) {
  const auto at = facts.find(name);
  if (at == facts.end() || !at->is_number() || at->template get<double>() <= 0) {
    return invalid(
        fmt::format("the store's header says nothing usable about the target's {}; extract it again with this "
                    "version",
                    name));
  }
  value = at->template get<Number>();
  return ok_status();
}

std::vector<float> normals(Random& random, size_t count, double deviation) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal() * deviation);
  return values;
}

std::vector<float> rows_of(const StoredHead& head, const std::vector<int32_t>& targets, int hidden) {
  std::vector<float> rows;
  rows.reserve(targets.size() * static_cast<size_t>(hidden));
  for (const int32_t id : targets) {
    const auto from = head.lm_head.begin() + int64_t{id} * hidden;
    rows.insert(rows.end(), from, from + hidden);
  }
  return rows;
}

}  // namespace

Result<DraftShape> draft_shape_of(const StoreHeader& header, const TrainConfig& config, int draft_vocab_size) {
  const Json facts = Json::parse(header.facts_json, nullptr, false);
  if (!facts.is_object())
    return invalid("the store's header has no facts about the target; extract it again with this version");
  if (header.boundaries.size() != 3) {
    return invalid(fmt::format("the store has {} boundaries; an EAGLE-3 draft reads 3", header.boundaries.size()));
  }
  DraftShape s;
  s.hidden_size = s.target_hidden_size = header.hidden_size;
  s.vocab_size = header.vocab_size;
  s.draft_vocab_size = draft_vocab_size;
  CHECKED(take(facts, "intermediate_size", s.intermediate_size));
  if (config.intermediate_size > 0) s.intermediate_size = config.intermediate_size;
  CHECKED(take(facts, "head_count", s.head_count));
  CHECKED(take(facts, "kv_head_count", s.kv_head_count));
  CHECKED(take(facts, "head_size", s.head_size));
  CHECKED(take(facts, "context_length", s.context_length));
  CHECKED(take(facts, "rms_norm_eps", s.rms_norm_eps));
  CHECKED(take(facts, "rope_theta", s.rope_theta));
  s.norm_before_residual = config.norm_before_residual;
  s.norm_before_fc = config.norm_before_fc;
  return s;
}

Checkpoint initial_draft(const DraftShape& shape, const StoreHeader& header, const StoredHead& head,
                         const DraftVocabulary& vocabulary, const TrainConfig& config) {
  Checkpoint c;
  c.shape = shape;
  c.boundaries = header.boundaries;
  c.target_layer_count = header.layer_count;
  c.target_fingerprint = header.target_fingerprint;
  c.target_name = header.target_name;
  c.ttt_steps = config.ttt_steps;
  const bool targets = config.init != "random";
  Random random(static_cast<uint64_t>(config.seed), kWeightStream);
  for (const auto& [name, dimensions] : expected_tensors(shape)) {
    size_t count = 1;
    for (const int64_t d : dimensions) count *= static_cast<size_t>(d);
    if (name == "d2t") {
      c.tensors.push_back(tensor_i64(name, dimensions, vocabulary.d2t()));
      continue;
    }
    std::vector<float> values;
    if (name == "norm.weight" && targets) {
      values = head.norm;
    } else if (dimensions.size() == 1) {
      values.assign(count, 1.0f);
    } else if (name == "lm_head.weight" && targets) {
      values = rows_of(head, vocabulary.targets, shape.hidden_size);
    } else {
      const bool adds = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
      values = normals(random, count, adds ? kSmall : kDeviation);
    }
    c.tensors.push_back(tensor_f32(name, dimensions, values));
  }
  return c;
}

}  // namespace aerie
