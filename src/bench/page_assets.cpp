#include "bench/page_assets.h"

// .incbin takes a file as it is: 200 kB as a C array would cost seconds to compile, and a string literal has a limit.
#define AERIE_EMBED(name, file)                 \
  asm(".section .rodata.aerie_page, \"a\"\n"    \
      ".global aerie_" #name                    \
      "_begin\n"                                \
      ".global aerie_" #name                    \
      "_end\n"                                  \
      "aerie_" #name                            \
      "_begin:\n"                               \
      ".incbin \"" file                         \
      "\"\n"                                    \
      "aerie_" #name                            \
      "_end:\n"                                 \
      ".byte 0\n"                               \
      ".previous\n");                           \
  extern "C" const char aerie_##name##_begin[]; \
  extern "C" const char aerie_##name##_end[]
#define AERIE_EMBEDDED(name) \
  std::string_view { aerie_##name##_begin, static_cast<size_t>(aerie_##name##_end - aerie_##name##_begin) }

AERIE_EMBED(page_style, AERIE_PAGE_STYLE_FILE);
AERIE_EMBED(page_script, AERIE_PAGE_SCRIPT_FILE);
#ifdef AERIE_CHART_JS_FILE
AERIE_EMBED(chart_js, AERIE_CHART_JS_FILE);
#endif

namespace aerie {

std::string_view page_style() { return AERIE_EMBEDDED(page_style); }
std::string_view page_script() { return AERIE_EMBEDDED(page_script); }

std::string_view chart_js() {
#ifdef AERIE_CHART_JS_FILE
  return AERIE_EMBEDDED(chart_js);
#else
  return {};
#endif
}

}  // namespace aerie
