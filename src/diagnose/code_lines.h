// Lines of the program's code that hold the time a finding is about. From answers of ranks to "where are you?", asked
// at random moments (agent/line_sampler.h): how often a line is met in a phase is its share of the phase's time.
//
//   line_scope(finding) ─▶ which samples count     line_of(finding, samples) ─▶ the line, its share, how sure that is
//
// A line is named for a finding
//   of the whole job  by its share of the samples that lie in the finding's phase
//   of a late rank    by its share of what the rank spends there beyond a healthy peer: both walk through the same
//                     lines, and what is as frequent on the peer explains nothing
//   of pauses         by its share of the samples that lie in stays as long as the pauses
//
// Of a line the whole stack counts: the innermost line of the program that has kDecisive of the time, or else the
// function, or else the line that calls it. The line that asks a loader for its next batch is none. Fewer than kFewest
// samples say nothing. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/standing.h"

namespace stepscope {

// One answer, and what the records say the training thread was in at its moment.
struct CodeSample {
  static constexpr size_t kMostLines = 6;

  Category phase = Category::kUnattributed;  // in a stall what it interrupts
  bool stalled = false;                      // it waits for other ranks, or for a transfer
  double stay_ms = 0;                        // the stretch of that phase that the moment lies in
  bool beside = false;                       // of another thread of the rank, not the one that trains
  bool holds_gil = false;
  bool in_interpreter = false;    // Python code ran, not native code
  std::string module;             // of the instruction: "libtorch_cpu.so"; "" = not known
  std::vector<CodeLine> program;  // lines of the program itself, innermost first, at most kMostLines
  CodeLine callee;                // what the innermost of them has called in a library; line 0 = nothing
  bool in_logging = false;        // within a call of a logger: the standard library's, or a tracker's
  bool in_recurrent = false;      // in torch's own RNN, LSTM or GRU: one call that hands out operators for all times

  // The thread neither runs Python nor holds the GIL: it waits for it, for something else, or sleeps.
  bool without_gil() const;
  void take_frames(const std::vector<CodeLine>& frames);  // innermost first
};

using CodeSamples = std::map<int, std::vector<CodeSample>>;  // by rank

// A share of `count` samples that `hits` of them tell: within these (Wilson's, 95 %).
struct ShareInterval {
  double low = 0, high = 1;
};
ShareInterval share_interval(double hits, double count);

// Which samples tell of a finding.
struct LineScope {
  uint32_t phases = 0;       // bits of Category
  bool stalled = false;      // in stalls, otherwise outside of them
  bool beyond_peer = false;  // what a healthy rank does as well is no answer
  double stay_ms = 0;        // in stays of at least that

  bool holds(const CodeSample& sample) const;
};
// Of a phase, however short the stay.
LineScope scope_of(Category phase);
// Nothing for findings that no line explains.
std::optional<LineScope> line_scope(const Finding& finding);

// Of a rank's samples, those of other threads left out: how many there are, in a scope, and of these a hit.
struct Tally {
  double all = 0, in_scope = 0, hits = 0;
  double share() const { return all > 0 ? hits / all : 0; }
};
template <class Hit>
Tally tally(const std::vector<CodeSample>& samples, const LineScope& scope, Hit hit) {
  Tally t;
  for (const CodeSample& sample : samples) {
    if (sample.beside) continue;
    ++t.all;
    if (scope.holds(sample)) ++t.in_scope, t.hits += hit(sample);
  }
  return t;
}

// Where ranks are asked: of warn or crit, and those whose severity depends on the answers.
bool asks_for_lines(const Finding& finding);

struct LineShare {
  std::string place;          // "train.py:61 loop (queue.py:171 get)"
  double share = 0, low = 0;  // of the time in question, and what it is at least (95 %)
  double peer_share = 0;      // beyond a peer: of its time, where `own_share` is the rank's; else 0
  double own_share = 0;
  int rank = -1, peer = -1;
  size_t samples = 0;  // in scope, of the rank
  std::string how;     // "in native code of libtorch_cpu.so", "asleep or waiting"; "" = Python code, or mixed
  bool decisive = false;
};

inline constexpr double kDecisive = 0.5;
inline constexpr double kLeastLow = 0.3;  // what a decisive line has at least (95 %)
inline constexpr size_t kFewest = 8;
inline constexpr double kWaitsForGil = 0.25;  // of a training thread's answers: who holds the GIL is worth a question

std::optional<LineShare> line_of(const Finding& finding, const CodeSamples& samples);

// Another thread of a rank that holds the GIL while the training thread waits.
struct GilHolder {
  std::string place;
  int rank = -1;
  double share = 0;  // of the looks at that thread
  size_t looks = 0;
};
std::optional<GilHolder> gil_holder(const Finding& finding, const CodeSamples& samples);

// Carries it into the finding: evidence; what is decisive stands in title and action too, a line before a holder of the
// GIL.
void add_line(Finding& finding, const CodeSamples& samples);

}  // namespace stepscope
