// The wire between launcher and agent: a socket pair, frames of a type byte and at most 1 MiB. End of file is a message
// too: the other side is gone. Neither side ever blocks on the other: sends give up when the buffer is full.
//
//   launcher → agent   config (AgentConfig as JSON) · child (pid) · signal (number) · ended (wait status)
//   agent → launcher   notice (one line for the user) · summary (text) · done
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace stepscope {

enum class FrameType : uint8_t {
  kConfig = 'C',
  kChild = 'P',
  kSignal = 'S',
  kEnded = 'X',
  kNotice = 'N',
  kSummary = 'T',
  kDone = 'D',
};

struct Frame {
  FrameType type;
  std::string body;
};

class ControlChannel {
 public:
  static constexpr size_t kMaxBody = 1u << 20;

  static Result<std::pair<ControlChannel, ControlChannel>> make_pair();  // both close-on-exec
  explicit ControlChannel(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  bool open() const { return open_; }

  // False when the other side is gone or does not read. A body above the bound is cut.
  bool send(FrameType type, std::string_view body = {});

  // Whatever has arrived; never waits. Afterwards open() says whether the other side still lives.
  std::vector<Frame> receive();

 private:
  Fd fd_;
  bool open_ = true;
  std::string buffer_;
};

}  // namespace stepscope
