// Private to the .cc files of this room: charts as inline SVG. Pure; colours come from classes of html_style().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

// A ledger as one stacked bar of full width. `scale` 0..1 shortens it (a bar among others).
std::string svg_ledger_bar(const LedgerNs& ledger, int height, double scale = 1);

// Time per step over the newest steps, with the median as a thin line. "" for fewer than two steps.
std::string svg_step_series(const Snapshot& snapshot);

// Rank × step: one row per rank, steps merged into at most 240 columns by their slowest, coloured by the ratio of the
// rank's own time to the median over steps of the ranks' lower median. At most 64 ranks (the slowest ones). "" without
// steps.
std::string svg_heat_strip(const Snapshot& snapshot);

// Bounds of the heat levels.
inline constexpr double kHeatBounds[] = {1.05, 1.15, 1.3, 1.6, 2.0, 3.0};
inline constexpr int kHeatLevels = 7;

}  // namespace stepscope
