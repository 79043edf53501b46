// results.json: every member is named once, in members(), which serves writing and reading.
#include <nlohmann/json.hpp>

#include <cmath>
#include <type_traits>

#include "base/file.h"
#include "bench/bench.h"

namespace aerie {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormat = 1;

template <class V>
void members(V& v, BenchSubject& x) {
  v("label", x.label), v("target", x.target), v("draft", x.draft), v("target_fingerprint", x.target_fingerprint);
  v("note", x.note);
}

template <class V>
void members(V& v, Spread& x) {
  v("low", x.low), v("q1", x.q1), v("median", x.median), v("q3", x.q3), v("high", x.high), v("count", x.count);
}

template <class V>
void members(V& v, WayResult& x) {
  v("draft_length", x.draft_length), v("answers", x.answers), v("tokens", x.tokens), v("rounds", x.rounds);
  v("drafted", x.drafted), v("accepted", x.accepted), v("prefill_s", x.prefill_s), v("draft_s", x.draft_s);
  v("verify_s", x.verify_s), v("choose_s", x.choose_s), v("decode_s", x.decode_s), v("tokens_per_s", x.tokens_per_s);
  v("acceptance_length", x.acceptance_length), v("acceptance", x.acceptance);
  v("acceptance_given_before", x.acceptance_given_before), v("speedup", x.speedup), v("speedup_total", x.speedup_total);
  v("speedup_whole", x.speedup_whole), v("draft_step_cost", x.draft_step_cost), v("verify_cost", x.verify_cost);
  v("round_cost", x.round_cost), v("equal", x.equal), v("ties", x.ties), v("unexplained", x.unexplained);
}

template <class V>
void members(V& v, Difference& x) {
  v("prompt_id", x.prompt_id), v("draft_length", x.draft_length), v("position", x.position);
  v("plain_token", x.plain_token), v("speculative_token", x.speculative_token), v("gap", x.gap), v("tie", x.tie);
  v("sentence", x.sentence);
}

template <class V>
void members(V& v, AnswerTimes& x) {
  v("draft_length", x.draft_length), v("tokens", x.tokens), v("rounds", x.rounds), v("prefill_s", x.prefill_s);
  v("decode_s", x.decode_s);
}

template <class V>
void members(V& v, PromptResult& x) {
  v("id", x.id), v("prompt_tokens", x.prompt_tokens), v("ways", x.ways);
}

template <class V>
void members(V& v, AnswerPiece& x) {
  v("text", x.text), v("drafted", x.drafted);
}

template <class V>
void members(V& v, SampleAnswer& x) {
  v("prompt_id", x.prompt_id), v("prompt", x.prompt), v("plain_text", x.plain_text), v("draft_length", x.draft_length);
  v("pieces", x.pieces), v("equal", x.equal), v("tokens", x.tokens), v("rounds", x.rounds), v("speedup", x.speedup);
}

template <class V>
void members(V& v, BenchResult& x) {
  v("subject", x.subject), v("description", x.description), v("weight_type", x.weight_type), v("made_at", x.made_at);
  v("verdict", x.verdict), v("cost_sentence", x.cost_sentence), v("failed", x.failed);
  v("best_draft_length", x.best_draft_length), v("prompts_asked", x.prompts_asked), v("max_tokens", x.max_tokens);
  v("temperature", x.temperature), v("threads", x.threads), v("plain_step_s", x.plain_step_s), v("tie_gap", x.tie_gap);
  v("noise", x.noise), v("ways", x.ways), v("differences", x.differences), v("prompts", x.prompts),
      v("samples", x.samples);
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
constexpr bool kPlain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;

struct Writer {
  Json json = Json::object();

  template <class T>
  static Json value(T& x) {
    if constexpr (kPlain<T>) {
      return x;
    } else if constexpr (IsOptional<T>::value) {
      return x ? value(*x) : Json();
    } else if constexpr (IsVector<T>::value) {
      Json array = Json::array();
      for (auto& one : x) array.push_back(value(one));
      return array;
    } else {
      Writer inner;
      members(inner, x);
      return std::move(inner.json);
    }
  }
  template <class T>
  void operator()(const char* name, T& x) {
    json[name] = value(x);
  }
};

// Throws nlohmann's exceptions; parse_results() is the door where they end.
struct Reader {
  const Json& json;

  template <class T>
  static void value(const Json& from, T& x) {
    if constexpr (kPlain<T>) {
      x = from.get<T>();
    } else if constexpr (IsOptional<T>::value) {
      if (from.is_null()) return;
      value(from, x.emplace());
    } else if constexpr (IsVector<T>::value) {
      if (!from.is_array()) throw std::runtime_error("an array was expected");
      for (const Json& one : from) value(one, x.emplace_back());
    } else {
      Reader inner{from};
      members(inner, x);
    }
  }
  template <class T>
  void operator()(const char* name, T& x) {
    try {
      value(json.at(name), x);
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(name) + ": " + error.what());
    }
  }
};

}  // namespace

std::string results_json(const BenchResult& result) {
  Writer writer;
  writer.json["format"] = kFormat;
  BenchResult copy = result;  // members() serves reading too and so takes no const
  members(writer, copy);
  return writer.json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<BenchResult> parse_results(std::string_view json, const std::string& where) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) return corrupt(where + ": not a JSON object; the bench that writes it must run again");
  const auto format = parsed.find("format");
  if (format == parsed.end() || !format->is_number_integer() || format->get<int>() != kFormat) {
    return invalid(where + ": results of another version of aerie (no \"format\": 1); run the bench again");
  }
  BenchResult result;
  try {
    Reader reader{parsed};
    members(reader, result);
  } catch (const std::exception& error) {
    return corrupt(where + ": " + error.what());
  }
  return result;
}

Result<BenchResult> read_results(FileSystem& fs, const std::string& path) {
  TRY(const std::string text, read_file(fs, path, 256u << 20));
  return parse_results(text, path);
}

}  // namespace aerie
