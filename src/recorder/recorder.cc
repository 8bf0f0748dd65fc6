#include "recorder/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random_hex.h"
#include "recorder/bus_guard.h"
#include "recorder/signal_stack.h"
#include "recorder/stack_signal.h"
#include "recorder/state.h"

namespace stepscope::recorder {

constinit State g_state;

namespace {

using blackbox::Header;
using blackbox::RingWriter;

// Every ring that this process mapped, for ever: another thread may be inside put() at any time. The list keeps leak
// checkers calm.
struct Kept {
  std::unique_ptr<RingWriter> ring;
  Kept* older;
};

// Changed only by the holder of `busy`, except that turn_off() and the fork handler store why_off.
struct Owner {
  std::atomic_flag busy;  // open, close, adopt: one at a time; never waited for
  std::atomic<const char*> why_off{"not opened"};
  std::atomic<RingWriter*> inherited{nullptr};  // ring of the process that we were forked from
  std::atomic<bool> fork_handler{false};
  Kept* kept = nullptr;
  char open_error[512] = {};
  char path[512] = {};
};
constinit Owner g_owner;

class Turn {  // the right to change the owner
 public:
  Turn() : mine_(!g_owner.busy.test_and_set(std::memory_order_acquire)) {}
  ~Turn() {
    if (mine_) g_owner.busy.clear(std::memory_order_release);
  }
  explicit operator bool() const { return mine_; }

