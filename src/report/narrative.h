// What a snapshot says, in sentences: the words that text, HTML and terminal views share. Pure; no colour, no layout.
// Strings from the run are passed on as they are: the view makes them printable or escapes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

// One measured fact, as columns: "backward own time | rank 1 | 63.0 ms | others 14.2 ms".
struct Fact {
  std::string label, who, value, others;
};

struct Verdict {
  std::string name;  // display name of the kind
  Severity severity = Severity::kInfo;
  std::string headline;              // one sentence
  std::vector<Fact> facts;           // why
  std::vector<std::string> context;  // when, how often, cause, how sure: short phrases
  std::string cost, saves;           // "" where it does not apply
  std::string saves_share;           // the share of `saves` alone: "29 to 36 %"
  std::string action;                // next step
  std::string explain;               // command that tells more: "stepscope explain COMPUTE_STRAGGLER", "" = none
};

// The verdict over all: the primary finding, else what the snapshot's state says.
Verdict verdict_of(const Snapshot& snapshot);
Verdict verdict_of(const Snapshot& snapshot, const Finding& finding);

// "2 ranks on 1 node" or "2 of 4 ranks seen, on 1 node", "240 steps", "31.2 s", "completed", "started
// 2026-03-02T10:15:00Z"
std::vector<std::string> run_phrases(const RunInfo& run, uint64_t steps);

// Whose mean a figure is: "ranks", "the 2 ranks seen".
std::string ranks_meant(const RunInfo& run);

// How a run ended, for people: "completed", "crashed (exit code 1)", "killed by SIGKILL (exit code 137)".
std::string status_text(const RunInfo& run);

// The checks that "healthy" is made of, one phrase each, those that failed first: "✗ a finding costs 12 %
// (COMM_BOUND)".
std::vector<std::string> check_phrases(const Snapshot& s);

// "thresholds changed: warn_share 0.1 (default 0.05)"; "" when every one has its default.
std::string thresholds_text(const RunInfo& run);

// "9,812 records, none lost", "coverage 100 %": what the figures rest on.
std::vector<std::string> observer_phrases(const ObserverStat& observer);

// "p50 79.4 ms", ..., "237 of 240 steps analyzed", "804 samples/s": the step in numbers.
std::vector<std::string> step_phrases(const Snapshot& snapshot);

// "cpu 48.0 %", "memory used 2.89 GiB"; what was not measured is left out.
std::vector<std::string> value_phrases(const std::map<std::string, std::optional<double>>& values);

// "Step Time" for "step_time".
std::string section_title(std::string_view name);

}  // namespace stepscope
