// A time series of fixed memory: when it is full, neighbouring points merge in pairs and each new point stands for
// twice as many samples. Points are means of equal numbers of samples at their mean time, so straight lines stay
// straight; the figures (count, mean, min, max, last) cover every sample. The first sample allocates, no later one
// does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "align/host_facts.h"

namespace stepscope {

class Series {
 public:
  explicit Series(size_t capacity = 256) : capacity_(capacity < 8 ? 8 : capacity & ~size_t{1}) {}

  // Times must not decrease. A value that is not finite is ignored.
  void add(int64_t time_ns, double value);
  const SampledSeries& facts() const { return facts_; }  // without samples of a point that is not full yet
  uint64_t samples_per_point() const { return stride_; }

 private:
  void merge_pairs();

  size_t capacity_;
  uint64_t stride_ = 1, pending_ = 0;
  double pending_value_ = 0, pending_offset_ns_ = 0;
  int64_t pending_base_ns_ = 0;
  SampledSeries facts_;
};

}  // namespace stepscope
