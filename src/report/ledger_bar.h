// The ledger as a bar of terminal cells, and the look of each category: glyph, terminal colour, web colour. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "align/category.h"
#include "report/figures.h"

namespace stepscope {

struct CategoryLook {
  std::string_view glyph;       // one column; distinct, so that the bar reads without colour
  int terminal_colour;          // of the 256-colour palette
  std::string_view web_colour;  // "#rrggbb", told apart on light and dark ground
};
const CategoryLook& look(Category category);

// Cells per slice by largest remainder: the sum is `cells` exactly (0 for an empty ledger). A share below half a cell
// may get none; nothing is rounded up at another's cost by more than one cell.
std::vector<int> cells_of(const std::vector<LedgerSlice>& slices, int cells);

}  // namespace stepscope
