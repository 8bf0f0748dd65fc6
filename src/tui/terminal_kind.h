// What a terminal can show, by what the environment says of it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "report/ink.h"

namespace stepscope::tui {

using Variable = std::function<std::optional<std::string>(const char* name)>;

// Why there can be no view on it, "" = there can: TERM is not set, or it is one that cannot move the cursor.
std::string no_view_reason(const Variable& variable);

// NO_COLOR wins (https://no-color.org), then COLORTERM, then TERM. What is not known has 16 colours.
ColorDepth color_depth(const Variable& variable);

}  // namespace stepscope::tui
