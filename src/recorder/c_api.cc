// include/stepscope/stepscope.h on top of recorder.h.
#include "stepscope/stepscope.h"

#include <string.h>

#include <atomic>
#include <bit>
#include <string_view>

#include "recorder/recorder.h"

namespace {

using namespace stepscope;

constexpr size_t kMaxNameBytes = 63;

std::string_view clip(const char* name) {
  return name ? std::string_view(name, strnlen(name, kMaxNameBytes)) : std::string_view();
}

// A name's id is its hash: no table to lock, the same in every process. 0 is kept for "none".
uint64_t name_id(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
  return h ? h : 1;
}

// Ids whose text is in the ring already, without a lock. With more names than slots the newest stay without a text: to
// write one again at each mark would use up the region. Emptied by each open, since a ring starts without names.
struct KnownNames {
  static constexpr size_t kSlots = 1024;
  std::atomic<uint64_t> ids[2][kSlots] = {};

  // True for the first caller with this id, if there is a slot for it.
  bool add(bool value, uint64_t id) {
    for (size_t i = 0; i < 16; ++i) {
      std::atomic<uint64_t>& slot = ids[value][(id + i) % kSlots];
      uint64_t seen = slot.load(std::memory_order_relaxed);
      if (seen == id) return false;
      if (seen == 0 && slot.compare_exchange_strong(seen, id, std::memory_order_relaxed)) return true;
      if (seen == id) return false;
    }
    recorder::count_dropped_name();
    return false;
  }
  void clear() {
    for (auto& kind : ids)
      for (auto& slot : kind) slot.store(0, std::memory_order_relaxed);
  }
};
constinit KnownNames g_known;

uint64_t named(NameKind kind, const char* name) {
  const std::string_view text = clip(name);
  const uint64_t id = name_id(text);
  if (recorder::active() && g_known.add(kind == NameKind::kValue, id)) recorder::name(kind, id, text);
  return id;
}

bool is_phase(int phase) {
  switch (phase) {
    case STEPSCOPE_OPTIMIZER:
    case STEPSCOPE_BACKWARD:
    case STEPSCOPE_FORWARD:
    case STEPSCOPE_FETCH:
    case STEPSCOPE_WAIT:
    case STEPSCOPE_SAVE:
    case STEPSCOPE_H2D: return true;
  }
  return false;
}

static_assert(STEPSCOPE_OPTIMIZER == static_cast<int>(Kind::kOptimizer));
static_assert(STEPSCOPE_BACKWARD == static_cast<int>(Kind::kBackward));
static_assert(STEPSCOPE_FORWARD == static_cast<int>(Kind::kForward));
static_assert(STEPSCOPE_FETCH == static_cast<int>(Kind::kFetch));
static_assert(STEPSCOPE_WAIT == static_cast<int>(Kind::kWait));
static_assert(STEPSCOPE_SAVE == static_cast<int>(Kind::kSave));
static_assert(STEPSCOPE_H2D == static_cast<int>(Kind::kH2d));

// A forward of a C++ loop is a training forward: only those count as the forward phase.
uint16_t flags_of(int phase) { return phase == STEPSCOPE_FORWARD ? kForwardGrad | kForwardTraining : 0; }

// Backward's `a` says whether it accumulates gradients (1 = a training backward); the others carry the caller's id.
uint64_t first_word(int phase, uint64_t id) { return phase == STEPSCOPE_BACKWARD ? 1 : id; }

}  // namespace

extern "C" {

int stepscope_open(const struct stepscope_identity* identity) {
  recorder::OpenOptions options;
  if (identity) {
    options.rank = identity->rank;
    options.local_rank = identity->local_rank;
    options.world_size = identity->world_size;
    options.node_rank = identity->node_rank;
  }
  if (!recorder::active()) g_known.clear();
  if (!recorder::open(options)) return -1;
  recorder::add_evidence(blackbox::kEvidenceInit);
  return 0;
}

void stepscope_close(void) {
  recorder::set_life(blackbox::kLifeTeardown);
  recorder::close();
}

int stepscope_active(void) { return recorder::active() ? 1 : 0; }

const char* stepscope_reason(void) { return recorder::reason(); }

void stepscope_begin(int phase, uint64_t id) {
  if (is_phase(phase))
    recorder::mark(static_cast<Kind>(phase), Edge::kBegin, first_word(phase, id), 0, 0, 0, flags_of(phase));
}

void stepscope_end(int phase, uint64_t id) {
  if (!is_phase(phase)) return;
  recorder::mark(static_cast<Kind>(phase), Edge::kEnd, first_word(phase, id), 0, 0, 0, flags_of(phase));
  if (phase == STEPSCOPE_OPTIMIZER) recorder::add_evidence(blackbox::kEvidenceOptimizer);
  if (phase == STEPSCOPE_BACKWARD) recorder::add_evidence(blackbox::kEvidenceBackward);
}

void stepscope_step(void) {
  recorder::mark(Kind::kStep, Edge::kEnd, 0, 0, 0, 0, kStepBoundary);
  recorder::usage_mark();
}

void stepscope_backward_own_end(void) { recorder::mark(Kind::kBackwardOwn, Edge::kMark); }

void stepscope_phase_begin(const char* name) {
  recorder::mark(Kind::kUserPhase, Edge::kBegin, named(NameKind::kPhase, name));
}

void stepscope_phase_end(const char* name) {
  recorder::mark(Kind::kUserPhase, Edge::kEnd, named(NameKind::kPhase, name));
}

void stepscope_log(const char* name, double value) {
  recorder::mark(Kind::kValue, Edge::kMark, named(NameKind::kValue, name), std::bit_cast<uint64_t>(value));
}

}  // extern "C"
