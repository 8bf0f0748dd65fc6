#include "report/summary_text.h"

#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "report/epoch_rows.h"
#include "report/evidence_table.h"
#include "report/figures.h"
#include "report/ledger_bar.h"
#include "report/narrative.h"
#include "report/rank_rows.h"
#include "report/text_layout.h"
#include "report/text_page.h"

namespace stepscope {
namespace {

constexpr size_t kMargin = 10;  // of the verdict's labels
constexpr size_t kMaxFindingRows = 12;
constexpr size_t kMaxEpochRows = 8;

using Piece = TextPage::Piece;

void write_head(TextPage& page, const Snapshot& s) {
  page.line({{"stepscope  ", ink::kBold}, {s.run.name, ink::kBold}});
  const bool ended_badly = s.run.status == "crashed" || s.run.status == "hung";
  page.phrases("", run_phrases(s.run, s.steps), 0, ended_badly ? ink::kYellow : ink::kDim);
  page.rule();
}

void write_facts(TextPage& page, const Verdict& v) {
  std::string label = "  Why";
  TextTable table({{.title = "", .right = false},
                   {.title = "", .right = false},
                   {.title = ""},
                   {.title = "", .right = false, .priority = 1}});
  for (const Fact& f : v.facts) table.add({f.label, f.who, f.value, f.others});
  const std::vector<std::string> lines = table.lines(page.columns() - kMargin);
  for (size_t i = 1; i < lines.size(); ++i) {  // line 0 holds the titles, which are empty
    page.line({{pad_right(label, kMargin), ink::kDim}, {lines[i]}});
    label.clear();
  }
  page.phrases(label, v.context, kMargin);
}

void write_verdict(TextPage& page, const Snapshot& s) {
  const Verdict v = verdict_of(s);
  page.blank();
  const bool graded = v.severity != Severity::kInfo;
  page.line({{"  " + v.name, ink::of(v.severity)}, {graded ? "  " + std::string(name(v.severity)) : "", ink::kDim}});
  page.paragraph("", v.headline, 2, ink::kBold);
  page.blank();
  write_facts(page, v);
  page.paragraph("  Costs", v.cost, kMargin);
  page.paragraph("  Saves", v.saves, kMargin);
  page.paragraph("  Next", v.action, kMargin);
  if (!v.doc.empty() && s.primary >= 0) {
    page.paragraph("", "stepscope explain " + s.findings[static_cast<size_t>(s.primary)].kind.str(), kMargin,
                   ink::kCyan);
  }
}

std::string style_of(Category category) { return formatted("38;5;{}", look(category).terminal_colour); }

void write_ledger(TextPage& page, const Snapshot& s) {
  std::vector<LedgerSlice> slices = ledger_slices(s.job_ledger);
  if (slices.empty()) return;
  page.heading("Where the time went", formatted("mean over {}, {} steps{}", ranks_meant(s.run), format_count(s.steps),
                                                s.job_clock == "gpu" ? ", GPU clock" : ""));
  std::vector<std::string> styles;
  for (const LedgerSlice& slice : slices) styles.push_back(style_of(slice.category));
  const std::vector<int> cells = cells_of(slices, static_cast<int>(page.columns()) - 4);
  std::vector<Piece> bar = {{"  "}};
  for (size_t i = 0; i < slices.size(); ++i)
    bar.push_back({repeat(look(slices[i].category).glyph, static_cast<size_t>(cells[i])), styles[i]});
  page.line(bar);

  // Legend, largest first, in columns.
  std::vector<size_t> order;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].share >= 0.0005) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return slices[a].share > slices[b].share; });
  constexpr size_t kEntry = 32;
  std::vector<Piece> line = {{"  "}};
  size_t used = 2;
  for (const size_t at : order) {
    const LedgerSlice& slice = slices[at];
    const double ms = s.steps > 0 ? static_cast<double>(slice.ns) / 1e6 / s.steps : 0;
    const std::string share = slice.share < 0.01 ? format_share(slice.share) : format_percent(slice.share);
    const std::string entry = formatted("{} {} ({})", category_label(name(slice.category)), share, format_ms(ms));
    // A long name takes several columns.
    const size_t width = std::min((display_width(entry) + 3 + kEntry - 1) / kEntry * kEntry, page.columns() - 2);
    if (used > 2 && used + width > page.columns()) {
      page.line(line);
      line = {{"  "}}, used = 2;
    }
    line.push_back({std::string(look(slice.category).glyph) + " ", styles[at]});
    line.push_back({pad_right(entry, width - 2)});
    used += width;
  }
  if (used > 2) page.line(line);
}

