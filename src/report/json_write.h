// Private to the .cc files of this room: JSON values from our fields, and the layout of our files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/finding.h"

namespace stepscope {

using OrderedJson = nlohmann::ordered_json;

// Six decimals at most; NaN, infinities and nullopt become null.
OrderedJson json_number(std::optional<double> value);
// The same; a whole number where the name says bytes or count.
OrderedJson json_named_number(std::string_view name, std::optional<double> value);
OrderedJson json_int(std::optional<int> value);
// "" stands for unknown and becomes null.
OrderedJson json_text_or_null(const std::string& text);
OrderedJson json_ns_as_ms(int64_t ns);

OrderedJson json_finding(const Finding& finding);

// Indented by two; flat objects below the second level and arrays of plain values stay on one line. Ends with \n.
std::string json_layout(const OrderedJson& value);
std::string json_one_line(const OrderedJson& value);

}  // namespace stepscope
