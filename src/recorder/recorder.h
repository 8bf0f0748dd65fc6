// The recorder: one per process, behind free functions. The Python module and the C ABI are thin coats over it.
//
// Threads: every function may be called from any thread at any time, also after close() and while the process exits;
// the ring is never unmapped. open/close/adopt exclude each other without blocking: the second caller returns false.
// Fork: a forked child is off. It may open() a ring of its own (it turned out to be a rank) or adopt_as_worker().
// Failure: nothing throws, prints, or blocks. Off means: marks return at once; reason() says why.
// Cost: marks.cc holds the hot path: about 20 ns per mark beside the clock, 4 ns when off; no allocation, no lock, no
// system call but the vDSO clock (and gettid once per thread).
#pragma once

#include <cstdint>
#include <string_view>

#include "blackbox/event_kind.h"
#include "blackbox/layout.h"

namespace stepscope::recorder {

inline constexpr int32_t kUnknown = -1;

// Everything left out is taken from the environment: STEPSCOPE_SHM, STEPSCOPE_NONCE (32 hex digits), RANK, LOCAL_RANK,
// WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, TORCHELASTIC_RESTART_COUNT.
struct OpenOptions {
  const char* shm_dir = nullptr;
  int32_t rank = kUnknown, local_rank = kUnknown, world_size = kUnknown, node_rank = kUnknown, attempt = kUnknown;
  uint64_t capacity = blackbox::kDefaultCapacity;  // slots, power of two
};

// Creates <shm_dir>/<pid>-<random>.ring and turns marks on. True when on (also when it was on already). On failure the
// reason is kept and written to $STEPSCOPE_RUN_DIR/off-<pid>.txt if that folder is there.
bool open(const OpenOptions& options = {}) noexcept;

// Turns marks off and says in the ring that this was in order. The file stays for the agent.
void close() noexcept;

// As close(), and removes the file unless there is evidence that this process is a rank (opened provisionally, then it
// turned out to be a worker or a helper).
void discard() noexcept;

bool active() noexcept;
const char* reason() noexcept;  // why it is off, "" when on; static storage, one line
const char* path() noexcept;    // of the ring last opened, "" before; static storage

// Fills in what is known; kUnknown leaves a field as it is. A known rank also leaves a Process mark (kRankKnown, b =
// rank).
void set_identity(int32_t rank, int32_t local_rank, int32_t world_size, int32_t node_rank, int32_t attempt) noexcept;

void add_evidence(uint64_t bits) noexcept;  // blackbox::Evidence
void set_life(uint64_t bits) noexcept;      // blackbox::Life; adds bits and stamps life_changed_ns

// ---- hot path (marks.cc) ----

// One record now, on the calling thread. The end of an optimizer or a step also looks whether the agent said stop.
void mark(Kind kind, Edge edge, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
          uint16_t flags = 0) noexcept;

// As mark(), for an instant that was measured elsewhere.
void mark_at(uint64_t time_ns, Kind kind, Edge edge, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
             uint16_t flags = 0) noexcept;

// Kind::Usage of the calling thread (one getrusage, about 0.5 us).
void usage_mark() noexcept;

// Lock-free; copies the text. False when off or when the names region is full (counted in the ring).
bool name(NameKind kind, uint64_t id, std::string_view text) noexcept;

// Counts a name that the caller could not keep apart from others, so that it was not given to name().
void count_dropped_name() noexcept;

// What the agent asks of this rank; null when off. Stays mapped for ever.
const blackbox::Control* control() noexcept;

// ---- loader workers ----

// In a forked child: write WorkerFetch records into the parent's ring. With a path (spawned worker): into that ring; a
// ring of its own that it opened provisionally is discarded. False when there is none.
bool adopt_as_worker(const char* ring_path = nullptr) noexcept;

// One WorkerFetch record; does nothing unless adopted.
void worker_mark(Edge edge, uint64_t worker_id, uint64_t loader_id, uint64_t items = 0) noexcept;

}  // namespace stepscope::recorder
