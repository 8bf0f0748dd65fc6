// A finding: one diagnosis with culprits, cost, evidence and advice. The same object in summary, API and exporters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding_kind.h"

namespace stepscope {

enum class Severity : uint8_t { kInfo, kWarn, kCrit };
constexpr std::string_view name(Severity s) {
  return s == Severity::kCrit ? "crit" : s == Severity::kWarn ? "warn" : "info";
}

// One measured fact that supports a finding. Null fields are left out of the JSON.
struct Evidence {
  std::string name;  // with unit, e.g. "stall_ms"
  std::optional<int> rank;
  std::optional<double> value;
  std::optional<double> others_median;
  std::string text;  // for facts that are words
};

// What fixing it gives back, as shares of wall time: the steps replayed without it. low to high is what to expect
// (analyze/saved_range.h); both are null in files of older versions.
struct Saving {
  double share = 0;
  std::optional<double> low, high;
  std::string caveat;  // why the range is wide; "" = nothing to say
};

struct Finding {
  std::string id;  // "f1", in order of opening
  KindWord kind;
  Severity severity = Severity::kInfo;
  bool job_scope = false;           // about the whole job: no ranks
  bool of_seen = false;             // only some of the job's ranks were seen: job_scope then means all of those
  std::vector<int> ranks, victims;  // culprits only; who waits for them
  std::string phase;                // category name or ""
  CauseWord cause;                  // none = not known
  std::string explained_by;         // id of the finding whose effect this one is; "" = it stands for itself
  std::string pattern;              // chronic, rotating, drifting, transient or ""
  int64_t first_step = -1, last_step = -1, detected_step = -1;  // -1 = does not apply
  double cost_share = 0, cost_seconds = 0;                      // of the job's wall time
  std::optional<Saving> saves;                                  // null = not known
  double confidence = 0, coverage = 0;                          // 0..1
  std::string clock = "cpu";                                    // "cpu" or "gpu"
  SectionWord section;
  std::string title, action;  // one line each
  std::vector<Evidence> evidence;

  // With what the table says of the kind: its section, and the scope where it leaves no choice.
  static Finding of(FindingKind kind) {
    return {.kind = kind, .job_scope = scope_of(kind) == KindScope::kJob, .section = section_of(kind)};
  }
  std::string_view scope() const { return !job_scope ? "ranks" : of_seen ? "seen" : "job"; }
  std::string doc() const { return page_of(kind); }
};

}  // namespace stepscope
