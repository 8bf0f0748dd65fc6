#include "serve/metrics_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text_format.h"
#include "report/figures.h"

namespace stepscope {
namespace {

std::string label_value(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

// Families in the order of their first sample: all samples of one stand together, as the format asks.
class Families {
 public:
  void add(const char* name, const char* type, const char* help, const std::string& labels,
           std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return;
    const auto [found, is_new] = place_.try_emplace(name, texts_.size());
    if (is_new) texts_.push_back(formatted("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type));
    texts_[found->second] += formatted("{}{{{}}} {}\n", name, labels, *value);
  }
  std::string text() const {
    std::string out;
    for (const std::string& family : texts_) out += family;
    return out;
  }

 private:
  std::map<std::string, size_t> place_;
  std::vector<std::string> texts_;
};

std::optional<double> in_seconds(std::optional<double> ms) { return ms ? std::optional(*ms / 1e3) : std::nullopt; }

void add_job(Families& out, const RunState& run, const std::string& label) {
  const Snapshot& s = *run.snapshot;
  out.add("stepscope_steps_total", "counter", "Completed steps", label, static_cast<double>(s.steps));
  out.add("stepscope_ranks", "gauge", "Ranks of the job", label, s.run.world_size);
  out.add("stepscope_ranks_seen", "gauge", "Ranks that are observed", label, s.run.ranks_seen);
  out.add("stepscope_run_seconds", "gauge", "Since the run began", label, s.run.duration_s);
  const std::pair<const char*, std::optional<double>> quantiles[] = {
      {"0.5", s.wall_ms.p50}, {"0.9", s.wall_ms.p90}, {"0.99", s.wall_ms.p99}};
  for (const auto& [quantile, ms] : quantiles)
    out.add("stepscope_step_seconds", "gauge", "Time per step over the steps analyzed",
            label + ",quantile=" + label_value(quantile), in_seconds(ms));
  for (const LedgerSlice& slice : ledger_slices(s.job_ledger))
    out.add("stepscope_ledger_share", "gauge", "Share of the job's wall time",
            label + ",category=" + label_value(name(slice.category)), slice.share);
  std::array<int, 3> open{};
  for (const Finding& f : s.findings) ++open[static_cast<size_t>(f.severity)];
  for (const Severity severity : {Severity::kInfo, Severity::kWarn, Severity::kCrit})
    out.add("stepscope_findings", "gauge", "Open findings", label + ",severity=" + label_value(name(severity)),
            open[static_cast<size_t>(severity)]);
  for (const Finding& f : s.findings)
    if (f.severity != Severity::kInfo)
      out.add("stepscope_finding_cost_share", "gauge", "Share of wall time that a finding costs",
              label + ",id=" + label_value(f.id) + ",kind=" + label_value(f.kind.str()), f.cost_share);
  out.add("stepscope_observer_lost_records_total", "counter", "Records that were overwritten unread", label,
          static_cast<double>(s.observer.lost));
  out.add("stepscope_observer_coverage_share", "gauge", "Ranks and steps seen of those expected", label,
          s.observer.coverage);
}

void add_rank(Families& out, const RankStat& rank, const std::string& of_run) {
  const std::string label = formatted("{},rank=\"{}\",hostname={}", of_run, rank.rank, label_value(rank.hostname));
  out.add("stepscope_rank_step_seconds", "gauge", "Median time per step", label, in_seconds(rank.step_ms));
  out.add("stepscope_rank_own_seconds", "gauge", "Median time per step without waiting", label,
          in_seconds(rank.own_ms));
  out.add("stepscope_rank_stall_seconds", "gauge", "Median time per step blocked in communication", label,
          in_seconds(rank.stall_ms));
  out.add("stepscope_rank_delays_seconds", "gauge", "Mean time per step that others wait for this rank", label,
          in_seconds(rank.caused_wait_ms));
}

}  // namespace

std::string metrics_text(const std::vector<RunState>& runs) {
  Families out;
  for (const RunState& run : runs) {
    const std::string label = "run=" + label_value(run.name);
    add_job(out, run, label);
    const auto& ranks = run.snapshot->ranks;
    for (size_t i = 0; i < std::min(ranks.size(), kMaxRankSeries); ++i) add_rank(out, ranks[i], label);
  }
  return out.text();
}

}  // namespace stepscope
