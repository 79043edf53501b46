#include "target/probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/text.h"

namespace aerie {
namespace {

// Varied enough that neighbouring rows differ in every model, short enough to cost nothing.
constexpr const char* kText =
    "The harbour was quiet at 6:45, so Mara counted the boats: 3 red, 12 blue. def area(w, h): return w * h  # metres\n"
    "Why do leaves turn brown in October?";
constexpr size_t kTokens = 40;
constexpr double kRowTolerance = 0.15;        // relative distance of the same row computed in passes of other lengths
constexpr double kEmbeddingTolerance = 0.02;  // relative, after the best scale
constexpr double kDifferent = 1e-4;           // relative distance below which two boundaries are taken for one
constexpr double kEqual = 1e-3;               // relative distance of rows that passes of one shape must give alike
constexpr double kSureGap = 0.5;              // logits: above it, roundings do not change the best token

using Row = std::span<const float>;

struct Probe {
  Target& target;
  std::vector<int> boundaries;
  std::vector<int> all;  // 0 to n
  std::vector<int32_t> ids;
  TargetHead head;
  Captured full;         // all boundaries over all ids
  ProbeReport report;

  size_t width() const { return static_cast<size_t>(target.facts().hidden_size); }
  Row row(const std::vector<float>& states, size_t j) const { return Row(states).subspan(j * width(), width()); }

