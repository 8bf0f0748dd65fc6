#include "agent/control_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace stepscope {
namespace {
constexpr size_t kFrameHeader = 5;
constexpr int kSendWaitMs = 1000;
}  // namespace

Result<std::pair<ControlChannel, ControlChannel>> ControlChannel::make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail("socketpair: " + errno_text(errno));
  return std::pair{ControlChannel(Fd(ends[0])), ControlChannel(Fd(ends[1]))};
}

bool ControlChannel::send(FrameType type, std::string_view body) {
  if (!open_) return false;
  body = body.substr(0, kMaxBody);
  const uint32_t length = static_cast<uint32_t>(body.size());
  std::string frame(kFrameHeader, '\0');
  frame[0] = static_cast<char>(type);
  std::memcpy(&frame[1], &length, sizeof length);
  frame.append(body);
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t n = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    pollfd wait = {fd_.get(), POLLOUT, 0};
    if (errno == EAGAIN && ::poll(&wait, 1, kSendWaitMs) > 0) continue;
    open_ = false;  // half a frame may be out: nothing sensible can follow
    return false;
  }
  return true;
}

std::vector<Frame> ControlChannel::receive() {
  char chunk[16384];
  while (open_) {
    const ssize_t n = ::recv(fd_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (n > 0) {
      buffer_.append(chunk, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    open_ = false;
  }
  std::vector<Frame> frames;
  size_t at = 0;
  while (buffer_.size() - at >= kFrameHeader) {
    uint32_t length;
    std::memcpy(&length, buffer_.data() + at + 1, sizeof length);
    if (length > kMaxBody) {
      open_ = false;
      break;
    }
    if (buffer_.size() - at - kFrameHeader < length) break;
    frames.push_back({static_cast<FrameType>(buffer_[at]), buffer_.substr(at + kFrameHeader, length)});
    at += kFrameHeader + length;
  }
  buffer_.erase(0, at);
  return frames;
}

}  // namespace stepscope
