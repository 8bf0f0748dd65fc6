#include "report/text_charts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/text_format.h"
#include "report/ledger_bar.h"
#include "report/text_layout.h"

namespace stepscope {
namespace {

using Piece = TextPage::Piece;

// Column c of `columns` holds values [c * n / columns, (c + 1) * n / columns); the most of them is shown.
template <class T>
T most_in(std::span<const T> values, size_t column, size_t columns) {
  const size_t begin = column * values.size() / columns, end = (column + 1) * values.size() / columns;
  T most = values[begin];
  for (size_t i = begin; i < end; ++i)
    if (most != most || values[i] > most) most = values[i];  // NaN gives way
  return most;
}

struct HeatLook {
  std::string_view glyph;
  Ink ink;
};
constexpr std::array<HeatLook, kHeatLevels> kHeat = {{
    {"·", ink::kDim},
    {"░", ink::kDim},
    {"░", ink::kPlain},
    {"▒", ink::kPlain},
    {"▓", ink::kYellow},
    {"█", ink::kYellow},
    {"█", {.bold = true, .color = 208}},
}};

// Those that a cell could show.
std::vector<const LedgerPart*> largest_first(const LedgerChart& chart) {
  std::vector<const LedgerPart*> parts;
  for (const LedgerPart& part : chart.parts)
    if (part.slice.share >= 0.0005) parts.push_back(&part);
  std::ranges::stable_sort(parts, std::greater(), [](const LedgerPart* part) { return part->slice.share; });
  return parts;
}

}  // namespace

Ink category_ink(Category category) {
  const CategoryLook& seen = look(category);
  Ink ink{.color = static_cast<int16_t>(seen.terminal_colour)};
  std::from_chars(seen.web_colour.data() + 1, seen.web_colour.data() + seen.web_colour.size(), ink.rgb, 16);
  return ink;
}

TextPage::Line ledger_bar(const LedgerChart& chart, size_t columns) {
  std::vector<LedgerSlice> slices;
  for (const LedgerPart& part : chart.parts) slices.push_back(part.slice);
  const std::vector<int> cells = cells_of(slices, static_cast<int>(columns));
  TextPage::Line bar;
  for (size_t i = 0; i < slices.size(); ++i) {
    bar.push_back(
        {repeat(look(slices[i].category).glyph, static_cast<size_t>(cells[i])), category_ink(slices[i].category)});
  }
  return bar;
}

std::vector<TextPage::Line> ledger_legend(const LedgerChart& chart, size_t columns) {
  constexpr size_t kEntry = 32;
  std::vector<TextPage::Line> out;
  size_t used = columns;
  for (const LedgerPart* at : largest_first(chart)) {
    const LedgerPart& part = *at;
    const std::string entry = formatted("{} {} ({})", part.label, part.share, part.per_step);
    // A long name takes several columns.
    const size_t width = std::min((display_width(entry) + 3 + kEntry - 1) / kEntry * kEntry, columns);
    if (used + width > columns) {
      out.emplace_back();
      used = 0;
    }
    out.back().push_back({std::string(look(part.slice.category).glyph) + " ", category_ink(part.slice.category)});
    out.back().push_back({pad_right(entry, width - 2)});
    used += width;
  }
  return out;
}

TextPage::Line ledger_key(const LedgerChart& chart, size_t columns) {
  constexpr size_t kRoomForTimes = 110;
  TextPage::Line line;
  size_t used = 0;
  for (const LedgerPart* part : largest_first(chart)) {
    const std::string glyph = (used > 0 ? "  " : "") + std::string(look(part->slice.category).glyph);
    std::string entry = formatted(" {} {}", part->label, part->share);
    if (columns >= kRoomForTimes) entry += formatted(" ({})", part->per_step);
    const size_t width = display_width(glyph) + display_width(entry);
    if (used + width > columns) break;
    line.push_back({glyph, category_ink(part->slice.category)});
    line.push_back({std::move(entry)});
    used += width;
  }
  return line;
}

std::string bars_of(std::span<const double> values, size_t columns, double floor, double top) {
  static constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  columns = std::min(columns, values.size());
  for (size_t c = 0; c < columns; ++c) {
    const double value = most_in(values, c, columns);
    const double share = top > floor ? std::clamp((value - floor) / (top - floor), 0.0, 1.0) : 0;
    line += std::isnan(value) ? " " : kBars[static_cast<size_t>(share * (kBars.size() - 1) + 0.5)];
  }
  return line;
}

double top_of(std::span<const double> values, double median) {
  double highest = 0;
  for (const double value : values) highest = std::max(highest, value);  // NaN is never more
  return median > 0 ? std::min(highest, 2 * median) : highest;
}

TextPage::Line heat_cells(const HeatRow& row, size_t columns) {
  TextPage::Line line;
  const std::span<const signed char> levels(row.levels);
  columns = std::min(columns, levels.size());
  for (size_t c = 0; c < columns; ++c) {
    const signed char level = most_in(levels, c, columns);
    const HeatLook seen = level < 0 ? HeatLook{" ", ink::kPlain} : kHeat[static_cast<size_t>(level)];
    if (!line.empty() && line.back().style == seen.ink)
      line.back().text += seen.glyph;
    else
      line.push_back({std::string(seen.glyph), seen.ink});
  }
  return line;
}

std::string heat_legend() {
  std::string legend = "own time over that of the ranks' median:";
  for (size_t level = 0; level < kHeat.size(); ++level) {
    const bool widest = level + 1 == kHeat.size() || kHeat[level + 1].glyph != kHeat[level].glyph;
    if (!widest) continue;
    legend += level + 1 < kHeat.size() ? formatted("  {} ≤ {}", kHeat[level].glyph, kHeatBounds[level])
                                       : formatted("  {} more", kHeat[level].glyph);
  }
  return legend;
}

}  // namespace stepscope
