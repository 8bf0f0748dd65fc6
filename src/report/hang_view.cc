#include "report/hang_view.h"

#include <algorithm>
#include <map>

#include "base/text_format.h"
#include "report/figures.h"
#include "report/json_write.h"
#include "report/text_page.h"

namespace stepscope {
namespace {

using flight::Culprit;
using flight::Kind;
using flight::Outcome;

constexpr size_t kRowsShown = 12;

std::string meaning(Kind kind) {
  switch (kind) {
    case Kind::kGpuNeverFinishes: return "GPU work never finishes: peers have finished what this GPU has not";
    case Kind::kHostStuck:
      return "GIL held, or Python stuck: all it issued is done, the next operation is never issued";
    case Kind::kMismatched: return "mismatched operation: others issued something else at the same place";
    case Kind::kCrossedOrder: return "crossed order: ranks wait for each other in different operations";
    case Kind::kSilent: return "silent: others wait for it, and nothing is known of it";
  }
  return "";
}

std::string headline(const flight::Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kCulprits: return "STUCK";
    case Outcome::kAllArrived: return "NOBODY IS LATE";
    case Outcome::kNothingStuck: return "NOTHING IS STUCK";
    case Outcome::kUndecided: return "UNDECIDED";
  }
  return "";
}

Ink style_of(Outcome outcome) {
  return outcome == Outcome::kCulprits ? ink::kRed : outcome == Outcome::kNothingStuck ? ink::kGreen : ink::kYellow;
}

std::string compact(const std::vector<int>& ranks) {
  if (ranks.empty()) return "";
  const std::string text = format_ranks(ranks);
  return text.substr(text.find(' ') + 1);
}

std::string label(const flight::GroupRow& row) {
  return row.description.empty() ? "group " + row.name : row.description + " " + row.name;
}

void write_culprits(TextPage& page, const flight::Verdict& verdict) {
  std::map<Kind, std::vector<int>> by_kind;
  for (const Culprit& culprit : verdict.culprits) by_kind[culprit.kind].push_back(culprit.rank);
  for (const auto& [kind, ranks] : by_kind)
    page.paragraph("", format_ranks(ranks) + ": " + meaning(kind) + ".", 2, ink::kBold);
  if (!verdict.victims.empty()) page.paragraph("", "Waiting for them: " + format_ranks(verdict.victims) + ".", 2);
  page.blank();
  for (const Culprit& culprit : verdict.culprits) {
    for (size_t i = 0; i < culprit.reasons.size(); ++i) {
      page.paragraph(i == 0 ? formatted("  rank {}", culprit.rank) : "", culprit.reasons[i], 14);
    }
  }
}

// Groups in which somebody is late first.
std::vector<const flight::GroupRow*> ordered(const flight::Verdict& verdict) {
  std::vector<const flight::GroupRow*> rows;
  for (const auto& row : verdict.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const flight::GroupRow* row) {
    return (row->missing.size() + row->finished.size() + row->unknown.size() > 0) * 2 +
           (row->operation.find("->") == std::string::npos);
  });
  return rows;
}

void write_rows(TextPage& page, const flight::Verdict& verdict) {
  if (verdict.rows.empty()) return;
  const auto rows = ordered(verdict);
  const size_t shown = std::min(rows.size(), kRowsShown);
  page.heading("Groups with unfinished operations",
               shown < rows.size() ? formatted("{} of {}", shown, rows.size()) : "");
  Table table{{{.title = "Group", .right = false, .least_width = 20},
               {.title = "Earliest unfinished", .right = false, .least_width = 20},
               {.title = "Waiting", .right = false},
               {.title = "Not issued", .right = false},
               {.title = "Finished", .right = false},
               {.title = "Not seen", .right = false, .priority = 1},
               {.title = "Called at", .right = false, .priority = 2}},
              {}};
  for (size_t i = 0; i < shown; ++i) {
    const auto& row = *rows[i];
    table.add({label(row), row.operation, compact(row.waiting), compact(row.missing), compact(row.finished),
               compact(row.unknown), row.frame},
              i == 0 ? RowMark::kStrong : RowMark::kNone);
  }
  page.table(table);
}

}  // namespace

std::string hang_text(const flight::Verdict& verdict, const flight::JobDumps& job, const TextOptions& options) {
  TextPage page(static_cast<size_t>(std::clamp(options.columns, 60, 400)));
  page.line(
      {{"stepscope hang", ink::kBold}, {formatted("  {} dumps of {} ranks", job.dumps.size(), job.world.size())}});
  page.rule();
  page.blank();
  page.line({{"  " + headline(verdict), style_of(verdict.outcome)}});
  if (!verdict.reason.empty()) page.paragraph("", verdict.reason, 2);
  if (!verdict.culprits.empty()) write_culprits(page, verdict);
  if (!job.no_dump.empty()) page.paragraph("", "No dump of " + format_ranks(job.no_dump) + ".", 2, ink::kYellow);
  if (!job.silent.empty()) page.paragraph("", "Nothing recorded on " + format_ranks(job.silent) + ".", 2, ink::kYellow);
  write_rows(page, verdict);
  return page.text(options.color);
}

std::string hang_json(const flight::Verdict& verdict, const flight::JobDumps& job) {
  OrderedJson culprits = OrderedJson::array(), groups = OrderedJson::array();
  for (const Culprit& culprit : verdict.culprits) {
    culprits.push_back({{"rank", culprit.rank},
                        {"kind", std::string(name(culprit.kind))},
                        {"meaning", meaning(culprit.kind)},
                        {"reasons", culprit.reasons}});
  }
  for (const auto& row : verdict.rows) {
    groups.push_back({{"name", row.name},
                      {"description", json_text_or_null(row.description)},
                      {"ranks", row.ranks},
                      {"operation", row.operation},
                      {"waiting", row.waiting},
                      {"not_issued", row.missing},
                      {"finished", row.finished},
                      {"not_seen", row.unknown},
                      {"called_at", json_text_or_null(row.frame)}});
  }
  OrderedJson out;
  out["schema_version"] = "1.0";
  out["outcome"] = std::string(name(verdict.outcome));
  out["reason"] = json_text_or_null(verdict.reason);
  out["culprits"] = std::move(culprits);
  out["victims"] = verdict.victims;
  out["dumps"] = job.dumps.size();
  out["world_size"] = job.world.size();
  out["no_dump"] = job.no_dump;
  out["silent"] = job.silent;
  out["groups"] = std::move(groups);
  return json_layout(out);
}

}  // namespace stepscope
