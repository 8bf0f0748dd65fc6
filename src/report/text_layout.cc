#include "report/text_layout.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace stepscope {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "…";

// Decodes one code point at `pos` and moves behind it; kReplacement for one byte that is not valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(pos);
  size_t length = lead < 0x80                   ? 1
                  : lead >= 0xC2 && lead < 0xE0 ? 2
                  : lead >= 0xE0 && lead < 0xF0 ? 3
                  : lead >= 0xF0 && lead < 0xF5 ? 4
                                                : 0;
  if (length == 0 || pos + length > text.size()) {
    ++pos;
    return kReplacement;
  }
  char32_t code = length == 1 ? lead : lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(pos + i) & 0xC0) != 0x80) {
      ++pos;
      return kReplacement;
    }
    code = code << 6 | (byte(pos + i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    ++pos;
    return kReplacement;
  }
  pos += length;
  return code;
}

struct Range {
  char32_t first, last;
};

bool in_ranges(const Range* begin, const Range* end, char32_t code) {
  const Range* after = std::upper_bound(begin, end, code, [](char32_t c, const Range& r) { return c < r.first; });
  return after != begin && code <= std::prev(after)->last;
}

// The blocks that matter in practice, sorted.
constexpr Range kZeroWidth[] = {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F},
                                {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x202A, 0x202E},
                                {0x2060, 0x206F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
                                {0xFEFF, 0xFEFF}};
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},
                           {0x26A1, 0x26A1},   {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2E80, 0x303E},
                           {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
                           {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                           {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                           {0x1F7E0, 0x1F7EB}, {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};

size_t width_of(char32_t code) {
  if (in_ranges(std::begin(kZeroWidth), std::end(kZeroWidth), code)) return 0;
  return in_ranges(std::begin(kWide), std::end(kWide), code) ? 2 : 1;
}

// Bidirectional controls reorder what is on the line, so they are as bad as an escape sequence.
bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x200E && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

// Bytes of `text` that fit into `columns`.
size_t bytes_that_fit(std::string_view text, size_t columns) {
  size_t pos = 0, used = 0;
  while (pos < text.size()) {
    size_t after = pos;
    used += width_of(next_code_point(text, after));
    if (used > columns) break;
    pos = after;
  }
  return pos;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t code = next_code_point(text, pos);
    if (code == kReplacement) {
      out += kReplacementUtf8;
    } else if (is_control(code)) {
      out += ' ';
    } else {
      out += text.substr(begin, pos - begin);
    }
  }
  return out;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t pos = 0; pos < text.size();) width += width_of(next_code_point(text, pos));
  return width;
}

Glyph next_glyph(std::string_view text, size_t& pos) {
  const size_t begin = pos;
  const size_t columns = width_of(next_code_point(text, pos));
  return {text.substr(begin, pos - begin), columns};
}

std::string clip(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::string out(text.substr(0, bytes_that_fit(text, columns - 1)));
  return out.append(kEllipsis);
}

std::string pad_right(std::string_view text, size_t columns) {
  std::string out = clip(text, columns);
  return out.append(columns - display_width(out), ' ');
}

std::string pad_left(std::string_view text, size_t columns) {
  std::string out = clip(text, columns);
  return out.insert(0, columns - display_width(out), ' ');
}

std::vector<std::string> wrap(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    if (!line.empty()) lines.push_back(std::move(line));
    line.clear();
  };
  columns = std::max<size_t>(columns, 2);  // a wide character must fit
  for (size_t pos = 0; pos < text.size();) {
    const size_t space = std::min(text.find(' ', pos), text.size());
    std::string_view word = text.substr(pos, space - pos);
    pos = space + 1;
    if (word.empty()) continue;
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns) flush();
    while (display_width(word) > columns) {
      const size_t bytes = bytes_that_fit(word, columns);
      lines.emplace_back(word.substr(0, bytes));
      word.remove_prefix(bytes);
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  flush();
  return lines;
}

std::vector<std::string> wrap_items(const std::vector<std::string>& items, std::string_view separator, size_t columns) {
  std::vector<std::string> lines;
  for (const std::string& item : items) {
    if (item.empty()) continue;
    if (!lines.empty() && display_width(lines.back()) + display_width(separator) + display_width(item) <= columns) {
      lines.back().append(separator).append(item);
    } else {
      for (std::string& part : wrap(item, columns)) lines.push_back(std::move(part));
    }
  }
  return lines;
}

std::string repeat(std::string_view unit, size_t count) {
  std::string out;
  out.reserve(unit.size() * count);
  for (size_t i = 0; i < count; ++i) out += unit;
  return out;
}

}  // namespace stepscope
