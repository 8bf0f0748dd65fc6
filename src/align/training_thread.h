// Whose records tell a rank's steps: one thread's. The first that trains is followed; when it has stopped and another
// trains instead (a thread per fold, per fit, per cell), that one is followed from its first record on. Threads that
// train at the same time cannot be put into one row of steps: the first is followed, the others' steps are counted.
//
// A plain single-threaded object; no failure. Keeps at most kMaxKept records of each of at most kMaxOthers other
// threads, and none of a thread that does not train while the followed one does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "align/event.h"

namespace stepscope {

class TrainingThread {
 public:
  static constexpr size_t kMaxOthers = 16, kMaxKept = 2048;
  static constexpr uint32_t kStepsToFollow = 3;  // of another thread, while the followed one did nothing

  explicit TrainingThread(uint32_t thread = 0) : followed_(thread) {}

  // Whether the event belongs to the thread that is followed. `idle`: that thread is in no part of a step.
  bool follows(const Event& event, bool idle);
  // Of another thread that is followed from now on: its records so far, the present one not included. Empty afterwards.
  std::deque<Event> take_records();
  // True once after another thread took the followed one's place.
  bool take_changed();
  // The run is over: follows a thread that was the last to train, although it did little. True when it changed.
  bool last_call(bool idle);

  // Trained at the same time as the followed one.
  bool is_other(uint32_t thread) const { return others_.contains(thread); }
  uint32_t at_the_same_time() const;  // threads
  uint64_t steps_not_followed() const;

 private:
  struct Other {
    std::deque<Event> records;  // since the followed thread last trained
    uint32_t ends[3] = {};      // optimizers, marked steps, backwards since then
    uint64_t steps = 0;         // at the same time as the followed thread's
    bool trains = false;
    uint32_t newly() const;
  };
  void follow(uint32_t thread);
  void followed_trains();

  uint32_t followed_;
  bool certain_ = false, changed_ = false;
  std::map<uint32_t, Other> others_;
  std::deque<Event> handed_over_;
};

}  // namespace stepscope