  void check(const std::string& name, bool passed, std::string detail) { report.checks.push_back({name, passed, std::move(detail)}); }
};

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double norm_of(Row a) {
  double sum = 0;
  for (float x : a) sum += double{x} * x;
  return std::sqrt(sum);
}

double distance(Row a, Row b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum) / std::max(1e-20, std::max(norm_of(a), norm_of(b)));
}

// Distance of a from the nearest multiple of b: some models scale their embeddings.
double distance_up_to_scale(Row a, Row b) {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += double{a[i]} * b[i];
  const double norms = norm_of(a) * norm_of(b);
  if (norms <= 0) return 1;
  const double cosine = dot / norms;
  return std::sqrt(std::max(0.0, 1 - cosine * cosine));
}

bool shaped(const Captured& captured, size_t rows, size_t width, size_t boundaries) {
  if (captured.row_count != static_cast<int64_t>(rows) || captured.states.size() != boundaries) return false;
  if (captured.last.size() != rows * width) return false;
  return std::all_of(captured.states.begin(), captured.states.end(), [&](const auto& s) { return s.size() == rows * width; });
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// The same rows must come out of a pass over fewer tokens: odd and even lengths, so that no pairing of rows goes unseen, and
// steps of one at first, so that two rows that always change places are seen where only one of them is there.
Status check_order(Probe& p, std::stop_token stop) {
  double worst = 0;
  std::string where;
  for (size_t length : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{5}, size_t{8}, size_t{13}, p.ids.size() - 1}) {
    TRY(const Captured part, p.target.capture(std::span(p.ids).first(length), p.all, stop));
    if (!shaped(part, length, p.width(), p.all.size())) {
      p.check("shape", false, "a pass over " + std::to_string(length) + " tokens gave " + std::to_string(part.row_count) + " rows");
      return ok_status();
    }
    const auto compare = [&](const std::vector<float>& whole, const std::vector<float>& prefix, const std::string& name) {
      for (size_t j = 0; j < length; ++j) {
        const double d = distance(p.row(whole, j), p.row(prefix, j));
        if (!(d <= worst)) worst = d, where = name + ", row " + std::to_string(j) + " of " + std::to_string(length);
      }
    };
    for (size_t b = 0; b < p.all.size(); ++b) compare(p.full.states[b], part.states[b], "boundary " + std::to_string(p.all[b]));
    compare(p.full.last, part.last, "the final state");
  }
  p.check("row order", worst < kRowTolerance, "rows of shorter passes differ by at most " + text_of(worst) + (where.empty() ? "" : " (" + where + ")"));
  return ok_status();
}

// Boundary 0 is the embedding of each token, in order.
void check_embeddings(Probe& p) {
  double worst = 0;
  for (size_t j = 0; j < p.ids.size(); ++j) {
    const Row embedding = Row(p.head.embeddings).subspan(static_cast<size_t>(p.ids[j]) * p.width(), p.width());
    worst = std::max(worst, distance_up_to_scale(p.row(p.full.states[0], j), embedding));
  }
  p.check("boundary 0", worst < kEmbeddingTolerance, "what enters layer 0 differs from the tokens' embeddings by at most " + text_of(worst));
}

// Mean distance of two boundaries over all rows.
double apart(const Probe& p, size_t a, size_t b) {
  double mean = 0;
  for (size_t j = 0; j < p.ids.size(); ++j)
    mean += distance(p.row(p.full.states[a], j), p.row(p.full.states[b], j)) / static_cast<double>(p.ids.size());
  return mean;
}

// Every boundary is another one than its neighbour, in the order in which layers add to the stream, and the last one is
// the final state.
void check_boundaries(Probe& p) {
  const size_t n = p.all.size() - 1;
  double nearest = 1e9;
  size_t nearest_at = 0;
  for (size_t b = 0; b < n; ++b) {
    const double here = apart(p, b, b + 1);
    if (!(here >= nearest)) nearest = here, nearest_at = b;
  }
  p.check("boundaries differ", nearest > kDifferent,
          "the nearest neighbours are " + std::to_string(nearest_at) + " and " + std::to_string(nearest_at + 1) + ", " + text_of(nearest) + " apart");
  // Two neighbours that changed places: the farther one is nearer, seen from below and from above. The product of both sides
  // is at most 0.7 in a real model of 30 layers (and one side alone may pass 1, where a layer takes back what the one before
  // added); where two changed places it is the inverse.
  std::string swapped;
  double most = 0;
  for (size_t b = 1; b + 2 <= n; ++b) {
    const double product = apart(p, b - 1, b) / apart(p, b - 1, b + 1) * apart(p, b + 1, b + 2) / apart(p, b, b + 2);
    if (!(product <= most)) most = product, swapped = std::to_string(b) + " and " + std::to_string(b + 1);
  }
  p.check("order of boundaries", most < 1, "boundaries " + swapped + " come nearest to having changed places: " + text_of(most) + " of 1");
  double end = 0;
  for (size_t j = 0; j < p.ids.size(); ++j) end = std::max(end, distance(p.row(p.full.states[n], j), p.row(p.full.last, j)));
  p.check("last boundary", end < kEqual, "boundary " + std::to_string(n) + " differs from the final state by at most " + text_of(end));
}

// Asked for as extraction will ask, and one at a time, every boundary is the same as among all.
Status check_requests(Probe& p, std::stop_token stop) {
  std::vector<std::vector<int>> requests = {p.boundaries};
  for (int boundary : p.boundaries) requests.push_back({boundary});
  double worst = 0;
  std::string where = "none";
  for (const std::vector<int>& request : requests) {
    TRY(const Captured some, p.target.capture(p.ids, request, stop));
    if (!shaped(some, p.ids.size(), p.width(), request.size())) {
      p.check("shape", false, "a request for " + std::to_string(request.size()) + " boundaries gave another shape");
      return ok_status();
    }
    const auto compare = [&](const std::vector<float>& here, const std::vector<float>& among_all, const std::string& name) {
      for (size_t j = 0; j < p.ids.size(); ++j) {
        const double d = distance(p.row(here, j), p.row(among_all, j));
        if (!(d <= worst)) worst = d, where = name;
      }
    };
    for (size_t i = 0; i < request.size(); ++i)
      compare(some.states[i], p.full.states[static_cast<size_t>(request[i])], "boundary " + std::to_string(request[i]));
    compare(some.last, p.full.last, "the final state");
  }
  p.check("boundaries as asked", worst < kEqual, "asked together or alone, they differ from the same among all by at most " + text_of(worst) + " (" + where + ")");
  return ok_status();
}

// Rows that went through the final norm have mean square 1 once its weight is divided out; rows before it have not.
void check_prenorm(Probe& p) {
  double farthest = 0;
  for (size_t j = 0; j < p.ids.size(); ++j) {
    double sum = 0;
    size_t count = 0;
    const Row last = p.row(p.full.last, j);
    for (size_t i = 0; i < last.size(); ++i) {
      if (std::fabs(p.head.norm[i]) < 1e-4f) continue;
      const double x = double{last[i]} / p.head.norm[i];
      sum += x * x;
      ++count;
    }
    const double rms = count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
    farthest = std::max(farthest, std::fabs(rms - 1));
  }
  p.check("final state before the norm", farthest > 0.05,
          "divided by the norm's weight, rows have a root mean square up to " + text_of(farthest) + " away from the 1 of normed rows");
}

struct Best {
  int32_t id = 0;
  double gap = 0;  // to the second best
};

Best best_token(const Probe& p, Row last) {
  double square = 0;
  for (float x : last) square += double{x} * x;
  const double scale = 1 / std::sqrt(square / static_cast<double>(last.size()) + p.target.facts().rms_norm_eps);
  std::vector<float> normed(last.size());
  for (size_t i = 0; i < last.size(); ++i) normed[i] = static_cast<float>(last[i] * scale * p.head.norm[i]);
  double first = -1e300, second = -1e300;
  Best best;
  for (int32_t v = 0; v < p.target.facts().vocab_size; ++v) {
    const float* weights = p.head.lm_head.data() + static_cast<size_t>(v) * last.size();
    float logit = 0;
    for (size_t i = 0; i < normed.size(); ++i) logit += normed[i] * weights[i];
    if (logit > first)
      second = first, first = logit, best.id = v;
    else if (logit > second)
      second = logit;
  }
  best.gap = first - second;
  return best;
}

// What lm_head says of the captured final states must be what the target itself says next.
Status check_greedy(Probe& p, std::stop_token stop) {
  std::vector<GenerateRequest> requests;
  std::vector<size_t> lengths;
  for (size_t length = 2; length < p.ids.size(); length += 3) {
    GenerateRequest request;
    request.prompt_ids.assign(p.ids.begin(), p.ids.begin() + static_cast<std::ptrdiff_t>(length));
    request.max_tokens = 1;
    requests.push_back(std::move(request));
    lengths.push_back(length);
  }
  std::map<size_t, int32_t> said;
  const auto done = [&](size_t index, Result<Generated> generated) -> Status {
    TRY(const Generated answer, std::move(generated));
    if (!answer.ids.empty()) said[index] = answer.ids.front();
    return ok_status();
  };
  CHECKED(p.target.generate(requests, done, stop));
  size_t sure = 0, wrong = 0, equal = 0;
  for (const auto& [index, token] : said) {
    const Best best = best_token(p, p.row(p.full.last, lengths[index] - 1));
    equal += best.id == token;
    if (best.gap < kSureGap) continue;
    ++sure;
    wrong += best.id != token;
  }
  p.check("greedy token", wrong == 0 && sure * 3 >= requests.size() && equal * 4 >= requests.size() * 3,
          std::to_string(equal) + " of " + std::to_string(requests.size()) + " next tokens are the target's own, " + std::to_string(wrong) + " of the " +
              std::to_string(sure) + " clear ones differ");
  return ok_status();
}

std::vector<double> row_norms(const Probe& p) {
  std::vector<double> norms;
  for (int boundary : p.boundaries)
    for (size_t j : {size_t{1}, p.ids.size() / 2, p.ids.size() - 1}) norms.push_back(norm_of(p.row(p.full.states[static_cast<size_t>(boundary)], j)));
  return norms;
}

Status run_checks(Probe& p, std::stop_token stop) {
  TRY(p.full, p.target.capture(p.ids, p.all, stop));
  const bool right_shape = shaped(p.full, p.ids.size(), p.width(), p.all.size());
  p.check("shape", right_shape, std::to_string(p.full.row_count) + " rows for " + std::to_string(p.ids.size()) + " tokens, " +
                                    std::to_string(p.full.states.size()) + " boundaries for " + std::to_string(p.all.size()));
  if (!right_shape) return ok_status();
  const bool all_finite = finite(p.full.last) && std::all_of(p.full.states.begin(), p.full.states.end(), finite);
  p.check("finite", all_finite, all_finite ? "every value is a number" : "there are NaN or infinite values");
  if (!all_finite) return ok_status();
  check_embeddings(p);
  CHECKED(check_order(p, stop));
  check_boundaries(p);
  CHECKED(check_requests(p, stop));
  check_prenorm(p);
  CHECKED(check_greedy(p, stop));
  p.report.row_norms = row_norms(p);
  return ok_status();
}

}  // namespace

