// The file descriptors that wake the agent, each by a key of its own. Owns none of them but the set's. One thread.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "base/fd.h"

namespace stepscope {

class EpollSet {
 public:
  static constexpr int kMaxEvents = 64;

  EpollSet() : set_(::epoll_create1(EPOLL_CLOEXEC)) {}

  void add(int fd, uint64_t key) {  // below 0: there is nothing to wait for
    if (fd < 0) return;
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = key;
    ::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  void remove(int fd) {
    if (fd >= 0) ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }

  // Keys of what is readable, in the order in which it became so; what is left comes next time.
  std::vector<uint64_t> wait(int timeout_ms) {
    epoll_event events[kMaxEvents];
    const int count = ::epoll_wait(set_.get(), events, kMaxEvents, timeout_ms);
    std::vector<uint64_t> keys;
    for (int i = 0; i < count; ++i) keys.push_back(events[i].data.u64);
    return keys;
  }

 private:
  Fd set_;
};

}  // namespace stepscope
