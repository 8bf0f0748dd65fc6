// A finding: one diagnosis with culprits, cost, evidence and advice. The same object in summary, API and exporters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

enum class Severity : uint8_t { kInfo, kWarn, kCrit };
constexpr std::string_view name(Severity s) {
  return s == Severity::kCrit ? "crit" : s == Severity::kWarn ? "warn" : "info";
}

// One measured fact that supports a finding. Null fields are left out of the JSON.
struct Evidence {
  std::string name;                     // with unit, e.g. "stall_ms"
  std::optional<int> rank;
  std::optional<double> value;
  std::optional<double> others_median;
  std::string text;                     // for facts that are words
};

struct Finding {
  std::string id;                       // "f1", in order of opening
  std::string kind;                     // DESIGN section 5, e.g. "COMPUTE_STRAGGLER"
  Severity severity = Severity::kInfo;
  bool job_scope = false;               // about the whole job: no ranks
  std::vector<int> ranks, victims;      // culprits only; who waits for them
  std::string phase;                    // category name or ""
  std::string cause;                    // "" = unknown
  std::string pattern;                  // chronic, rotating, drifting, transient or ""
  int64_t first_step = -1, last_step = -1, detected_step = -1;  // -1 = does not apply
  double cost_share = 0, cost_seconds = 0;   // of the job's wall time
  std::optional<double> saves_share;         // what-if: share of wall time that fixing it gives back
  double confidence = 0, coverage = 0;       // 0..1
  std::string clock = "cpu";                 // "cpu" or "gpu"
  std::string section;                       // system, process, step_time, step_memory
  std::string title, action;                 // one line each
  std::vector<Evidence> evidence;

  std::string doc() const;                   // "findings/compute-straggler"
};

// "COMPUTE_STRAGGLER" -> "COMPUTE STRAGGLER", as people know it; MEMORY_CREEP_EARLY -> "MEMORY CREEP (EARLY)".
std::string display_name(std::string_view kind);

}  // namespace stepscope
