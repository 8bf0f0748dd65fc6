// How many ranks compute at a time: spans of work, each with the share of it that is spent on a core, are added up and
// asked for means over other spans. Pure; settle() O(n log n), mean() O(log n).
#pragma once

#include <vector>

namespace stepscope {

class BusyRanks {
 public:
  void add(double begin, double end, double busy);
  // After the last add(), before mean().
  void settle();
  // Mean of what is busy from `begin` to `end`.
  double mean(double begin, double end) const;
  // Mean pace from `begin` to `end` of work that is itself counted with `own`, where each other that is busy makes work
  // take per_peer longer: of 1 / (1 + per_peer × others). O(edges between).
  double mean_pace(double begin, double end, double own, double per_peer) const;

 private:
  struct Edge {
    double at = 0, change = 0;
  };
  double integral(double until) const;

  std::vector<Edge> edges_;
  std::vector<double> level_, sum_;  // behind each edge; integral up to it
};

}  // namespace stepscope