bool ProbeReport::passed() const {
  return !checks.empty() && std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.passed; });
}

std::string ProbeReport::json() const {
  std::vector<std::string> items;
  for (const Check& check : checks)
    items.push_back(JsonObject().add({"name", check.name}).add({"passed", check.passed}).add({"detail", check.detail}).text());
  const std::vector<int64_t> wide(boundaries.begin(), boundaries.end());
  return JsonObject().add_json("boundaries", json_array(wide)).add_json("row_norms", json_array(row_norms)).add_json("checks", "[" + join(items, ",") + "]").text();
}

Result<ProbeReport> probe(Target& target, std::span<const int> boundaries, std::stop_token stop) {
  const TargetFacts& facts = target.facts();
  Probe p{target, {boundaries.begin(), boundaries.end()}, {}, {}, {}, {}, {}};
  for (int b = 0; b <= facts.layer_count; ++b) p.all.push_back(b);
  for (int b : boundaries)
    if (b < 0 || b > facts.layer_count)
      return invalid("boundary " + std::to_string(b) + " is not one of 0 to " + std::to_string(facts.layer_count) + " of " + facts.name);
  p.report.boundaries = p.boundaries;
  TRY(p.ids, target.tokenize(kText, false));
  if (p.ids.size() > kTokens) p.ids.resize(kTokens);
  if (p.ids.size() < 14) return invalid("the tokenizer of " + facts.name + " made only " + std::to_string(p.ids.size()) + " tokens of the probe's text");
  TRY(p.head, target.head());
  CHECKED(run_checks(p, stop));
  for (const ProbeReport::Check& check : p.report.checks)
    if (!check.passed)
      return invalid("the hidden states of " + facts.name + " cannot be trusted: the check '" + check.name + "' failed: " + check.detail);
  return p.report;
}

}  // namespace aerie
