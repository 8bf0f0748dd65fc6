#include "diagnose/leads.h"

#include <cmath>

namespace stepscope {

Leads::Together Leads::together(const Leads& other) const {
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < lead_.size(); ++i)
    for (size_t at = 0; at < lead_[i].size(); ++at) {
      const double x = lead_[i][at], y = other.lead_[i][at];
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      xx += x * x, yy += y * y, xy += x * y;
    }
  return {.correlation = xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0, .slope = xx > 0 ? xy / xx : 0};
}

double mean_wait_ms(const StepRow& row) {
  double sum = 0;
  for (const Cell& cell : row.cells) sum += cell.wait_ms;
  return row.cells.empty() ? 0 : sum / static_cast<double>(row.cells.size());
}

double loss_ms(const Leads& own, const Rows& rows, size_t row) {
  const StepRow& step = *rows.rows[row];
  return step.cells.empty() ? 0 : std::clamp(own.at(row, own.first_of(row)), 0.0, mean_wait_ms(step));
}

double most_lost_ms(const Rows& rows) {
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) sum += mean_wait_ms(*rows.rows[i]) * rows.weights[i];
  return sum;
}

double most_often_first(const Leads& own, const Rows& rows) {
  std::map<int, size_t> count;
  size_t most = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows.rows[i]->cells.empty()) most = std::max(most, ++count[rows.rows[i]->cells[own.first_of(i)].rank]);
  return static_cast<double>(most) / static_cast<double>(rows.size());
}

}  // namespace stepscope