void write_step_table(TextPage& page, const Snapshot& s) {
  const std::vector<EvidenceRow> rows = step_time_rows(s);
  if (rows.empty()) return;
  page.heading("Step time", "own time per step in ms: without waiting for other ranks");
  TextTable table({{.title = "", .right = false, .least_width = 20},
                   {.title = "Median", .least_width = 9},
                   {.title = "Worst", .least_width = 9},
                   {.title = "Worst Rank", .least_width = 11},
                   {.title = "Skew %", .priority = 1, .least_width = 8},
                   {.title = "Share", .priority = 2, .least_width = 8}});
  for (const EvidenceRow& row : rows) {
    const std::string label = row.name == "step"    ? "step (wall)"
                              : row.name == "stall" ? "waiting + transfer"
                                                    : category_label(row.name);
    table.add({label, format_ms_bare(row.median), format_ms_bare(row.worst),
               row.worst_rank ? formatted("{}", *row.worst_rank) : std::string(kNotMeasured), format_skew(row.skew_pct),
               format_share(row.share)});
  }
  page.table(table, [&](size_t row) { return rows[row].name == "step" ? ink::kBold : ink::kPlain; });
  page.phrases("", step_phrases(s), 2, ink::kDim);
}

TextTable rank_table(const std::vector<const RankStat*>& ranks, bool several_nodes) {
  TextTable table({{.title = "Rank"},
                   {.title = "Host", .right = false, .priority = several_nodes ? 2 : 20},
                   {.title = "Steps", .priority = 6},
                   {.title = "Step"},
                   {.title = "Own", .priority = 1},
                   {.title = "Waits", .priority = 1},
                   {.title = "Makes wait", .priority = 1},
                   {.title = "Input", .priority = 3},
                   {.title = "Forward", .priority = 3},
                   {.title = "Backward", .priority = 3},
                   {.title = "Optimizer", .priority = 4},
                   {.title = "CPU", .priority = 7},
                   {.title = "Peak RSS", .priority = 7},
                   {.title = "Samples/s", .priority = 8},
                   {.title = "Tokens/s", .priority = 9},
                   {.title = "State", .right = false}});
  for (const RankStat* r : ranks) {
    const auto phase = [&](const char* name) {
      const auto found = r->phase_ms.find(name);
      return found == r->phase_ms.end() ? std::string(kNotMeasured) : format_ms_bare(found->second);
    };
    table.add({formatted("{}", r->rank), r->hostname, format_count(r->steps), format_ms_bare(r->step_ms),
               format_ms_bare(r->own_ms), format_ms_bare(r->stall_ms), format_ms_bare(r->caused_wait_ms),
               phase("input_wait"), phase("forward"), phase("backward"), phase("optimizer"),
               format_percent(r->cpu_share), format_bytes(r->rss_peak_bytes), format_value("", r->samples_per_s),
               format_value("", r->tokens_per_s), rank_state_text(*r)});
  }
  return table;
}

void write_ranks(TextPage& page, const Snapshot& s) {
  if (s.ranks.empty()) return;
  const std::vector<const RankStat*> ranks = ranks_to_show(s, kMaxRankRows);
  const std::set<int> culprits = culprit_ranks(s);
  page.heading("Ranks", "ms per step; own: without waiting; makes wait: how long others wait for it");
  const auto is_culprit = [&](size_t row) { return culprits.contains(ranks[row]->rank); };
  page.table(
      rank_table(ranks, s.run.nodes > 1), [&](size_t row) { return is_culprit(row) ? ink::kYellow : ink::kPlain; },
      [&](size_t row) { return std::string(is_culprit(row) ? "▸" : ""); });
  if (ranks.size() < s.ranks.size()) {
    page.paragraph("",
                   formatted("{} of {} ranks: those that others wait for most; final_summary.json holds them all",
                             ranks.size(), s.ranks.size()),
                   2, ink::kDim);
  }
}

void write_epochs(TextPage& page, const Snapshot& s) {
  const EpochTable epochs = epoch_table(s, kMaxEpochRows);
  if (epochs.rows.empty()) return;
  page.heading("Epochs", "shares of the epoch's time, mean over ranks; what follows the last step is not in it");
  std::vector<TextColumn> columns;
  for (const std::string& title : epochs.titles)
    columns.push_back({.title = title, .priority = static_cast<int>(columns.size())});
  TextTable table(std::move(columns));
  for (const std::vector<std::string>& row : epochs.rows) table.add(row);
  page.table(table);
  if (!epochs.note.empty()) page.paragraph("", epochs.note, 2, ink::kDim);
}

