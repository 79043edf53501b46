// Small work on text that several rooms need. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aerie {

std::vector<std::string_view> split(std::string_view text, char at);
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view between);
bool valid_utf8(std::string_view text);
// The candidate with the smallest edit distance when that is at most a third of the name's length (2 at least);
// empty when nothing is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);
// "1.2 GB" (powers of ten).
std::string bytes_text(uint64_t size_bytes);

}  // namespace aerie
