// Writes a black box: creates the file, maps it, and puts records and names into it. Layout and protocol: layout.h.
//
// Ownership: the object owns the mapping, not the file: readers find the file after the writer is gone, and whoever
// made the folder removes it. Destroying the object unmaps it, so nobody may be inside put() then; a process that
// cannot know that (the recorder) never destroys it. Threads: put() and add_name() from any number of threads, and of
// processes that share the mapping. Nothing blocks. Cost: put() about 10 ns, no system call, no allocation. create() 1
// to 4 ms (every page is touched once). Failure: create() and attach() return one line; put() and add_name() cannot
// fail. A scribbled header misplaces records but cannot lead a store outside of the mapping: sizes are kept here, never
// re-read. The one danger left is that the file is truncated under the mapping (SIGBUS): recorder/bus_guard.h.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "blackbox/event_kind.h"
#include "blackbox/layout.h"

namespace stepscope::blackbox {

struct RingOptions {
  uint64_t capacity = kDefaultCapacity;  // power of two; halved while the file system has no room
  uint64_t min_capacity = kMinCapacity;  // given up below this
  uint32_t names_bytes = kDefaultNamesBytes;
  // How many rings are expected on this file system. All together take at most a quarter of it where min_capacity
  // allows: data loaders pass their batches through the same shared memory.
  uint32_t siblings = 1;
};

class RingWriter {
 public:
  // Creates `path` (0600, must not exist). The file appears under its name only when the header is complete.
  static Result<std::unique_ptr<RingWriter>> create(const std::string& path, const RingOptions& options = {});

  // Maps an existing ring to write into it as well (a loader worker that was spawned, not forked).
  static Result<std::unique_ptr<RingWriter>> attach(const std::string& path);

  ~RingWriter();
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  void put(const Record& record) noexcept {
    uint64_t words[6];
    std::memcpy(words, &record, sizeof words);
    const uint64_t index = header_->head.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = slots_[index & mask_];
    slot.seq.store(2 * index + 1, std::memory_order_relaxed);
    // The odd sequence number must be seen before any new payload word. (ThreadSanitizer does not model fences; it
    // need not: every access here is atomic.)
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    std::atomic_thread_fence(std::memory_order_release);
#pragma GCC diagnostic pop
    for (int i = 0; i < 6; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.check.store(checksum(index, words), std::memory_order_relaxed);
    slot.seq.store(2 * index + 2, std::memory_order_release);
  }

  // Appends a name; text beyond 65528 bytes is cut. False (and counted in the header) when the region is full
  // for names of its kind (names_left_to_others). What its id is called already is not written again: who cannot
  // remember that a name was given may give it each time. Microseconds: the region is read.
  bool add_name(NameKind kind, uint64_t id, std::string_view text) noexcept;

  Header& header() noexcept { return *header_; }
  const Header& header() const noexcept { return *header_; }
  uint64_t capacity() const noexcept { return mask_ + 1; }
  const std::string& path() const noexcept { return path_; }
  void* base() const noexcept { return header_; }
  size_t bytes() const noexcept { return bytes_; }

 private:
  RingWriter(std::string path, void* base, uint64_t capacity, uint32_t names_bytes);

  Header* header_;
  Slot* slots_;
  uint64_t mask_;
  char* names_;
  uint32_t names_bytes_;
  size_t bytes_;
  std::string path_;
};

}  // namespace stepscope::blackbox
