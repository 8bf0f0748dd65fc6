#include "report/summary_html.h"

#include <algorithm>

#include "base/text_format.h"
#include "report/epoch_rows.h"
#include "report/evidence_table.h"
#include "report/figures.h"
#include "report/html_charts.h"
#include "report/html_text.h"
#include "report/ledger_bar.h"
#include "report/narrative.h"
#include "report/rank_rows.h"

namespace stepscope {
namespace {

constexpr size_t kMaxRanksShown = 64;
constexpr size_t kMaxBars = 16;
constexpr size_t kMaxEpochs = 24;

std::string esc(std::string_view text) { return html_escaped(text); }

std::string phrases(const std::vector<std::string>& items) {
  std::string out = "<div class=\"phrases\">";
  for (const std::string& item : items) {
    if (!item.empty()) out += "<span>" + esc(item) + "</span>";
  }
  return out + "</div>";
}

std::string title(std::string_view text, std::string_view aside = "") {
  return formatted("<h3>{}{}</h3>", esc(text), aside.empty() ? "" : "<small>" + esc(aside) + "</small>");
}

std::string card(const std::string& content) {
  return content.empty() ? "" : "<section class=\"card\">" + content + "</section>\n";
}

// A table; the columns named in `left` stand left.
class HtmlTable {
 public:
  HtmlTable(std::vector<std::string> titles, std::vector<size_t> left) : left_(std::move(left)) {
    row("th", titles, "");
  }
  void add(const std::vector<std::string>& cells, std::string_view row_class = "") { row("td", cells, row_class); }
  // `table_class` "wide": cells that stand left may wrap.
  std::string html(std::string_view table_class = "") const {
    return formatted("<div class=\"scroll\"><table class=\"{}\">{}</table></div>", table_class, rows_);
  }