void write_memory(TextPage& page, const Snapshot& s) {
  const std::vector<EvidenceRow> rows = memory_rows(s);
  if (rows.empty()) return;
  page.heading("Step memory", "of the device");
  TextTable table({{.title = "", .right = false, .least_width = 20},
                   {.title = "Median", .least_width = 9},
                   {.title = "Worst", .least_width = 9},
                   {.title = "Worst Rank", .least_width = 11},
                   {.title = "Skew %", .least_width = 8}});
  for (const EvidenceRow& row : rows) {
    table.add({value_label(row.name), format_bytes(row.median), format_bytes(row.worst),
               row.worst_rank ? formatted("{}", *row.worst_rank) : "", format_skew(row.skew_pct)});
  }
  page.table(table);
}

void write_collectives(TextPage& page, const Snapshot& s) {
  if (s.collectives.empty()) return;
  page.heading("Collectives", "per step");
  TextTable table({{.title = "Group", .right = false},
                   {.title = "Op", .right = false},
                   {.title = "Calls"},
                   {.title = "Bytes"},
                   {.title = "Transfer ms"},
                   {.title = "Wait ms"},
                   {.title = "Bus GB/s", .priority = 1}});
  for (size_t i = 0; i < std::min<size_t>(s.collectives.size(), kMaxRankRows); ++i) {
    const CollectiveStat& c = s.collectives[i];
    table.add({c.group, c.op, format_value("calls", c.per_step), format_bytes(c.bytes_per_step),
               format_ms_bare(c.transfer_ms), format_ms_bare(c.wait_ms), format_value("rate", c.bus_gb_per_s)});
  }
  page.table(table);
}

void write_other_findings(TextPage& page, const Snapshot& s) {
  std::vector<const Finding*> others;
  for (size_t i = 0; i < s.findings.size(); ++i) {
    if (static_cast<int>(i) != s.primary) others.push_back(&s.findings[i]);
  }
  if (others.empty()) return;
  page.heading("Also found");
  size_t name_width = 0;
  for (size_t i = 0; i < std::min(others.size(), kMaxFindingRows); ++i)
    name_width = std::max(name_width, display_width(printable(display_name(others[i]->kind))));
  name_width = std::min<size_t>(name_width, 28);
  for (size_t i = 0; i < std::min(others.size(), kMaxFindingRows); ++i) {
    const Finding& f = *others[i];
    page.line({{"  "},
               {pad_right(name(f.severity), 6), ink::of(f.severity)},
               {pad_right(printable(display_name(f.kind)), name_width + 2)},
               {f.title}});
  }
  if (others.size() > kMaxFindingRows)
    page.line({{formatted("  and {} more in final_summary.json", others.size() - kMaxFindingRows), ink::kDim}});
}

void write_checks(TextPage& page, const Snapshot& s) {
  if (s.checks.empty()) return;
  page.heading("Checks", "\"healthy\" is said when all pass");
  page.phrases("", check_phrases(s), 2);
}

void write_sections(TextPage& page, const Snapshot& s) {
  page.heading("Sections");
  for (const Section& section : ordered_sections(s)) {
    page.line({{"  "},
               {pad_right(section_title(section.name), 13)},
               {pad_right(printable(display_name(section.diagnosis)), 22),
                section.diagnosis == FindingKind::kNoData ? ink::kDim : ink::of(section.severity)},
               {section.text}});
    page.phrases("", value_phrases(section.values), 15, ink::kDim);
  }
}

void write_observer(TextPage& page, const Snapshot& s) {
  page.heading("Observer");
  const bool lossy = s.observer.lost > 0 || s.observer.torn > 0;
  page.phrases("", observer_phrases(s.observer), 2, lossy ? ink::kYellow : ink::kPlain);
  for (const std::string& reason : s.observer.unavailable) page.paragraph("", "not available: " + reason, 2, ink::kDim);
  for (const std::string& note : s.observer.notes) page.paragraph("", note, 2, ink::kDim);
  if (!s.run.thresholds.empty()) page.paragraph("", thresholds_text(s.run), 2, ink::kDim);
}

void write_files(TextPage& page, const TextOptions& options) {
  if (options.folder.empty()) return;
  page.blank();
  page.paragraph("  Files", options.folder, kMargin, ink::kCyan);
  page.phrases("", options.files, kMargin, ink::kDim);
}

}  // namespace

std::string summary_text(const Snapshot& s, const TextOptions& options) {
  TextPage page(static_cast<size_t>(std::clamp(options.columns, 60, 400)), options.color);
  write_head(page, s);
  write_verdict(page, s);
  write_ledger(page, s);
  write_step_table(page, s);
  write_epochs(page, s);
  write_ranks(page, s);
  write_memory(page, s);
  write_collectives(page, s);
  write_other_findings(page, s);
  write_checks(page, s);
  write_sections(page, s);
  write_observer(page, s);
  write_files(page, options);
  return page.text();
}

}  // namespace stepscope
