// Reads a black box from outside, live or left behind. Trusts no byte of it.
//
// Ownership: the reader holds a file descriptor and one 64 KiB buffer; movable, not copyable. Not thread-safe: one
// reader, one thread; any number of readers may follow one file. The writer never learns of them.
// Mechanism: pread, never a mapping. A file that shrinks under a mapping would raise SIGBUS in the agent; a short pread
// is an ordinary answer. pread gives no order between words, so the check word of each slot is what makes a copy whole.
// Cost: read() one system call when nothing is new (0.6 us), else one per 1024 slots more and about 30 ns a record.
// Failure: open() fails with one line (not a black box, other version, truncated, sizes that do not fit the file).
// Later damage is counted in ReadStats, never fatal: a shrunk file simply gives no more records. Accounting: after a
// pass that reached the head, read + lost + torn == head, unless damaged > 0.
#pragma once

#include <cstdint>
#include <optional>
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
// `damaged`: how often the header contradicted the slots or an earlier header (scribbled over, truncated); the other
// counts are then a lower bound.
struct ReadStats {
  uint64_t read = 0, lost = 0, torn = 0, damaged = 0;

  ReadStats& operator+=(const ReadStats& other) {
    read += other.read, lost += other.lost, torn += other.torn, damaged += other.damaged;
    return *this;
  }
};

// A stack as the rank wrote it (layout.h, StackBox).
struct StackFrame {
  int line = 0;  // 0 = not known
  std::string function, file;
};
struct StackReading {
  uint32_t request = 0, thread = 0, flags = 0;  // StackFlags
  uint64_t time_ns = 0, pc = 0;
  std::vector<StackFrame> frames;  // innermost first, at most kMaxStackFrames
};
inline constexpr size_t kMaxStackFrames = 256;

// The words of Control by their place in it.
enum class ControlWord : uint32_t { kStampUntilStep = 0, kCaptureRequest = 1, kLayerMode = 2, kStop = 3 };

class RingReader {
 public:
  static Result<RingReader> open(const std::string& path);  // a regular file, no symbolic link
  // Takes the descriptor in any case. `name` stands in messages and path().
  static Result<RingReader> from_fd(int fd, const std::string& name);
  RingReader(RingReader&&) noexcept;
  RingReader& operator=(RingReader&&) noexcept;
  ~RingReader();

  // Identity as of now (it is filled in late). One pread. hostname is made printable.
  Identity identity() const;

  // Appends the records published since the last call, in order of claim, at most `max`. A slot that was claimed but
  // not published stops the pass; it is skipped as torn when `now_ns` is more than 200 ms after it was first seen so,
  // or at once when `final` (the writer is dead). Counts accumulate in totals().
  ReadStats read(std::vector<Record>& out, size_t max, uint64_t now_ns, bool final = false);

  // Appends the names published since the last call. Texts are made printable (text.h).
  void read_names(std::vector<Name>& out);
  uint64_t names_dropped() const;  // names that found their region full, as the writer says

  // Starts again at the oldest record that is still there, as a fresh reader would: totals and names too.
  void rewind();

  ReadStats totals() const;
  uint64_t head() const;  // records ever claimed, as the writer said at the last pass
  uint64_t capacity() const;
  const std::string& path() const;

  // What is asked of the rank: one 8-byte pwrite or pread. Setting fails when the file is read-only or truncated.
  Status set_control(ControlWord word, uint64_t value);
  uint64_t control(ControlWord word) const;  // 0 when it cannot be read

  // The signal by which a thread of the rank is asked where it is; 0 = it cannot be asked.
  int stack_signal() const;
  bool may_ask(uint32_t thread) const;  // its handler has a stack of its own
  // The newest answer; nothing while one is being written or none was ever. Texts are made printable.
  std::optional<StackReading> stack() const;

 private:
  struct Impl;
  uint64_t header_word_or_zero(size_t offset) const;
  explicit RingReader(Impl* impl) : impl_(impl) {}
  Impl* impl_;
};

}  // namespace stepscope::blackbox
