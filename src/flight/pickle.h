// Pickles that hold plain data only: dict, list, tuple, text, numbers, booleans, None. A pickle is a program; this
// machine knows the instructions that build plain data and refuses every other by name, those that load or call classes
// first of all. Nothing in the input is ever looked up, imported or called.
//
// Private to this room (the value is a JSON value: dict → object with text keys, list and tuple → array). Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace stepscope::flight {

struct PlainLimits {
  size_t depth = 32;
  size_t values = 8u << 20;  // of the result; a value that is referred to twice counts twice
};

bool looks_like_pickle(std::string_view bytes);

// Failure: what is wrong and at which byte, without the file's name: "the pickle loads a class (GLOBAL at byte 12), …".
Result<nlohmann::json> parse_pickle(std::string_view bytes, const PlainLimits& limits = {});

}  // namespace stepscope::flight
