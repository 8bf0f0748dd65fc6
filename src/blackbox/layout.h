// The black box: one memory-mapped ring file per rank process, the only thing recorder and readers share.
//
//   offset 0                4096                 4096 + names_bytes
//   ┌──────────────────────┬────────────────────┬──────────────────────────────────────────────┐
//   │ Header (one page)    │ names (append-only)│ ring: capacity × 64-byte slots, power of two │
//   │ who · clocks · head  │ id → text          │ slot i holds records i, i+capacity, …        │
//   └──────────────────────┴────────────────────┴──────────────────────────────────────────────┘
//
// Writing record number i (any thread, any process that mapped the file):
//   i = head.fetch_add(1); slot = ring[i mod capacity]
//   slot.seq = 2i+1 (being written) → payload words → slot.seq = 2i+2 (published)
// Reading record i: seq == 2i+2 before and after copying, and the check word fits → good.
//   seq > 2i+2: overwritten, counted as lost. seq == 2i+1 for long: the writer died; skipped and counted as torn.
// The writer knows nothing of readers and never waits. All words are 64-bit little-endian relaxed atomics with fences.
//
// Lasting part of this format (any version): magic, version, header_bytes, record_bytes and the identity block.
// A reader refuses another major version with a clear message and trusts no byte: every length is bounded by the file's
// size. Document: docs/formats/blackbox.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "blackbox/event_kind.h"

