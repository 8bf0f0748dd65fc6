#include "serve/frame_gate.h"

#include <sys/eventfd.h>

#include <utility>

namespace stepscope {

FrameGate::FrameGate(std::string secret)
    : secret_(std::move(secret)), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool FrameGate::put(std::string bytes, Answer answer) {
  {
    const std::scoped_lock lock(mutex_);
    if (closed_ || waiting_.size() >= kMaxWaiting || bytes_ + bytes.size() > kMaxWaitingBytes) return false;
    bytes_ += bytes.size();
    waiting_.push_back({std::move(bytes), std::move(answer)});
  }
  const uint64_t one = 1;
  if (event_) (void)!::write(event_.get(), &one, sizeof one);
  return true;
}

size_t FrameGate::serve(const std::function<FrameReply(std::string_view)>& take) {
  uint64_t count = 0;
  if (event_) (void)!::read(event_.get(), &count, sizeof count);
  std::deque<Entry> taken;
  {
    const std::scoped_lock lock(mutex_);
    taken.swap(waiting_);
    bytes_ = 0;
  }
  for (Entry& entry : taken) entry.answer(take(entry.bytes));
  return taken.size();
}

void FrameGate::close() {
  std::deque<Entry> dropped;
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  dropped.swap(waiting_);
  bytes_ = 0;
}

}  // namespace stepscope
