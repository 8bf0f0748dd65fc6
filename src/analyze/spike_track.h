// Jumps of a noisy series (a loss, a gradient norm) above everything its recent past shows.
//
// The series is looked at in blocks of kBlock steps, by their medians: a single bad batch is no jump, and what
// neighbouring steps have in common is inside of a block. A block jumps when its median lies above the recent blocks by
// so many of their robust spreads, and above the highest of them. Positive series are compared by their logarithm,
// since their noise grows with them. The first blocks are not judged, and a level that was kept for kSettledBlocks is
// the new usual one.
//
// A plain value; O(kHistory) memory; a block costs about 1 us.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepscope {

class SpikeTrack {
 public:
  static constexpr size_t kBlock = 5, kHistory = 40, kSettledBlocks = 40;

  struct Limits {
    size_t least_blocks = 20;
    double spreads = 8;         // above the middle of the recent blocks
    double over_highest = 3;    // spreads above the highest of them
    double least_factor = 1.2;  // of the usual value
  };
  struct Spike {
    int64_t first_step = -1, last_step = -1;
    double usual = 0, highest = 0;
    double start = 0;        // the run's level in its first steps
    bool recovered = false;  // it came back to where it was
    bool settled = false;    // it did not, and stays at its new level
  };

  explicit SpikeTrack(Limits limits) : limits_(limits) {}

  void add(uint64_t step, double value);
  // The newest one that is known to be over or to go on; first_step -1 = none.
  const Spike& newest() const { return newest_; }
  uint64_t spikes() const { return spikes_; }

 private:
  void block(double median);
  void keep(double median);
  double scaled(double value) const { return logarithmic_ ? log_of(value) : value; }
  static double log_of(double value);

  Limits limits_;
  std::array<double, kBlock> values_{};
  std::array<uint64_t, kBlock> steps_{};
  size_t count_ = 0;
  std::vector<double> history_;  // medians of blocks, oldest first
  bool logarithmic_ = true;
  double limit_ = 0, back_ = 0, start_ = 0;
  size_t blocks_ = 0, above_ = 0;
  Spike newest_;
  uint64_t spikes_ = 0;
};

}  // namespace stepscope
