// Collectives on the device (NCCL): their announcement carries the bytes, their times come later from the poller; a
// step takes those that ended within its GPU interval.
//
// A plain single-threaded object. Bounded: kMaxPending announcements and times. Most operations are announced and never
// timed: a time also ends the wait for those before it, of its communicator, kind and, for messages, peer.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>

#include "align/event.h"
#include "align/rank_step.h"
#include "blackbox/event_kind.h"

namespace stepscope {

class DeviceOps {
 public:
  static constexpr size_t kMaxPending = 8192;

  void announced(const Event& nccl_op);  // Kind::NcclOp
  void timed(const Event& nccl_time);    // Kind::NcclTime; ignored where only the end is known
  // Hands over what ended by `end_ns` (GPU clock mapped to the host's).
  void take_until(int64_t end_ns, std::vector<DeviceOp>& out);

 private:
  std::map<std::tuple<uint64_t, uint8_t, uint16_t, uint64_t>, uint64_t>
      bytes_;  // by communicator, op, peer (messages), sequence
  std::deque<DeviceOp> done_;
};

}  // namespace stepscope
