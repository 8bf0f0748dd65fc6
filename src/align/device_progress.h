// How far the device of a rank has come in the program: the first boundary of forward or backward that the host has
// issued and the device has not reached. Of a job whose hosts all wait for their devices it tells which device stands
// before the others.
//
//   host    forward │ backward │ … │ forward │ backward          boundaries, in the order of the program
//   device  ───────────────────▶ stands here                     GpuMark = reached, told by the poller
//
// Not known where a boundary had no event on the device (pool empty, too many at once, a graph captured, no GPU), or
// events of several streams came out of order: then device and host cannot be told apart.
//
// A plain single-threaded object, fed with the records of one rank in ring order. Bounded: kMost boundaries ahead of
// the device. Constant time per record.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "align/event.h"
#include "blackbox/event_kind.h"

namespace stepscope {

// A boundary by its place in the program: the same number on ranks that run the same program.
struct DevicePlace {
  uint64_t step = 0;       // optimizer ends that the host had seen when it was issued
  uint32_t boundary = 0;   // of that step, counted from 0
  uint16_t what = 0;       // pack_kind(Kind, Edge)
  uint64_t issued_ns = 0;  // on the host
  uint64_t steps_ago = 0;  // optimizer ends that the host has seen since
  bool pending = false;    // issued and not reached; false: all that was issued is reached, this is the next one

  bool before(const DevicePlace& other) const {
    return step != other.step ? step < other.step : boundary < other.boundary;
  }
  bool operator==(const DevicePlace&) const = default;
};

class DeviceProgress {
 public:
  static constexpr size_t kMost = 1024;

  void push(const Event& event);
  // Where the device stands; nullopt: not known.
  std::optional<DevicePlace> place() const;

 private:
  void issued(uint16_t what, uint64_t at_ns);
  void reached(uint64_t at_ns);

  std::deque<DevicePlace> pending_;  // in order of issue
  uint64_t step_ = 0;
  uint32_t boundary_ = 0;
  bool told_ = false;  // some boundary was reached
  bool known_ = true;  // every boundary since the first that was reached had its event
};

}  // namespace stepscope
