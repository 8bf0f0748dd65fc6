// Finds the line of code behind a finding: while one of warn or crit is open that a line would explain
// (diagnose/code_lines.h), the ranks it is about are asked where they are at random moments, and of a late rank one
// healthy peer. An answer is kept once the records have come past its moment and tell what the training thread was in.
//
// Where the training thread is often met waiting without the GIL, every other question goes to the busiest of its
// namesakes among the process's threads that use a core (those that libraries have named are left alone): it may be who
// holds the GIL.
//
// Nobody is asked before something is suspected, while somebody else asks (hang_watch.h), or who is leaving. Of each
// rank at most kMost questions for one suspicion, fewer once kEnough answers lie in the time in question, and never
// more than a thousandth of its process's time pays for at kCostNs each.
//
// A rank that lives on another node is asked by that node's agent (RemoteRank::want_lines), with limits of its own.
//
// One thread, the agent's; never waits. Cost: while nothing is suspected a look at the open findings every kChooseNs;
// per answer that counts a reading of the process's maps (1 ms), and 0.1 us per record of a rank that is asked.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "agent/pipeline.h"
#include "diagnose/code_lines.h"

namespace stepscope {

class LineSampler {
 public:
  static constexpr uint64_t kShortestNs = 100'000'000, kLongestNs = 300'000'000, kChooseNs = 200'000'000;
  static constexpr uint64_t kCostNs =
      300'000;  // a question to a stack of 20 frames takes the rank 0.28 ms (docs/hang.md)
  static constexpr double kMostOfTime = 0.001;
  static constexpr int kMost = 200;      // questions to a rank for one suspicion
  static constexpr int kHopeless = 80;   // without kFewest / 2 answers in the time in question: nothing will come of it
  static constexpr size_t kEnough = 64;  // answers in the time in question
  static constexpr size_t kMostRanks = 2;  // of one finding that are asked; a peer comes on top

  // `seed`: of the moments. `on`: --stacks off says no.
  explicit LineSampler(bool on, uint64_t seed = 1) : on_(on), random_(seed) {}

  // Takes what has been answered, and asks who is due. `quiet`: nobody is asked now. `also`: ranks here that another
  // node's agent would like to be asked.
  void look(Pipeline& pipeline, uint64_t now_ns, bool quiet, const std::set<TailId>& also = {});
  // How long the agent may wait until somebody is due: at most `most_ms`.
  int wait_ms(uint64_t now_ns, int most_ms) const;
  // "rank 0 12 questions 11 answers, …"; "nobody was asked".
  std::string account() const;

 private:
  struct Waiting {
    int64_t at_ns = 0;
    uint64_t pc = 0;
    CodeSample sample;
  };
  struct Asked {
    int rank = -1;
    bool wanted = false, open = false, deaf = false, elsewhere = false;
    uint16_t request = 0;
    uint64_t asked_ns = 0, next_ns = 0;
    int questions = 0, answers = 0;
    size_t met = 0, without_gil = 0;     // answers of the training thread; of these it waited
    uint32_t beside = 0;                 // the other thread that the open question went to; 0 = none
    std::map<uint32_t, uint64_t> ticks;  // of the process's threads, when they were last looked at
    uint64_t ticks_ns = 0;
    std::set<uint32_t> no_python;  // threads that know no Python
    std::vector<Waiting> waiting;  // for records that tell the phase
  };
  void choose(Pipeline& pipeline, uint64_t now_ns, const std::set<TailId>& also);
  void want(const Finding& finding, const LineScope& scope, Pipeline& pipeline,
            const std::map<int, Pipeline::TailId>& all);
  uint32_t other_thread(Asked& asked, const RankTail& tail, uint64_t now_ns);
  void take(Asked& asked, Pipeline::TailId id, Pipeline& pipeline, const RankTail& tail);
  void settle(Asked& asked, Pipeline::TailId id, Pipeline& pipeline);
  void ask(Asked& asked, const RankTail& tail, uint64_t now_ns);

  bool on_, quiet_ = false;
  std::mt19937_64 random_;
  std::map<Pipeline::TailId, Asked> asked_;
  std::map<std::string, std::map<int, int>> spent_;  // by suspicion and rank: questions before it was first seen
  uint16_t next_request_ = 1;
  uint64_t choose_ns_ = 0;
};

}  // namespace stepscope
