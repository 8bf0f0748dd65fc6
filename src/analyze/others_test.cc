#include "analyze/others.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analyze/robust.h"

namespace stepscope {
namespace {

StepRow row_of(std::vector<float> wall_ms) {
  StepRow row;
  for (float ms : wall_ms) {
    row.cells.emplace_back().rank = static_cast<int>(row.cells.size()) - 1;
    row.cells.back().wall_ms = ms;
  }
  return row;
}

double wall(const Cell& cell) { return cell.wall_ms; }

TEST(Others, TheMedianOfAllButOne) {
  Others others;
  others.look(row_of({10, 1, 3, 2}), wall);
  EXPECT_DOUBLE_EQ(others.median_without(10), 2);
  EXPECT_DOUBLE_EQ(others.median_without(1), 3);
  EXPECT_DOUBLE_EQ(others.median_without(2), 3);
  others.look(row_of({10, 1, 3}), wall);  // looked at anew
  EXPECT_DOUBLE_EQ(others.median_without(10), 2);
  EXPECT_DOUBLE_EQ(others.median_without(3), 5.5);
}

TEST(Others, EqualFiguresAreOneAnothersOthers) {
  Others others;
  others.look(row_of({5, 5, 5, 9}), wall);
  EXPECT_DOUBLE_EQ(others.median_without(5), 5);
  EXPECT_DOUBLE_EQ(others.median_without(9), 5);
}

TEST(Others, WhoIsAloneHasNone) {
  Others others;
  others.look(row_of({5}), wall);
  EXPECT_TRUE(std::isnan(others.median_without(5)));
}

TEST(Others, AsTheMedianOfAListWouldSay) {
  const std::vector<float> all = {8, 3, 3, 7, 1, 9, 4, 4};
  for (size_t n = 2; n <= all.size(); ++n) {
    Others others;
    others.look(row_of({all.begin(), all.begin() + static_cast<long>(n)}), wall);
    for (size_t skip = 0; skip < n; ++skip) {
      std::vector<double> list;
      for (size_t i = 0; i < n; ++i)
        if (i != skip) list.push_back(all[i]);
      EXPECT_DOUBLE_EQ(others.median_without(all[skip]), median(list)) << n << " without " << all[skip];
    }
  }
}

}  // namespace
}  // namespace stepscope
