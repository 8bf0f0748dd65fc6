// Device memory of one rank over steps, and what of it the size of its batches explains. Pure; O(rows of the
// selection).
#pragma once

#include <string>
#include <vector>

#include "analyze/rows.h"

namespace stepscope {

struct MemoryTrack {
  int rank = -1;
  bool held = false;  // bytes that outlive the step (read after the optimizer); else near its top
  std::vector<double> step, seconds, bytes;
  std::vector<double> size;  // of the batch of that step; empty where it is not known or hardly varies
  std::string unit;          // of size: "token", "sample", "byte copied"

  size_t points() const { return bytes.size(); }
};

// Readings of one boundary only, from `begin_step` on: what is compared over steps must have been read at the same
// place.
MemoryTrack held_track(const Rows& rows, int rank, double begin_step);
MemoryTrack top_track(const Rows& rows, int rank, double begin_step);
// The track that a growth shows in best: what is held, or near the top where that is hardly ever read.
MemoryTrack growth_track(const Rows& rows, int rank, double begin_step);

// Correlation of memory with the size of the batch; 0 where the size is not known or hardly varies.
double size_correlation(const MemoryTrack& track);
// Bytes per unit of size, Theil-Sen; 0 likewise.
double bytes_per_unit(const MemoryTrack& track);

// The track less what the size explains: a least-squares polynomial of second order in the size, fitted beside a trend
// over steps unless size and step run together. Memory cannot grow faster than the square of the size: a growth beyond
// that is not explained, and the track comes back as it is.
MemoryTrack without_size(const MemoryTrack& track);

}  // namespace stepscope