 private:
  bool mine_;
};

// The ring stays the parent's. The lock may have been held by a thread that does not exist here.
void after_fork_in_child() {
  forget_thread_id();
  forget_threads();
  RingWriter* ring = g_state.ring.exchange(nullptr, std::memory_order_relaxed);
  if (ring) g_owner.inherited.store(ring, std::memory_order_relaxed);
  g_state.worker.store(nullptr, std::memory_order_relaxed);
  g_owner.why_off.store("forked child", std::memory_order_relaxed);
  g_owner.busy.clear(std::memory_order_relaxed);
}

int32_t env_int(const char* name) {
  const char* text = getenv(name);
  if (!text || !*text) return kUnknown;
  char* end = nullptr;
  errno = 0;
  const long value = strtol(text, &end, 10);
  return *end || errno || value < 0 || value > INT32_MAX ? kUnknown : static_cast<int32_t>(value);
}

int32_t first_known(int32_t value, const char* variable) { return value >= 0 ? value : env_int(variable); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// 32 hex digits; anything else leaves zeros.
void read_nonce(uint8_t (&nonce)[16]) {
  const char* text = getenv("STEPSCOPE_NONCE");
  if (!text || strlen(text) != 32) return;
  uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  memcpy(nonce, bytes, sizeof nonce);
}

RingWriter* keep(std::unique_ptr<RingWriter> ring) {
  g_owner.kept = new Kept{std::move(ring), g_owner.kept};
  RingWriter* kept = g_owner.kept->ring.get();
  guard_mapping(kept->base(), kept->bytes());
  return kept;
}

std::string ring_path(const char* folder) {
  return std::string(folder) + "/" + std::to_string(::getpid()) + "-" + random_hex(8) + ".ring";
}

void store_known(std::atomic<int32_t>& field, int32_t value) {
  if (value >= 0) field.store(value, std::memory_order_relaxed);
}

// Tells the agent why there is no ring. Best effort, never follows a link, never replaces a file.
void leave_note(const char* why) {
  const char* folder = getenv("STEPSCOPE_RUN_DIR");
  if (!folder || !*folder) return;
  char file[600];
  if (snprintf(file, sizeof file, "%s/off-%d.txt", folder, static_cast<int>(::getpid())) >=
      static_cast<int>(sizeof file))
    return;
  const int fd = ::open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  char line[600];
  const int n = std::min<int>(snprintf(line, sizeof line, "%s\n", why), sizeof line - 1);
  [[maybe_unused]] const ssize_t written = ::write(fd, line, static_cast<size_t>(n));
  ::close(fd);
}

bool refuse(std::string_view why) {
  const size_t n = why.copy(g_owner.open_error, sizeof g_owner.open_error - 1);
  g_owner.open_error[n] = 0;
  g_owner.why_off.store(g_owner.open_error, std::memory_order_release);
  leave_note(g_owner.open_error);
  return false;
}

bool open_ring(const OpenOptions& options) {
  const char* folder = options.shm_dir ? options.shm_dir : getenv("STEPSCOPE_SHM");
  if (!folder || !*folder) return refuse("STEPSCOPE_SHM is not set: not started by stepscope");
  blackbox::RingOptions ring_options;
  ring_options.capacity = options.capacity;
  ring_options.min_capacity = std::min(options.capacity, blackbox::kMinCapacity);
  ring_options.siblings = static_cast<uint32_t>(std::max(1, env_int("LOCAL_WORLD_SIZE")));
  auto created = RingWriter::create(ring_path(folder), ring_options);
  if (!created) return refuse(created.error().message);
  RingWriter* ring = keep(std::move(*created));
  Header& h = ring->header();
  read_nonce(h.run_nonce);
  store_known(h.attempt, first_known(options.attempt, "TORCHELASTIC_RESTART_COUNT"));
  store_known(h.local_rank, first_known(options.local_rank, "LOCAL_RANK"));
  store_known(h.world_size, first_known(options.world_size, "WORLD_SIZE"));
  store_known(h.node_rank, first_known(options.node_rank, "GROUP_RANK"));
  store_known(h.rank, first_known(options.rank, "RANK"));
  h.stack.signal.store(static_cast<uint32_t>(stack_signal()), std::memory_order_relaxed);
  const size_t n = ring->path().copy(g_owner.path, sizeof g_owner.path - 1);
  g_owner.path[n] = 0;
  if (!g_owner.fork_handler.exchange(true)) pthread_atfork(nullptr, nullptr, after_fork_in_child);
  g_owner.why_off.store("", std::memory_order_release);
  g_state.ring.store(ring, std::memory_order_release);
  offer_thread();
  list_threads();
  return true;
}

void add_life(Header& h, uint64_t bits) {
  h.life.fetch_or(bits, std::memory_order_relaxed);
  h.life_changed_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

RingWriter* detach(const char* why) {
  RingWriter* ring = g_state.ring.exchange(nullptr, std::memory_order_acq_rel);
  if (ring) {
    g_owner.why_off.store(why, std::memory_order_release);
    ring->header().stack.signal.store(0, std::memory_order_relaxed);
    add_life(ring->header(), blackbox::kLifeClosed);
  }
  return ring;
}

void discard_ring(const char* why) {
  RingWriter* ring = detach(why);
  if (ring && ring->header().evidence.load(std::memory_order_relaxed) == 0) ::unlink(ring->path().c_str());
}

}  // namespace

void turn_off(const char* why) noexcept {
  g_state.worker.store(nullptr, std::memory_order_relaxed);
  if (g_state.ring.exchange(nullptr, std::memory_order_acq_rel)) g_owner.why_off.store(why, std::memory_order_release);
}

bool open(const OpenOptions& options) noexcept {
  if (active()) return true;
  Turn turn;
  if (!turn) return false;
  if (active()) return true;
  try {
    return open_ring(options);
  } catch (...) {
    return refuse("out of memory");
  }
}

void close() noexcept {
  Turn turn;
  if (turn) detach("closed");
}

void discard() noexcept {
  Turn turn;
  if (turn) discard_ring("closed");
}

bool active() noexcept { return g_state.ring.load(std::memory_order_relaxed) != nullptr; }

const char* reason() noexcept { return active() ? "" : g_owner.why_off.load(std::memory_order_acquire); }

const char* path() noexcept { return g_owner.path; }

void set_identity(int32_t rank, int32_t local_rank, int32_t world_size, int32_t node_rank, int32_t attempt) noexcept {
  RingWriter* ring = g_state.ring.load(std::memory_order_acquire);
  if (!ring) return;
  Header& h = ring->header();
  store_known(h.attempt, attempt);
  store_known(h.local_rank, local_rank);
  store_known(h.world_size, world_size);
  store_known(h.node_rank, node_rank);
  store_known(h.rank, rank);
  if (rank >= 0)
    mark(Kind::kProcess, Edge::kMark, static_cast<uint64_t>(ProcessEvent::kRankKnown), static_cast<uint64_t>(rank));
}

void set_life(uint64_t bits) noexcept {
  RingWriter* ring = g_state.ring.load(std::memory_order_acquire);
  if (ring) add_life(ring->header(), bits);
}

bool adopt_as_worker(const char* ring_path) noexcept {
  Turn turn;
  if (!turn) return false;
  RingWriter* ring = g_owner.inherited.load(std::memory_order_relaxed);
  if (ring_path && *ring_path && !(ring && ring->path() == ring_path)) {
    try {
      auto attached = RingWriter::attach(ring_path);
      ring = attached ? keep(std::move(*attached)) : nullptr;
    } catch (...) {
      ring = nullptr;
    }
  }
  if (!ring) return false;
  discard_ring("loader worker");
  g_owner.why_off.store("loader worker", std::memory_order_release);
  g_state.worker.store(ring, std::memory_order_release);
  return true;
}

}  // namespace stepscope::recorder
