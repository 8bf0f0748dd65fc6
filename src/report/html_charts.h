// Private to the .cc files of this room: the charts of a page as inline SVG. Pure; colours come from classes of
// html_style().
#pragma once

#include <string>
#include <vector>

#include "report/page.h"

namespace stepscope {

// A ledger as one stacked bar of full width. `scale` 0..1 shortens it (a bar among others).
std::string svg_ledger_bar(const std::vector<LedgerSlice>& slices, int height, double scale = 1);

// Time per step, with the median as a thin line; steps merged into at most 600 points by their slowest. "" without
// steps.
std::string svg_step_series(const StepChart& chart);

// Rank × step: one row per rank, steps merged into at most 240 columns by their slowest. "" without rows.
std::string svg_heat_strip(const HeatMap& map);

}  // namespace stepscope
