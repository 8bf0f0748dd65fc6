// Asks the ranks of this node where they are (blackbox::StackBox) and collects what they answer. Never waits: a
// question of one pass is read in the next.
//
// A rank is asked only while its process catches the signal (one that exec'ed would die of it), at most every kPauseNs,
// after kDense answers every kRareNs. The answers since reset() are one stack per rank: the newest frames, with what
// all samples together say of GIL and native code. One thread. Cost: two small files and a system call per question;
// the rank's part takes 0.1 ms.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/rank_tail.h"
#include "diagnose/standing.h"

namespace stepscope {

class StackAsker {
 public:
  static constexpr uint64_t kPauseNs = 300'000'000, kRareNs = 5'000'000'000;
  static constexpr int kDense = 12;  // answers until it is asked rarely

  // Takes the answer to the last question, if there is one, and asks again when it is time to.
  void look(int rank, const RankTail& tail, uint64_t now_ns);
  std::optional<ThreadStack> stack(int rank) const;
  // Why there is none: "switched off", "no answer: the thread handles no signals"; "" while it may still come.
  std::string why_not(int rank, uint64_t now_ns) const;
  void reset() { asked_.clear(); }

 private:
  struct Asked {
    uint16_t request = 0;
    uint64_t asked_ns = 0, first_ns = 0;
    bool open = false;
    int answers = 0, with_gil = 0, in_interpreter = 0;
    ThreadStack stack;
    std::string reason;
  };
  void take(Asked& asked, const RankTail& tail);

  std::map<int, Asked> asked_;
  uint16_t next_request_ = 1;
};

}  // namespace stepscope
