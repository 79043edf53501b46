// Pieces of HTML for the report page. Pure functions; private to bench.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aerie {

// Text as it may stand in an element or a quoted attribute: & < > " ' escaped, control characters left out, bytes that
// are not UTF-8 as U+FFFD.
std::string html_text(std::string_view text);

// Text or JSON as it may stand inside a script element: "</script" and "<!--" cannot end or change it.
std::string script_data(std::string_view json);
std::string script_code(std::string_view code);

// A table under its title, in a frame that scrolls sideways on narrow screens. Cells are HTML already.
class HtmlTable {
 public:
  enum Kind { kNumber, kWord, kProse };  // right-aligned; left-aligned; left-aligned and may wrap
  struct Column {
    std::string title;
    Kind kind = kNumber;
  };
  HtmlTable(std::string caption, std::vector<Column> columns)
      : caption_(std::move(caption)), columns_(std::move(columns)) {}
  void row(const std::vector<std::string>& cells, std::string_view row_class = {});
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::string caption_;
  std::vector<Column> columns_;
  std::string rows_;
};

// A list of names and values, both plain text.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

// A place for a chart, with words for those who cannot see it. `caption` is HTML.
std::string html_chart(std::string_view id, std::string_view spoken, std::string_view caption, bool small = false);

}  // namespace aerie
