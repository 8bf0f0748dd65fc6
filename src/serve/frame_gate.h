// Where frames of other nodes come in: the server's threads put them down, the agent's thread takes them up and says
// what is answered. Bounded in frames and bytes; what does not fit is refused (503) and comes again, since the sender
// keeps it until it is answered.
//
// Threads: put() on any, serve() and close() on that of the owner, who ends the server first. fd() becomes readable
// when frames wait. Nothing throws but for want of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "base/fd.h"
#include "base/frame_reply.h"

namespace stepscope {

class FrameGate {
 public:
  using Answer = std::function<void(FrameReply)>;
  static constexpr size_t kMaxFrameBytes = 4u << 20, kMaxWaiting = 4096, kMaxWaitingBytes = 64u << 20;

  // `secret`: what every sender must show; at least 16 characters.
  explicit FrameGate(std::string secret);

  const std::string& secret() const { return secret_; }
  int fd() const { return event_.get(); }  // -1: none left; serve() is then to be called now and then

  // `answer` is called once on the owner's thread, or never when the gate closes. False: full or closed.
  bool put(std::string bytes, Answer answer);
  // Hands each frame that waits to `take`. Returns how many there were.
  size_t serve(const std::function<FrameReply(std::string_view)>& take);
  // Drops what waits; nothing comes in any more.
  void close();

 private:
  struct Entry {
    std::string bytes;
    Answer answer;
  };
  const std::string secret_;
  Fd event_;
  std::mutex mutex_;
  std::deque<Entry> waiting_;
  size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace stepscope
