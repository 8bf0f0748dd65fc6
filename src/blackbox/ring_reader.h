// Reads a black box from outside, live or left behind. Trusts no byte of it.
//
// Ownership: the reader maps the file and unmaps it in its destructor; movable, not copyable. Not thread-safe: one
// reader, one thread; any number of readers may follow one file. The writer never learns of them.
// Cost: one pass over the new slots; about 15 ns a record. Memory: none beyond the caller's vector.
// Failure: open() fails with one line (not a black box, other version, truncated, sizes that do not fit the file). A
// file that shrinks while mapped is detected (fstat before each pass) and read no further.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "blackbox/event_kind.h"
#include "blackbox/layout.h"

namespace stepscope::blackbox {

struct Identity {
  uint8_t run_nonce[16] = {};
  int32_t attempt = 0, rank = -1, local_rank = -1, world_size = -1, node_rank = -1, pid = 0;
  uint64_t pid_start_ticks = 0;
  std::string hostname;
  uint64_t process_start_ns = 0, anchor_monotonic_ns = 0, anchor_realtime_ns = 0;
  uint64_t evidence = 0, life = 0, life_changed_ns = 0;
};

struct Name {
  NameKind kind;
  uint64_t id = 0;
  std::string text;
};

// What one pass found. `lost`: overwritten before they were read. `torn`: half-written or scribbled, skipped.
struct ReadStats {
  uint64_t read = 0, lost = 0, torn = 0;
};

class RingReader {
 public:
  static Result<RingReader> open(const std::string& path);
  RingReader(RingReader&&) noexcept;
  RingReader& operator=(RingReader&&) noexcept;
  ~RingReader();

  // Identity as of now (it is filled in late). Never throws, never reads outside of the header.
  Identity identity() const;

  // Appends the records published since the last call, in order of claim, at most `max`. A slot that was claimed but
  // not published stops the pass; it is skipped as torn when `now_ns` is more than 200 ms after it was first seen so,
  // or at once when `final` (the writer is dead). Counts accumulate in totals().
  ReadStats read(std::vector<Record>& out, size_t max, uint64_t now_ns, bool final = false);

  // Appends the names published since the last call.
  void read_names(std::vector<Name>& out);

  // Starts again at the oldest record that is still there (an agent that was restarted).
  void rewind();

  ReadStats totals() const;
  uint64_t head() const;        // records ever claimed, as the writer says
  uint64_t capacity() const;
  Control* control();           // null when the file could be mapped read-only only
  const std::string& path() const;

 private:
  RingReader() = default;
  struct Impl;
  Impl* impl_ = nullptr;
};

}  // namespace stepscope::blackbox
