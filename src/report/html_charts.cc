#include "report/html_charts.h"

#include <algorithm>

#include "base/text_format.h"
#include "report/html_text.h"

namespace stepscope {
namespace {

constexpr size_t kMaxColumns = 240, kMaxPoints = 600;

// Column i of `columns` holds steps [i * n / columns, (i + 1) * n / columns); the most of them is shown.
template <class T>
std::vector<T> merged(const std::vector<T>& values, size_t columns) {
  std::vector<T> out;
  const auto at = [&](size_t c) { return values.begin() + static_cast<std::ptrdiff_t>(c * values.size() / columns); };
  for (size_t c = 0; c < columns; ++c) out.push_back(*std::max_element(at(c), at(c + 1)));
  return out;
}

}  // namespace

std::string svg_ledger_bar(const std::vector<LedgerSlice>& slices, int height, double scale) {
  std::string out =
      formatted("<svg viewBox=\"0 0 1000 {0}\" height=\"{0}\" preserveAspectRatio=\"none\" role=\"img\">", height);
  double x = 0;
  for (const LedgerSlice& slice : slices) {
    const double width = slice.share * 1000 * scale;
    out +=
        formatted("<rect class=\"c-{0}\" x=\"{1:.2f}\" width=\"{2:.2f}\" height=\"{3}\"><title>{4} {5}</title></rect>",
                  name(slice.category), x, width, height, html_escaped(category_label(name(slice.category))),
                  html_escaped(format_share(slice.share)));
    x += width;
  }
  return out + "</svg>";
}

std::string svg_step_series(const StepChart& chart) {
  if (chart.wall_ms.empty()) return "";
  const std::vector<double> values = merged(chart.wall_ms, std::min(chart.wall_ms.size(), kMaxPoints));
  // One long step must not flatten the rest: the axis ends at four medians, what is longer touches the edge.
  const double longest = *std::max_element(values.begin(), values.end());
  const double top = std::max(1e-9, std::min(longest, chart.median_ms > 0 ? chart.median_ms * 4 : 1e12)) * 1.05;
  constexpr double kHeight = 90;
  std::string points;
  const auto x_of = [&](size_t c) {
    return (static_cast<double>(c) + 0.5) / static_cast<double>(values.size()) * 1000;
  };
  for (size_t c = 0; c < values.size(); ++c)
    points += formatted("{:.1f},{:.1f} ", x_of(c), kHeight - std::min(values[c], top) / top * kHeight);
  return formatted(
      "<svg viewBox=\"0 0 1000 {0}\" height=\"{0}\" preserveAspectRatio=\"none\" role=\"img\"><line class=\"median\" "
      "x1=\"0\" x2=\"1000\" y1=\"{1:.1f}\" y2=\"{1:.1f}\"/><polygon class=\"area\" points=\"{3:.1f},{0} "
      "{2}{4:.1f},{0}\"/><polyline class=\"series\" points=\"{2}\"/></svg>",
      kHeight, kHeight - chart.median_ms / top * kHeight, points, x_of(0), x_of(values.size() - 1));
}

std::string svg_heat_strip(const HeatMap& map) {
  if (map.rows.empty() || map.rows.front().levels.empty()) return "";
  const size_t columns = std::min(map.rows.front().levels.size(), kMaxColumns);
  const int row_height = map.rows.size() <= 8 ? 16 : map.rows.size() <= 24 ? 10 : 6;
  std::string cells, labels;
  for (size_t row = 0; row < map.rows.size(); ++row) {
    const std::vector<signed char> levels = merged(map.rows[row].levels, columns);
    for (size_t begin = 0; begin < columns;) {  // equal neighbours share a rectangle
      size_t end = begin + 1;
      while (end < columns && levels[end] == levels[begin]) ++end;
      if (levels[begin] >= 0) {
        cells += formatted("<rect class=\"h{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", levels[begin] + 0,
                           begin, static_cast<int>(row) * row_height, end - begin, row_height - 1);
      }
      begin = end;
    }
    if (map.rows.size() <= 24) labels += formatted("<span>{}</span>", map.rows[row].rank);
  }
  const int height = static_cast<int>(map.rows.size()) * row_height;
  return formatted(
      "<div class=\"labels\">{}</div><svg viewBox=\"0 0 {} {}\" height=\"{}\" preserveAspectRatio=\"none\" "
      "role=\"img\">{}</svg>",
      labels, columns, height, height, cells);
}

}  // namespace stepscope
