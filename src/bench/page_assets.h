// The files that the build puts into the program for the report page: its style, its script, and Chart.js as found on
// the build machine (Debian's libjs-chart.js, MIT licence; its licence line is the text's first comment).
//
// They live as long as the program; any thread. chart_js() is empty when the build did not find it.
#pragma once

#include <string_view>

namespace aerie {

std::string_view page_style();
std::string_view page_script();
std::string_view chart_js();

}  // namespace aerie
