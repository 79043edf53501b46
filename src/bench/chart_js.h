// Chart.js, as found at build time (Debian's libjs-chart.js, MIT licence; its licence line is the text's first comment).
//
// Lives as long as the program; any thread. Empty when the build did not find it.
#pragma once

#include <string_view>

namespace aerie {

std::string_view chart_js();

}  // namespace aerie
