#include "bench/html.h"

#include "base/text.h"

namespace aerie {
namespace {

size_t character_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >> 5 == 0x06) return 2;
  if (lead >> 4 == 0x0E) return 3;
  return 4;
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const size_t length = character_length(c);
    if (c >= 0x80) {
      const std::string_view character = text.substr(i, length);
      const bool whole = character.size() == length && valid_utf8(character);
      out += whole ? character : std::string_view("\xEF\xBF\xBD");
      i += whole ? length : 1;
      continue;
    }
    ++i;
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if (c >= 0x20 || c == '\n' || c == '\t') out += static_cast<char>(c);
    }
  }
  return out;
}

std::string script_data(std::string_view json) {
  std::string out(json);
  replace_all(out, "<", "\\u003c");  // only inside strings can it stand
  return out;
}

std::string script_code(std::string_view code) {
  std::string out(code);
  replace_all(out, "</script", "<\\/script");
  replace_all(out, "<!--", "<\\!--");
  return out;
}

void HtmlTable::row(const std::vector<std::string>& cells, std::string_view row_class) {
  rows_ += row_class.empty() ? "<tr>" : "<tr class=\"" + html_text(row_class) + "\">";
  for (size_t i = 0; i < cells.size(); ++i) {
    const Kind kind = i < columns_.size() ? columns_[i].kind : kNumber;
    rows_ += kind == kNumber ? "<td>" : kind == kWord ? "<td class=\"text\">" : "<td class=\"text wrap\">";
    rows_ += cells[i] + "</td>";
  }
  rows_ += "</tr>\n";
}

std::string HtmlTable::text() const {
  std::string out;
  // Not a caption element: that would scroll away with the table.
  if (!caption_.empty()) out += "<p class=\"table-title\">" + html_text(caption_) + "</p>\n";
  out += "<div class=\"scroll\"><table aria-label=\"" + html_text(caption_) + "\">\n<thead><tr>";
  for (const Column& column : columns_) {
    out += column.kind != kNumber ? "<th scope=\"col\" class=\"text\">" : "<th scope=\"col\">";
    out += html_text(column.title) + "</th>";
  }
  return out + "</tr></thead>\n<tbody>\n" + rows_ + "</tbody></table></div>\n";
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    out += "<dt>" + html_text(name) + "</dt><dd>" + html_text(value) + "</dd>\n";
  }
  return out + "</dl>\n";
}

std::string html_chart(std::string_view id, std::string_view spoken, std::string_view caption, bool small) {
  std::string out = "<figure><div class=\"plot";
  if (small) out += " small-plot";
  out +=
      "\"><canvas id=\"" + html_text(id) + "\" role=\"img\" aria-label=\"" + html_text(spoken) + "\"></canvas></div>";
  if (!caption.empty()) out += "<figcaption>" + std::string(caption) + "</figcaption>";
  return out + "</figure>\n";
}

}  // namespace aerie
