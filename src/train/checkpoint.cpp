#include <charconv>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "tensor/safetensors.h"
#include "train/draft_shape.h"

namespace aerie {
namespace {

constexpr std::string_view kFormat = "aerie-draft-1";

// Every field of shape and checkpoint by name, once for writing and once for reading.
template <class Visitor>
void shape_fields(DraftShape& s, Visitor& v) {
  v("hidden_size", s.hidden_size);
  v("target_hidden_size", s.target_hidden_size);
  v("intermediate_size", s.intermediate_size);
  v("head_count", s.head_count);
  v("kv_head_count", s.kv_head_count);
  v("head_size", s.head_size);
  v("vocab_size", s.vocab_size);
  v("draft_vocab_size", s.draft_vocab_size);
  v("context_length", s.context_length);
  v("rms_norm_eps", s.rms_norm_eps);
  v("rope_theta", s.rope_theta);
  v("norm_before_residual", s.norm_before_residual);
  v("norm_before_fc", s.norm_before_fc);
  v("fc_norm", s.fc_norm);
  v("norm_output", s.norm_output);
  v("normed_logits", s.normed_logits);
}
template <class Visitor>
void checkpoint_fields(Checkpoint& c, Visitor& v) {
  shape_fields(c.shape, v);
  v("boundaries", c.boundaries);
  v("target_layer_count", c.target_layer_count);
  v("target_fingerprint", c.target_fingerprint);
  v("target_name", c.target_name);
  v("ttt_steps", c.ttt_steps);
  v("step", c.step);
}

struct Writer {
  Metadata& metadata;
  void operator()(const char* name, const std::string& value) { metadata[name] = value; }
  void operator()(const char* name, bool value) { metadata[name] = value ? "true" : "false"; }
  void operator()(const char* name, int value) { metadata[name] = std::to_string(value); }
  void operator()(const char* name, int64_t value) { metadata[name] = std::to_string(value); }
  void operator()(const char* name, double value) { metadata[name] = fmt::format("{}", value); }
  void operator()(const char* name, const std::vector<int>& value) {
    metadata[name] = fmt::format("{}", fmt::join(value, ","));
  }
};

struct Reader {
  const Metadata& metadata;
  std::string problem;  // the first one

  const std::string* text(const char* name) {
    const auto found = metadata.find(name);
    if (found != metadata.end()) return &found->second;
    if (problem.empty()) problem = fmt::format("its metadata has no \"{}\"", name);
    return nullptr;
  }
  template <class Number>
  void number(const char* name, std::string_view text_value, Number& value) {
    const auto [end, error] = std::from_chars(text_value.data(), text_value.data() + text_value.size(), value);
    if ((error != std::errc() || end != text_value.data() + text_value.size()) && problem.empty()) {
      problem = fmt::format("\"{}\" in its metadata is \"{}\", which is no number", name, text_value);
    }
  }
  void operator()(const char* name, std::string& value) {
    if (const std::string* t = text(name)) value = *t;
  }
  void operator()(const char* name, bool& value) {
    const std::string* t = text(name);
    if (t == nullptr) return;
    value = *t == "true";
    if (!value && *t != "false" && problem.empty()) {
      problem = fmt::format("\"{}\" in its metadata is \"{}\", neither true nor false", name, *t);
    }
  }
  void operator()(const char* name, std::vector<int>& value) {
    const std::string* t = text(name);
    if (t == nullptr || t->empty()) return;
    for (const std::string_view part : split(*t, ',')) number(name, part, value.emplace_back());
  }
  template <class Number>
  void operator()(const char* name, Number& value) {
    if (const std::string* t = text(name)) number(name, *t, value);
  }
};

// Set of names, shapes, dtypes; finite weights; a d2t that maps into the vocabulary and to no token twice.
Status check_tensors(const Checkpoint& c) {
  CHECKED(check_shape(c.shape));
  const auto expected = expected_tensors(c.shape);
  for (const auto& [name, shape] : expected) {
    const Tensor* t = c.find(name);
    if (t == nullptr) return corrupt(fmt::format("tensor {} is missing", name));
    if (t->shape != shape) {
      return corrupt(fmt::format("tensor {} has shape {}, but the draft's shape wants {}", name, shape_text(t->shape),
                                 shape_text(shape)));
    }
    const DType wanted = name == "d2t" ? DType::kI64 : DType::kF32;
    if (t->dtype != wanted) {
      return corrupt(fmt::format("tensor {} is {}, not {}", name, name_of(t->dtype), name_of(wanted)));
    }
  }
  for (const Tensor& t : c.tensors) {
    bool known = false;
    for (const auto& [name, shape] : expected) known = known || name == t.name;
    if (!known) return corrupt(fmt::format("tensor {} does not belong to a draft of this shape", t.name));
    if (t.dtype != DType::kF32) continue;
    TRY(const std::vector<float> values, to_floats(t.view()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i]))
        return corrupt(fmt::format("tensor {} has a value that is not finite at index {}", t.name, i));
    }
  }
  TRY(const std::vector<int64_t> offsets, to_int64(c.find("d2t")->view()));
  std::vector<bool> taken(static_cast<size_t>(c.shape.vocab_size), false);
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto id = static_cast<int64_t>(static_cast<uint64_t>(offsets[i]) + i);  // any bytes: wraps, does not overflow
    if (id < 0 || id >= c.shape.vocab_size || taken[static_cast<size_t>(id)]) {
      return corrupt(fmt::format("d2t maps draft id {} to target id {}, which is out of range or mapped twice", i, id));
    }
    taken[static_cast<size_t>(id)] = true;
  }
  return ok_status();
}

}  // namespace

