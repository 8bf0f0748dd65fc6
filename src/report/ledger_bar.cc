#include "report/ledger_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace stepscope {

const CategoryLook& look(Category category) {
  // Work is dense, waiting is sparse; what went wrong is warm in colour, work is cool.
  static constexpr std::array<CategoryLook, kCategoryCount> kLooks = {{
      {"░", 214, "#e8a33d"},  // input_wait
      {"=", 180, "#c9a86a"},  // h2d
      {"▓", 75, "#5aa9e6"},   // forward
      {"█", 33, "#2a6fdb"},   // backward
      {"▒", 117, "#8fd0f5"},  // optimizer
      {"~", 141, "#9b7be0"},  // comm_transfer
      {"·", 217, "#f0aaa4"},  // straggler_wait
      {"x", 208, "#f2762e"},  // host_pause
      {"+", 108, "#6fa37a"},  // compile
      {"#", 72, "#3f9c85"},   // checkpoint
      {"%", 79, "#5cc4a5"},   // validation
      {":", 150, "#a9c66c"},  // logging
      {"^", 178, "#d4b018"},  // epoch_start
      {"u", 146, "#a3aed0"},  // user_code
      {"s", 245, "#8a8f98"},  // startup
      {"t", 243, "#747a84"},  // teardown
      {"!", 196, "#d1002f"},  // hang
      {"?", 249, "#b9bec7"},  // unattributed
      {"-", 181, "#d8b9c8"},  // unresolved
  }};
  return kLooks[index(category)];
}

std::vector<int> cells_of(const std::vector<LedgerSlice>& slices, int cells) {
  std::vector<int> out;
  std::vector<double> remainders;
  int used = 0;
  for (const LedgerSlice& slice : slices) {
    const double exact = slice.share * cells;
    out.push_back(static_cast<int>(exact));
    remainders.push_back(exact - out.back());
    used += out.back();
  }
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (size_t i = 0; i < order.size() && used < cells; ++i, ++used) ++out[order[i]];
  return out;
}

}  // namespace stepscope