 private:
  void row(std::string_view tag, const std::vector<std::string>& cells, std::string_view row_class) {
    rows_ += row_class.empty() ? "<tr>" : formatted("<tr class=\"{}\">", row_class);
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool left = std::find(left_.begin(), left_.end(), i) != left_.end();
      rows_ += formatted("<{0}{1}>{2}</{0}>", tag, left ? " class=\"left\"" : "", esc(cells[i]));
    }
    rows_ += "</tr>\n";
  }
  std::vector<size_t> left_;
  std::string rows_;
};

std::string rank_or_dash(std::optional<int> rank) { return rank ? formatted("{}", *rank) : std::string(kNotMeasured); }

std::string verdict_html(const Snapshot& s) {
  const Verdict v = verdict_of(s);
  std::string facts;
  for (const Fact& f : v.facts) {
    facts += formatted(
        "<tr><td class=\"left soft\">{}</td><td class=\"left\">{}</td><td>{}</td><td class=\"left\">{}</td></tr>",
        esc(f.label), esc(f.who), esc(f.value), esc(f.others));
  }
  std::string numbers;
  if (!v.cost.empty()) numbers += "<div><span>costs</span><b>" + esc(v.cost) + "</b></div>";
  if (!v.saves.empty()) numbers += "<div><span>saves</span><b>" + esc(v.saves) + "</b></div>";
  std::string out = formatted(
      "<section class=\"card verdict {0}\"><div class=\"badge\">{1}{2}</div><h2>{3}</h2>", name(v.severity),
      esc(v.name), v.severity == Severity::kInfo ? "" : "<small>" + std::string(name(v.severity)) + "</small>",
      esc(v.headline));
  if (!facts.empty()) out += "<table class=\"facts\">" + facts + "</table>";
  if (!numbers.empty()) out += "<div class=\"numbers\">" + numbers + "</div>";
  out += phrases(v.context);
  if (!v.action.empty()) out += "<div class=\"next\"><b>Next</b>" + esc(v.action) + "</div>";
  return out + "</section>\n";
}

// A rank's ledger within its steps: what the bars compare.
LedgerNs within_steps(LedgerNs ledger) {
  ledger[index(Category::kStartup)] = ledger[index(Category::kTeardown)] = 0;
  return ledger;
}

std::string rank_bars(const Snapshot& s) {
  const std::vector<const RankStat*> ranks = ranks_to_show(s, kMaxBars);
  if (ranks.size() < 2) return "";
  const std::set<int> culprits = culprit_ranks(s);
  double longest = 0;
  const auto sum_of = [](const LedgerNs& ledger) {
    double sum = 0;
    for (int64_t ns : ledger) sum += static_cast<double>(std::max<int64_t>(ns, 0));
    return sum;
  };
  for (const RankStat* r : ranks) longest = std::max(longest, sum_of(within_steps(r->ledger)));
  if (longest <= 0) return "";
  std::string out = "<div class=\"bars\">";
  for (const RankStat* r : ranks) {
    const LedgerNs ledger = within_steps(r->ledger);
    out += formatted("<span{}>rank {}</span>{}<span class=\"soft\">{}</span>",
                     culprits.contains(r->rank) ? " class=\"mark\"" : "", r->rank,
                     svg_ledger_bar(ledger, 14, sum_of(ledger) / longest), esc(format_ms(r->step_ms)));
  }
  return out + "</div>";
}

std::string ledger_html(const Snapshot& s) {
  std::vector<LedgerSlice> slices = ledger_slices(s.job_ledger);
  if (slices.empty()) return "";
  std::stable_sort(slices.begin(), slices.end(),
                   [](const LedgerSlice& a, const LedgerSlice& b) { return a.share > b.share; });
  std::string legend = "<div class=\"legend\">";
  for (const LedgerSlice& slice : slices) {
    const double ms = s.steps > 0 ? static_cast<double>(slice.ns) / 1e6 / s.steps : 0;
    legend +=
        formatted("<span><i class=\"c-{}\"></i>{}<b>{}</b> <span class=\"soft\">{}</span></span>", name(slice.category),
                  esc(category_label(name(slice.category))), format_share(slice.share), format_ms(ms));
  }
  legend += "</div>";
  return title("Where the time went", formatted("mean over {}, {} steps{}", ranks_meant(s.run), format_count(s.steps),
                                                s.job_clock == "gpu" ? ", GPU clock" : "")) +
         svg_ledger_bar(s.job_ledger, 30) + legend + rank_bars(s);
}

std::string step_table_html(const Snapshot& s) {
  const std::vector<EvidenceRow> rows = step_time_rows(s);
  if (rows.empty()) return "";
  HtmlTable table({"", "Median", "Worst", "Worst Rank", "Skew %", "Share"}, {0});
  for (const EvidenceRow& row : rows) {
    const std::string label = row.name == "step"    ? "step (wall)"
                              : row.name == "stall" ? "waiting + transfer"
                                                    : category_label(row.name);
    table.add({label, format_ms_bare(row.median), format_ms_bare(row.worst), rank_or_dash(row.worst_rank),
               format_skew(row.skew_pct), format_share(row.share)},
              row.name == "step" ? "strong" : "");
  }
  return title("Step time", "own time per step in ms: without waiting for other ranks") + table.html() +
         phrases(step_phrases(s));
}

std::string steps_html(const Snapshot& s) {
  const std::string series = svg_step_series(s);
  if (series.empty()) return "";
  std::string legend = "<div class=\"legend soft\"><span>own time, ratio to the lower median of the ranks:</span>";
  for (int level = 0; level < kHeatLevels; ++level) {
    const std::string text =
        level + 1 < kHeatLevels ? formatted("≤ {}", kHeatBounds[level]) : formatted("> {}", kHeatBounds[level - 1]);
    legend += formatted("<span><i class=\"h{}\"></i>{}</span>", level, text);
  }
  legend += "</div>";
  return title("Steps", formatted("wall time of steps {} to {}, dashed: the median; below: own time, rank × step",
                                  s.recent.front().step, s.recent.back().step)) +
         "<div class=\"heat\"><span></span>" + series + svg_heat_strip(s) +
         formatted("<span></span><div class=\"axis\"><span>step {}</span><span>step {}</span></div></div>",
                   s.recent.front().step, s.recent.back().step) +
         legend;
}

std::string epochs_html(const Snapshot& s) {
  const EpochTable epochs = epoch_table(s, kMaxEpochs);
  if (epochs.rows.empty()) return "";
  HtmlTable table(epochs.titles, {});
  for (const std::vector<std::string>& row : epochs.rows) table.add(row);
  std::string out =
      title("Epochs", "shares of the epoch's time, mean over ranks; what follows the last step is not in it") +
      table.html();
  if (!epochs.note.empty()) out += "<p class=\"soft\">" + esc(epochs.note) + "</p>";
  return out;
}

std::string ranks_html(const Snapshot& s) {
  if (s.ranks.empty()) return "";
  const std::vector<const RankStat*> ranks = ranks_to_show(s, kMaxRanksShown);
  const std::set<int> culprits = culprit_ranks(s);
  HtmlTable table({"Rank", "Host", "Steps", "Step", "Own", "Waits", "Makes wait", "Input", "Forward", "Backward",
                   "Optimizer", "CPU", "Peak RSS", "Samples/s", "Tokens/s", "State"},
                  {1, 15});
  for (const RankStat* r : ranks) {
    const auto phase = [&](const char* name) {
      const auto found = r->phase_ms.find(name);
      return found == r->phase_ms.end() ? std::string(kNotMeasured) : format_ms_bare(found->second);
    };
    table.add({formatted("{}", r->rank), r->hostname, format_count(r->steps), format_ms_bare(r->step_ms),
               format_ms_bare(r->own_ms), format_ms_bare(r->stall_ms), format_ms_bare(r->caused_wait_ms),
               phase("input_wait"), phase("forward"), phase("backward"), phase("optimizer"),
               format_percent(r->cpu_share), format_bytes(r->rss_peak_bytes), format_value("", r->samples_per_s),
               format_value("", r->tokens_per_s), rank_state_text(*r)},
              culprits.contains(r->rank) ? "mark" : "");
  }
  std::string out =
      title("Ranks", "ms per step; own: without waiting; makes wait: how long others wait for it") + table.html();
  if (ranks.size() < s.ranks.size()) {
    out += formatted(
        "<p class=\"soft\">{} of {} ranks: those that others wait for most; final_summary.json holds them all.</p>",
        ranks.size(), s.ranks.size());
  }
  return out;
}

std::string memory_html(const Snapshot& s) {
  const std::vector<EvidenceRow> rows = memory_rows(s);
  if (rows.empty()) return "";
  HtmlTable table({"", "Median", "Worst", "Worst Rank", "Skew %"}, {0});
  for (const EvidenceRow& row : rows) {
    table.add({value_label(row.name), format_bytes(row.median), format_bytes(row.worst), rank_or_dash(row.worst_rank),
               format_skew(row.skew_pct)});
  }
  return title("Step memory", "of the device") + table.html();
}

std::string collectives_html(const Snapshot& s) {
  if (s.collectives.empty()) return "";
  HtmlTable table({"Group", "Op", "Calls", "Bytes", "Transfer ms", "Wait ms", "Bus GB/s"}, {0, 1});
  for (size_t i = 0; i < std::min(s.collectives.size(), kMaxRanksShown); ++i) {
    const CollectiveStat& c = s.collectives[i];
    table.add({c.group, c.op, format_value("calls", c.per_step), format_bytes(c.bytes_per_step),
               format_ms_bare(c.transfer_ms), format_ms_bare(c.wait_ms), format_value("rate", c.bus_gb_per_s)});
  }
  return title("Collectives", "per step") + table.html("wide");
}

std::string other_findings_html(const Snapshot& s) {
  HtmlTable table({"Severity", "Kind", "Finding", "Costs", "Next"}, {0, 1, 2, 4});
  bool any = false;
  for (size_t i = 0; i < std::min<size_t>(s.findings.size(), 200); ++i) {
    if (static_cast<int>(i) == s.primary) continue;
    const Finding& f = s.findings[i];
    table.add({std::string(name(f.severity)), display_name(f.kind), f.title,
               f.cost_share > 0 ? format_percent(f.cost_share) : "", f.action});
    any = true;
  }
  return any ? title("Also found") + table.html("wide") : "";
}

std::string checks_html(const Snapshot& s) {
  return s.checks.empty() ? "" : "<h2>Checks</h2>" + phrases(check_phrases(s));
}

std::string sections_html(const Snapshot& s) {
  std::string out = "<div class=\"sections\">";
  for (const Section& section : ordered_sections(s)) {
    const bool unknown = section.diagnosis == FindingKind::kNoData;
    out += formatted("<section class=\"card {}\"><h3>{}</h3><div class=\"badge\">{}</div><p>{}</p>",
                     unknown ? "none" : name(section.severity), esc(section_title(section.name)),
                     esc(display_name(section.diagnosis)), esc(section.text));
    std::string values;
    for (const auto& [key, value] : section.values) {
      if (value) values += formatted("<dt>{}</dt><dd>{}</dd>", esc(value_label(key)), esc(format_value(key, value)));
    }
    if (!values.empty()) out += "<dl>" + values + "</dl>";
    out += "</section>";
  }
  return out + "</div>\n";
}

std::string footer_html(const Snapshot& s) {
  std::string out = "<footer>" + phrases(observer_phrases(s.observer));
  for (const std::string& reason : s.observer.unavailable) out += "<p>not available: " + esc(reason) + "</p>";
  for (const std::string& note : s.observer.notes) out += "<p>" + esc(note) + "</p>";
  if (!s.run.thresholds.empty()) out += "<p>" + esc(thresholds_text(s.run)) + "</p>";
  std::string command;
  for (const std::string& word : s.run.command) command += (command.empty() ? "" : " ") + word;
  if (!command.empty()) out += "<p><code>" + esc(command) + "</code></p>";
  std::vector<std::string> versions;
  for (const auto& [name, version] : s.run.versions) versions.push_back(name + " " + version);
  return out + phrases(versions) + "</footer>\n";
}

}  // namespace

std::string summary_html(const Snapshot& s) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
  out += "<title>" + esc(verdict_of(s).name + " · " + s.run.name) + "</title><style>" + html_style() +
         "</style></head>\n<body><main>\n";
  out += "<header><span class=\"brand\">stepscope</span><h1>" + esc(s.run.name) + "</h1>" +
         phrases(run_phrases(s.run, s.steps)) + "</header>\n";
  out += verdict_html(s);
  out += card(ledger_html(s));
  out += card(step_table_html(s));
  out += card(steps_html(s));
  out += card(epochs_html(s));
  out += card(ranks_html(s));
  out += card(memory_html(s));
  out += card(collectives_html(s));
  out += card(other_findings_html(s));
  out += card(checks_html(s));
  out += sections_html(s);
  out += footer_html(s);
  return out + "</main></body></html>\n";
}

}  // namespace stepscope