namespace stepscope::blackbox {

inline constexpr char kMagic[8] = {'S', 'T', 'E', 'P', 'S', 'C', 'O', 'P'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kHeaderBytes = 4096;
inline constexpr uint32_t kRecordBytes = 64;
inline constexpr uint64_t kDefaultCapacity = 64 * 1024;  // 4 MiB of records
inline constexpr uint64_t kMinCapacity = 4 * 1024;       // 256 KiB: the least that still covers 100 ms of a busy rank
inline constexpr uint64_t kMaxCapacity = 1ull << 22;     // 256 MiB: a sparse file must not keep a reader busy
inline constexpr uint32_t kDefaultNamesBytes = 128 * 1024;
inline constexpr uint32_t kMaxNamesBytes = 16 * 1024 * 1024;
inline constexpr uint32_t kMaxNameLength = 65528;  // multiple of 8, fits 16 bits

// One record: what happened, when, to what. Meaning of a..d per kind: event_kind.h. Times are CLOCK_MONOTONIC.
struct Record {
  uint64_t time_ns = 0;
  uint16_t kind = 0;  // Kind | Edge << 8, see event_kind.h
  uint16_t flags = 0;
  uint32_t thread = 0;  // kernel thread id
  uint64_t a = 0, b = 0, c = 0, d = 0;
};
static_assert(sizeof(Record) == 48);

// One slot of the ring: sequence word, six payload words (a Record), check word = checksum(index, payload).
struct alignas(64) Slot {
  std::atomic<uint64_t> seq;
  std::atomic<uint64_t> words[6];
  std::atomic<uint64_t> check;
};
static_assert(sizeof(Slot) == kRecordBytes);

// Bits of Header::evidence: why this process is believed to be a rank (reference: never argv, never RANK alone).
enum Evidence : uint64_t {
  kEvidenceInit = 1 << 0,       // stepscope.init() or trace_step
  kEvidenceGroup = 1 << 1,      // init_process_group returned
  kEvidenceOptimizer = 1 << 2,  // an optimizer stepped
  kEvidenceBackward = 1 << 3,   // a backward ended
};

// Bits of Header::life.
enum Life : uint64_t {
  kLifeTeardown = 1 << 0,   // destroy_process_group or interpreter exit has begun
  kLifeClosed = 1 << 1,     // the recorder was closed in order (atexit ran to its end)
  kLifeException = 1 << 2,  // an uncaught exception reached the top of the main thread
};

// Words written by the agent, read by the rank at its next step boundary. Zero means "nothing asked".
struct alignas(64) Control {
  std::atomic<uint64_t> stamp_until_step;  // record collective completion until this many optimizer ends have passed
  std::atomic<uint64_t> capture_request;
  std::atomic<uint64_t> layer_mode;
  std::atomic<uint64_t> stop;  // non-zero: the recorder turns itself off
  std::atomic<uint64_t> reserved[4];
};
static_assert(sizeof(Control) == 64);

// The rank's answer when the agent asks where it is: the Python stack of one thread. Written by the handler of a
// real-time signal, which needs no GIL. The agent sends `signal` to a thread (rt_tgsigqueueinfo, value
// kStackRequest << 16 | request); the handler answers unless another one is at it. A reader takes the text only if
// `answered` is even and the same before and after. Only threads that are listed may be asked: their handler has a
// stack of its own (recorder/signal_stack.h).
inline constexpr uint32_t kStackTextBytes = 3392, kStackThreads = 32;
inline constexpr uint32_t kStackRequest = 0x5353;  // upper half of the signal's value; anything else is not ours
enum StackFlags : uint32_t {
  kStackCut = 1 << 0,       // outer frames found no room
  kStackHoldsGil = 1 << 1,  // the thread held the GIL
  kStackNoPython = 1 << 2,  // it is no thread of Python's
};
struct alignas(64) StackBox {
  std::atomic<uint32_t> signal;    // that is listened to; 0 = no stacks to be had
  std::atomic<uint32_t> answered;  // 2 x request + 1: being written; 2 x request + 2: there. Request: 16 bits
  std::atomic<uint64_t> time_ns;
  std::atomic<uint64_t> pc;  // where the signal met the thread
  std::atomic<uint32_t> thread;
  std::atomic<uint32_t> flags;  // StackFlags
  std::atomic<uint32_t> frames;
  std::atomic<uint32_t> text_bytes;
  uint32_t reserved[6];
  char text[kStackTextBytes];  // innermost frame first, a line each: "<line> <function> <file>"; file " = as before
  std::atomic<uint32_t> ready[kStackThreads];  // threads that may be asked; 0 = free
};
static_assert(sizeof(StackBox) == 64 + kStackTextBytes + 4 * kStackThreads);

struct alignas(64) Header {
  // -- lasting part --
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t names_bytes;
  uint64_t capacity;  // slots, power of two
  // identity (filled in when the rank is known; -1 = unknown yet)
  uint8_t run_nonce[16];
  std::atomic<int32_t> attempt;  // elastic restart count, from 0
  std::atomic<int32_t> rank;
  std::atomic<int32_t> local_rank;
  std::atomic<int32_t> world_size;
  std::atomic<int32_t> node_rank;
  int32_t pid;
  uint64_t pid_start_ticks;  // field 22 of /proc/<pid>/stat: pid reuse is told by it
  char hostname[64];
  // -- from here on a new version may change --
  uint64_t process_start_ns;     // CLOCK_MONOTONIC when the process started, to a clock tick; else when opened
  uint64_t anchor_monotonic_ns;  // the same instant on both clocks, taken at open
  uint64_t anchor_realtime_ns;
  std::atomic<uint64_t> evidence;
  std::atomic<uint64_t> life;
  std::atomic<uint64_t> life_changed_ns;
  std::atomic<uint64_t> heartbeat;               // reserved for native pollers
  alignas(64) std::atomic<uint64_t> head;        // number of records ever claimed
  alignas(64) std::atomic<uint64_t> names_head;  // bytes of the names region claimed; never above names_bytes
  std::atomic<uint64_t> names_dropped;           // names that found the region full
  Control control;
  StackBox stack;
};
static_assert(sizeof(Header) <= kHeaderBytes);

// One entry of the names region, 8-byte aligned: header, then `length` bytes of UTF-8, padded to 8.
// `ready` is stored last with release order; 0 = claimed but not written yet: a reader stops there and comes back.
struct NameEntry {
  std::atomic<uint32_t> ready;  // kNameReady when complete
  uint16_t kind;                // NameKind, event_kind.h
  uint16_t length;
  uint64_t id;
};
static_assert(sizeof(NameEntry) == 16);
// Room at the end of the region that names of this kind leave to others: a sixteenth is for exceptions alone, the last
// words of a process; what a program may make any number of (phases, values, call sites, models, optimizers) leaves a
// quarter.
constexpr uint64_t names_left_to_others(NameKind kind, uint32_t names_bytes) {
  switch (kind) {
    case NameKind::kException:
    case NameKind::kTraceback: return 0;
    case NameKind::kPhase:
    case NameKind::kValue:
    case NameKind::kCallSite:
    case NameKind::kModule:
    case NameKind::kOptimizer: return names_bytes / 4;
    default: return names_bytes / 16;
  }
}
inline constexpr uint32_t kNameReady = 0x4e414d45;  // "NAME"
constexpr uint64_t name_entry_bytes(uint16_t length) {
  return sizeof(NameEntry) + ((static_cast<uint64_t>(length) + 7) & ~7ull);
}

// Mixes index and payload, so that two half-written records or a scribbled slot do not pass for one.
inline uint64_t checksum(uint64_t index, const uint64_t (&words)[6]) {
  uint64_t h = (index + 1) * 0x9e3779b97f4a7c15ull;
  for (uint64_t w : words) h = (h ^ w) * 0xff51afd7ed558ccdull, h ^= h >> 32;
  return h;
}

constexpr size_t file_bytes(uint64_t capacity, uint32_t names_bytes) {
  return kHeaderBytes + names_bytes + capacity * kRecordBytes;
}

}  // namespace stepscope::blackbox
