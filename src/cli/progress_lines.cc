#include "cli/progress_lines.h"

#include <array>

#include "base/clock.h"
#include "base/text_format.h"
#include "cli/agent_link.h"
#include "report/text_layout.h"

namespace stepscope {
namespace {

constexpr uint64_t kAskForLinesNs = 2'000'000'000;
constexpr double kTooEarlyS = 5;   // what a few steps say
constexpr double kFlappingS = 10;  // verdicts that come and go are said no more often than this

}  // namespace

double progress_due_s(size_t index) {
  constexpr std::array kFirst = {10.0, 30.0, 60.0, 120.0, 300.0};
  return index < kFirst.size() ? kFirst[index] : 600.0 * static_cast<double>(index - kFirst.size() + 1);
}

std::string verdict_key(const Snapshot& s) {
  if (s.primary < 0) return "";
  const Finding& f = s.findings[static_cast<size_t>(s.primary)];
  if (f.severity == Severity::kInfo) return "";
  return formatted("{} {} {} {}", f.kind.str(), name(f.severity), format_ranks(f.ranks), f.phase);
}

std::string progress_line(const tui::Told& told) {
  const Snapshot& s = told.snapshot;
  const Verdict& v = told.page.verdict;
  std::vector<std::string> parts;
  if (s.run.duration_s > 0) parts.push_back(format_seconds(s.run.duration_s));
  parts.push_back(format_count(s.steps) + (s.steps == 1 ? " step" : " steps"));
  if (s.wall_ms.p50) parts.push_back("p50 " + format_ms(s.wall_ms.p50));
  for (std::string& phrase : value_phrases(s.throughput)) parts.push_back(std::move(phrase));
  if (v.severity != Severity::kInfo)
    parts.push_back(formatted("{} ({}): {}", v.name, name(v.severity), v.headline));
  else
    parts.push_back(v.name);
  if (v.severity != Severity::kInfo && !v.cost.empty()) parts.push_back("costs " + v.cost);
  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : " · ") + printable(part);
  return line;
}

ProgressLines::ProgressLines(const CompanionPlace& place)
    : source_(place.shm_dir, kAskForLinesNs), began_ns_(monotonic_ns()) {}

void ProgressLines::turn(uint64_t now_ns) {
  if (!source_.turn(now_ns)) return;
  const double now_s = static_cast<double>(now_ns - began_ns_) * 1e-9;
  const std::string verdict = verdict_key(source_.told()->snapshot);
  const bool settled = changed_ns_ == 0 || static_cast<double>(now_ns - changed_ns_) * 1e-9 >= kFlappingS;
  const bool changed = verdict != verdict_ && settled && now_s >= kTooEarlyS;
  const bool due = now_s >= progress_due_s(lines_);
  if (!changed && !due) return;
  say(progress_line(*source_.told()));
  if (changed) changed_ns_ = now_ns;
  verdict_ = verdict;
  while (now_s >= progress_due_s(lines_)) ++lines_;
}

}  // namespace stepscope
