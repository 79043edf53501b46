// The report's sections about measurements, and the data of its charts. Private to bench.
#pragma once

#include <string>

#include "bench/report.h"

namespace aerie {

std::string cards_section(const std::vector<BenchResult>& benches);       // the figures at the top
std::string speed_section(const std::vector<BenchResult>& benches);       // chart and a table a target
std::string cost_section(const std::vector<BenchResult>& benches);        // why it pays or not
std::string acceptance_section(const std::vector<BenchResult>& benches);  // by position
std::string equality_section(const std::vector<BenchResult>& benches);    // are the answers the same
std::string samples_section(const std::vector<BenchResult>& benches);     // answers with the guesses marked
std::string training_section(const TrainingCurve& curve);

// JSON for page/report.js: "benches", "loss", "accuracy". Long curves are averaged down to a few hundred points.
std::string chart_data(const ReportData& data);

}  // namespace aerie
