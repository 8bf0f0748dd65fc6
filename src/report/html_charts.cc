#include "report/html_charts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/text_format.h"
#include "report/figures.h"
#include "report/html_text.h"

namespace stepscope {
namespace {

constexpr size_t kMaxColumns = 240;
constexpr size_t kMaxHeatRanks = 64;

// Columns of at most kMaxColumns; column i holds steps [i * n / columns, (i + 1) * n / columns).
size_t columns_for(size_t steps) { return std::min(steps, kMaxColumns); }

// The lower one: where half of the ranks are slow, the other half is the measure.
double lower_median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> wall_series(const Snapshot& s) {
  std::vector<double> values;
  for (const StepPoint& p : s.recent) values.push_back(std::isfinite(p.wall_ms) && p.wall_ms >= 0 ? p.wall_ms : 0);
  return values;
}

int heat_level(double ratio) {
  int level = 0;
  for (double bound : kHeatBounds) level += ratio > bound ? 1 : 0;
  return level;
}

// Slowest value per column of one rank; negative where the rank was not seen.
std::vector<double> heat_row(const Snapshot& s, size_t rank) {
  const size_t steps = s.recent.size(), columns = columns_for(steps);
  std::vector<double> row(columns, -1);
  for (size_t c = 0; c < columns; ++c) {
    for (size_t i = c * steps / columns; i < (c + 1) * steps / columns; ++i) {
      const auto& ms = s.recent[i].rank_ms;
      if (rank < ms.size() && std::isfinite(ms[rank])) row[c] = std::max(row[c], static_cast<double>(ms[rank]));
    }
  }
  return row;
}

// Rows worth showing: all, or the slowest on average.
std::vector<size_t> heat_ranks(const Snapshot& s) {
  size_t count = 0;
  for (const StepPoint& p : s.recent) count = std::max(count, p.rank_ms.size());
  std::vector<size_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  if (count <= kMaxHeatRanks) return ranks;
  std::vector<double> sums(count, 0);
  for (const StepPoint& p : s.recent) {
    for (size_t r = 0; r < p.rank_ms.size(); ++r) sums[r] += std::isfinite(p.rank_ms[r]) ? p.rank_ms[r] : 0;
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  ranks.resize(kMaxHeatRanks);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::string svg_ledger_bar(const LedgerNs& ledger, int height, double scale) {
  std::string out =
      formatted("<svg viewBox=\"0 0 1000 {0}\" height=\"{0}\" preserveAspectRatio=\"none\" role=\"img\">", height);
  double x = 0;
  for (const LedgerSlice& slice : ledger_slices(ledger)) {
    const double width = slice.share * 1000 * scale;
    out += formatted(
        "<rect class=\"c-{0}\" x=\"{1:.2f}\" width=\"{2:.2f}\" height=\"{3}\"><title>{4} {5}</title></rect>",
        name(slice.category), x, width, height, category_label(name(slice.category)), format_share(slice.share));
    x += width;
  }
  return out + "</svg>";
}

std::string svg_step_series(const Snapshot& s) {
  const std::vector<double> values = wall_series(s);
  if (values.size() < 2) return "";
  const double median = lower_median_of(values);
  // One long step must not flatten the rest: the axis ends at four medians, what is longer touches the edge.
  const double top =
      std::max(1e-9, std::min(*std::max_element(values.begin(), values.end()), median > 0 ? median * 4 : 1e12)) * 1.05;
  constexpr double kHeight = 90;
  std::string points;
  double first_x = 0, x = 0;
  const size_t columns = std::min<size_t>(values.size(), 600);
  for (size_t c = 0; c < columns; ++c) {
    double worst = 0;
    for (size_t i = c * values.size() / columns; i < (c + 1) * values.size() / columns; ++i)
      worst = std::max(worst, values[i]);
    x = (static_cast<double>(c) + 0.5) / static_cast<double>(columns) * 1000;
    if (c == 0) first_x = x;
    points += formatted("{:.1f},{:.1f} ", x, kHeight - std::min(worst, top) / top * kHeight);
  }
  const double y = kHeight - median / top * kHeight;
  return formatted(
      "<svg viewBox=\"0 0 1000 {0}\" height=\"{0}\" preserveAspectRatio=\"none\" role=\"img\"><line class=\"median\" "
      "x1=\"0\" x2=\"1000\" "
      "y1=\"{1:.1f}\" y2=\"{1:.1f}\"/><polygon class=\"area\" points=\"{3:.1f},{0} {2}{4:.1f},{0}\"/><polyline "
      "class=\"series\" "
      "points=\"{2}\"/></svg>",
      kHeight, y, points, first_x, x);
}

std::string svg_heat_strip(const Snapshot& s) {
  const std::vector<size_t> ranks = heat_ranks(s);
  if (ranks.empty()) return "";
  std::vector<double> measures;  // of each step: a rank must not become the measure because the steps vary
  for (const StepPoint& p : s.recent) {
    std::vector<double> own;
    std::copy_if(p.rank_ms.begin(), p.rank_ms.end(), std::back_inserter(own),
                 [](float ms) { return std::isfinite(ms); });
    if (!own.empty()) measures.push_back(lower_median_of(std::move(own)));
  }
  const double median = lower_median_of(std::move(measures));
  if (!(median > 0)) return "";
  const size_t columns = columns_for(s.recent.size());
  const int row_height = ranks.size() <= 8 ? 16 : ranks.size() <= 24 ? 10 : 6;
  std::string cells, labels;
  for (size_t row = 0; row < ranks.size(); ++row) {
    const std::vector<double> values = heat_row(s, ranks[row]);
    for (size_t begin = 0; begin < columns;) {  // equal neighbours share a rectangle
      const int level = values[begin] < 0 ? -1 : heat_level(values[begin] / median);
      size_t end = begin + 1;
      while (end < columns && (values[end] < 0 ? -1 : heat_level(values[end] / median)) == level) ++end;
      if (level >= 0) {
        cells += formatted("<rect class=\"h{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", level, begin,
                           static_cast<int>(row) * row_height, end - begin, row_height - 1);
      }
      begin = end;
    }
    if (ranks.size() <= 24) {
      const int id = ranks[row] < s.ranks.size() ? s.ranks[ranks[row]].rank : static_cast<int>(ranks[row]);
      labels += formatted("<span>{}</span>", id);
    }
  }
  const int height = static_cast<int>(ranks.size()) * row_height;
  return formatted(
      "<div class=\"labels\">{}</div><svg viewBox=\"0 0 {} {}\" height=\"{}\" preserveAspectRatio=\"none\" "
      "role=\"img\">{}</svg>",
      labels, columns, height, height, cells);
}

}  // namespace stepscope
