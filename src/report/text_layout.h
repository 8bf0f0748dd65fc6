// Laying out text for a terminal: display width of UTF-8, cutting, wrapping, padding. Pure; shared by the text summary,
// compare and the terminal view. Input may come from a training script (names, exceptions) and is not trusted:
// printable() must have been applied before anything of it is printed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

// `text` with control characters (escape sequences included) turned to spaces and invalid UTF-8 to U+FFFD, so that it
// can neither move the cursor nor break a line. Never longer than 3 bytes per input byte.
std::string printable(std::string_view text);

// Columns that printable UTF-8 takes on a terminal: wide East Asian and emoji count 2, combining marks 0.
size_t display_width(std::string_view text);

// The character at `pos` of printable text, and how many columns it takes; moves behind it.
struct Glyph {
  std::string_view bytes;
  size_t columns = 0;
};
Glyph next_glyph(std::string_view text, size_t& pos);

// At most `columns` columns of `text`; where something is cut, the last column is an ellipsis.
std::string clip(std::string_view text, size_t columns);

std::string pad_right(std::string_view text, size_t columns);  // text first; clipped when too long
std::string pad_left(std::string_view text, size_t columns);   // text last

// Lines of at most `columns` columns, broken at spaces; a longer word is cut hard. Empty text gives no line.
std::vector<std::string> wrap(std::string_view text, size_t columns);

// `items` joined by `separator`, broken between items where a line would grow beyond `columns`; no separator dangles.
std::vector<std::string> wrap_items(const std::vector<std::string>& items, std::string_view separator, size_t columns);

// `unit` repeated `count` times.
std::string repeat(std::string_view unit, size_t count);

}  // namespace stepscope