const Tensor* Checkpoint::find(std::string_view name) const {
  for (const Tensor& t : tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

Status check_shape(const DraftShape& s) {
  constexpr int kMost = 1 << 28;
  for (const auto& [name, size] : {std::pair{"hidden size", s.hidden_size},
                                   {"target's hidden size", s.target_hidden_size},
                                   {"intermediate size", s.intermediate_size},
                                   {"number of heads", s.head_count},
                                   {"number of key-value heads", s.kv_head_count},
                                   {"head size", s.head_size},
                                   {"vocabulary", s.vocab_size},
                                   {"draft vocabulary", s.draft_vocab_size}})
    if (size < 1 || size > kMost) return corrupt(fmt::format("the {} is {}, which no draft can have", name, size));
  if (s.head_count % s.kv_head_count != 0)
    return corrupt(fmt::format("{} heads cannot share {} key-value heads", s.head_count, s.kv_head_count));
  return ok_status();
}

std::vector<std::pair<std::string, Shape>> expected_tensors(const DraftShape& s) {
  const int64_t h = s.hidden_size, ht = s.target_hidden_size, i = s.intermediate_size, vd = s.draft_vocab_size;
  const int64_t q = int64_t{s.head_count} * s.head_size, kv = int64_t{s.kv_head_count} * s.head_size;
  std::vector<std::pair<std::string, Shape>> all = {
      {"fc.weight", {h, 3 * ht}},
      {"midlayer.self_attn.q_proj.weight", {q, 2 * h}},
      {"midlayer.self_attn.k_proj.weight", {kv, 2 * h}},
      {"midlayer.self_attn.v_proj.weight", {kv, 2 * h}},
      {"midlayer.self_attn.o_proj.weight", {h, q}},
      {"midlayer.mlp.gate_proj.weight", {i, h}},
      {"midlayer.mlp.up_proj.weight", {i, h}},
      {"midlayer.mlp.down_proj.weight", {h, i}},
      {"midlayer.input_layernorm.weight", {h}},
      {"midlayer.hidden_norm.weight", {h}},
      {"midlayer.post_attention_layernorm.weight", {h}},
      {"norm.weight", {h}},
      {"lm_head.weight", {vd, h}},
      {"d2t", {vd}},
  };
  if (s.norm_before_fc) all.push_back({"input_norm.weight", {3 * ht}});
  for (int n = 0; s.fc_norm && n < 3; ++n) all.push_back({fmt::format("fc_norm.{}.weight", n), {ht}});
  return all;
}

Status write_checkpoint(FileSystem& fs, const std::string& path, const Checkpoint& checkpoint) {
  if (auto checked = check_tensors(checkpoint); !checked) {
    return internal(fmt::format("cannot write the checkpoint {}: {}", path, checked.error().what));
  }
  Metadata metadata{{"format", std::string(kFormat)}};
  Writer writer{metadata};
  Checkpoint copy;  // without the tensors: the field list takes references that may be written
  copy.shape = checkpoint.shape;
  copy.boundaries = checkpoint.boundaries;
  copy.target_layer_count = checkpoint.target_layer_count;
  copy.target_fingerprint = checkpoint.target_fingerprint;
  copy.target_name = checkpoint.target_name;
  copy.ttt_steps = checkpoint.ttt_steps;
  copy.step = checkpoint.step;
  checkpoint_fields(copy, writer);
  std::vector<TensorView> views;
  for (const Tensor& t : checkpoint.tensors) views.push_back(t.view());
  return write_safetensors(fs, path, views, metadata);
}

Result<Checkpoint> read_checkpoint(const std::string& path) {
  TRY(const SafetensorsFile file, SafetensorsFile::open(path));
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != kFormat) {
    return invalid(fmt::format("{} is no Aerie draft checkpoint (metadata \"format\" is not \"{}\")", path, kFormat));
  }
  Checkpoint c;
  Reader reader{file.metadata(), ""};
  checkpoint_fields(c, reader);
  if (!reader.problem.empty()) return corrupt(fmt::format("cannot read the checkpoint {}: {}", path, reader.problem));
  for (const TensorView& t : file.tensors()) {
    c.tensors.push_back({t.name, t.dtype, t.shape, {t.bytes.begin(), t.bytes.end()}});
  }
  if (auto checked = check_tensors(c); !checked)
    return std::move(checked).error().under("cannot use the checkpoint " + path);
  return c;
}

}  // namespace aerie
