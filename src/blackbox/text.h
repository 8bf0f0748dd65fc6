// Text from outside made fit for terminals, JSON and HTML alike.
#pragma once

#include <string>
#include <string_view>

namespace stepscope::blackbox {

// Valid UTF-8 on one line: control characters (C0, DEL, C1) and line separators become spaces, each byte that is not
// part of a valid sequence (overlong forms and surrogates included) becomes '?'. Never longer than the input.
std::string printable(std::string_view text);

}  // namespace stepscope::blackbox
