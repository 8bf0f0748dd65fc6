// What the sampler knows, as series of the run file: every field of HostFacts that is a series gets a name and a scope.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "align/host_facts.h"
#include "store/run_record.h"
#include "store/run_writer.h"

namespace stepscope {

// Calls `take` with each series that has samples: scope host (idx -1), cgroup (its index), rank and worker (the rank),
// device (its index).
void for_each_series(const HostFacts& facts, const std::function<void(const SeriesKey&, const SampledSeries&)>& take);

// Hands new samples to a writer: the newest value of each series that has been sampled since the last call. Remembers
// one count per series.
class FactFeeder {
 public:
  void feed(const HostFacts& facts, RunWriter& writer);

 private:
  std::map<SeriesKey, uint64_t> seen_;
};

}  // namespace stepscope
