#include "analyze/load_lead.h"

#include <algorithm>
#include <cmath>

namespace stepscope {

size_t batches_ahead(const Rows& rows) {
  uint32_t most = 0;
  for (const StepRow* row : rows.rows)
    for (const Cell& cell : row->cells) most = std::max(most, cell.fetch_in_flight);
  return most;
}

size_t steps_hidden_by_queue(size_t ahead, double share) {
  constexpr double kLeastShare = 0.05;
  if (ahead == 0) return 0;
  return static_cast<size_t>(std::ceil(static_cast<double>(ahead + 1) / std::clamp(share, kLeastShare, 1.0)));
}

}  // namespace stepscope
