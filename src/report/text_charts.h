// The charts of a page as pieces of a text line: bar of the ledger, line of bars over steps, row of the heat map.
// Shared by the text summary and the terminal view. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/page.h"
#include "report/text_page.h"

namespace stepscope {

Ink category_ink(Category category);

// `columns` cells, shared out by the parts' shares.
TextPage::Line ledger_bar(const LedgerChart& chart, size_t columns);

// "█ backward 46 % (33.3 ms)", largest first, in columns; as many lines as it takes.
std::vector<TextPage::Line> ledger_legend(const LedgerChart& chart, size_t columns);

// "█ backward 46 %  ▓ forward 21 %", largest first, as many as fit on one line; with the time per step where `columns`
// leaves room for that.
TextPage::Line ledger_key(const LedgerChart& chart, size_t columns);

// One bar per value; where there are more than `columns`, each stands for the most of its neighbours. `floor` is the
// lowest bar, `top` the highest; what lies beyond is drawn as they are. NaN leaves a blank.
std::string bars_of(std::span<const double> values, size_t columns, double floor, double top);
// The most that bars_of() draws without cutting off: one long step must not flatten the rest.
double top_of(std::span<const double> values, double median);

// One cell per step, merged likewise; a blank where the rank was not seen.
TextPage::Line heat_cells(const HeatRow& row, size_t columns);
// "own time over that of the ranks' median:  · ≤ 1.05  ░ ≤ 1.3 …"
std::string heat_legend();

}  // namespace stepscope
