// One page about a run: what every view shows, in reading order, as plain values. Built once from a snapshot
// (build_page); a view draws it and decides about room, ink and markup only. Text, HTML, terminal and browser therefore
// say the same. Strings may come from the training script: a view makes them printable or escapes them. Pure; cost
// linear in what is shown.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/figures.h"
#include "report/narrative.h"
#include "report/table.h"

namespace stepscope {

enum class Tone : unsigned char { kPlain, kSoft, kWarn };

// Short phrases, side by side where they fit.
struct Phrases {
  std::vector<std::string> items;
  Tone tone = Tone::kPlain;
};

// Sentences, each on a line of its own.
struct Lines {
  std::vector<std::string> items;
  Tone tone = Tone::kPlain;
};

// Where the time went, in ledger order.
struct LedgerPart {
  LedgerSlice slice;
  std::string label, share, per_step;  // "backward", "46 %", "33.3 ms"
};
struct LedgerChart {
  std::vector<LedgerPart> parts;
};

// The ledgers of the ranks below each other; the longest has length 1.
struct RankBar {
  std::string label, value;  // "rank 1", "79.4 ms"
  std::vector<LedgerSlice> slices;
  double length = 0;
  bool culprit = false;
};
struct RankBars {
  std::vector<RankBar> bars;
};

// Time per step over the newest steps.
struct StepChart {
  uint64_t first_step = 0, last_step = 0;
  std::vector<double> wall_ms;  // one per step
  double median_ms = 0;
};

// Rank × step. Levels count the bounds that a rank's own time exceeds, as a ratio to the ranks' lower median; -1 = not
// seen.
inline constexpr double kHeatBounds[] = {1.05, 1.15, 1.3, 1.6, 2.0, 3.0};
inline constexpr int kHeatLevels = 7;
struct HeatRow {
  int rank = 0;
  std::vector<signed char> levels;  // one per step
};
struct HeatMap {
  std::vector<HeatRow> rows;
};

// Findings beside the verdict.
struct FindingItem {
  Severity severity = Severity::kInfo;
  std::string name, title, cost, action;  // cost: "12 % of wall time", "" = none
};
struct FindingList {
  std::vector<FindingItem> items;
};

// A part of the run with a diagnosis of its own.
struct Card {
  std::string title, word, text;  // "Step Memory", "BALANCED", one line
  Severity severity = Severity::kInfo;
  bool measured = true;
  std::vector<std::pair<std::string, std::string>> lines;  // label, what was measured: "CPU", "48 % of 8 cores"
};
struct Cards {
  std::vector<Card> cards;
};

using Element = std::variant<Phrases, Lines, Table, LedgerChart, RankBars, StepChart, HeatMap, FindingList, Cards>;

enum class BlockKind : unsigned char {
  kLedger,
  kFindings,
  kStepTime,
  kSteps,
  kEpochs,
  kRanks,
  kMemory,
  kForecast,
  kCollectives,
  kChecks,
  kSections,
  kObserver,
};

struct Block {
  std::string title, aside;  // aside: what the figures are, in a few words
  std::vector<Element> elements;
  BlockKind kind = BlockKind::kLedger;
};

struct Page {
  std::string run_name;
  std::vector<std::string> run;  // "2 ranks on 1 node", "240 steps", …
  bool ended_badly = false;
  Verdict verdict;
  std::vector<Block> blocks;  // none is empty
  std::string command;        // what was run, "" = not known
  std::vector<std::string> versions;
};

// How many rows of what could be long are shown; a note says what is left out.
struct PageSize {
  size_t ranks = 16, bars = 16, heat_rows = 16, epochs = 8, findings = 12, collectives = 16;
};

Page build_page(const Snapshot& snapshot, const PageSize& size);

// For views that do not show everything below each other. Null where the page has nothing of it.
const Block* block_of(const Page& page, BlockKind kind);

}  // namespace stepscope
