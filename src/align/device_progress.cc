#include "align/device_progress.h"

namespace stepscope {
namespace {

// The root module's forward and its backward: marked on the device each time (recorder/python_gpu.h). Of optimizers
// and phases of the program's own only the first ones of a step are.
bool is_boundary(Kind kind) { return kind == Kind::kForward || kind == Kind::kBackward || kind == Kind::kBackwardOwn; }

}  // namespace

void DeviceProgress::issued(uint16_t what, uint64_t at_ns) {
  const DevicePlace place{.step = step_, .boundary = boundary_++, .what = what, .issued_ns = at_ns, .pending = true};
  if (!told_ && pending_.size() == kMost) pending_.pop_front();  // there may never be a device
  if (pending_.size() < kMost)
    pending_.push_back(place);
  else
    known_ = false;
}

void DeviceProgress::reached(uint64_t at_ns) {
  if (!told_) {
    told_ = true;
    while (!pending_.empty() && pending_.front().issued_ns < at_ns) pending_.pop_front();
  }
  if (pending_.empty() || pending_.front().issued_ns != at_ns)
    known_ = false;
  else
    pending_.pop_front();
}

void DeviceProgress::push(const Event& event) {
  const Kind kind = kind_of(event.kind);
  if (is_boundary(kind)) return issued(event.kind, event.time_ns);
  if (kind == Kind::kOptimizer && edge_of(event.kind) == Edge::kEnd) {
    ++step_;
    boundary_ = 0;
  } else if (kind == Kind::kGpuStatus && event.b > 0) {
    known_ = false;
  } else if (kind == Kind::kGpuMark && is_boundary(kind_of(static_cast<uint16_t>(event.a)))) {
    if (event.flags & kGpuCaptured) known_ = false;
    reached(event.time_ns);
  }
}

std::optional<DevicePlace> DeviceProgress::place() const {
  if (!told_ || !known_) return std::nullopt;
  if (pending_.empty()) return DevicePlace{.step = step_, .boundary = boundary_};
  DevicePlace place = pending_.front();
  place.steps_ago = step_ - place.step;
  return place;
}

}  // namespace stepscope
