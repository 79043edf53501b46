#include "bench/chart_js.h"

#ifdef AERIE_CHART_JS_FILE

// .incbin takes the file as it is: 200 kB as a C array would cost seconds to compile, and a string literal has a limit.
asm(".section .rodata.aerie_chart_js, \"a\"\n"
    ".global aerie_chart_js_begin\n"
    ".global aerie_chart_js_end\n"
    "aerie_chart_js_begin:\n"
    ".incbin \"" AERIE_CHART_JS_FILE "\"\n"
    "aerie_chart_js_end:\n"
    ".byte 0\n"
    ".previous\n");

extern "C" const char aerie_chart_js_begin[];
extern "C" const char aerie_chart_js_end[];

namespace aerie {

std::string_view chart_js() {
  return {aerie_chart_js_begin, static_cast<size_t>(aerie_chart_js_end - aerie_chart_js_begin)};
}

}  // namespace aerie

#else

namespace aerie {

std::string_view chart_js() { return {}; }

}  // namespace aerie

#endif
