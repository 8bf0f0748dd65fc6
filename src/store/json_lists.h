// Lists as JSON text in columns of the run file, readable by SQLite's json functions. Reading trusts nothing: what is
// not a list of the right kind is empty.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepscope::store {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

std::string json_list(const std::vector<int>& values);
std::string json_list(const std::vector<std::string>& values);
std::string json_object(const TextPairs& values);

std::vector<int> int_list(std::string_view json);
std::vector<std::string> text_list(std::string_view json);
TextPairs text_pairs(std::string_view json);

// Valid UTF-8 without control characters, at most `max_bytes`.
std::string one_line(std::string_view text, size_t max_bytes = 4096);

}  // namespace stepscope::store
