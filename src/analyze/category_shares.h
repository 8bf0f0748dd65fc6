// What each category of the ledger takes of wall time, over a selection of rows: all categories in one pass. Pure;
// O(cells × categories).
#pragma once

#include <array>

#include "align/category.h"
#include "analyze/rows.h"

namespace stepscope {

struct CategoryShares {
  std::array<double, kCategoryCount> usual{};  // lower median over ranks: one slow rank is a straggler, not the job
  std::array<double, kCategoryCount> mean{};   // over ranks

  double operator[](Category category) const { return usual[index(category)]; }
};

// 0 where there is no wall time.
CategoryShares category_shares(const Rows& rows);

}  // namespace stepscope
