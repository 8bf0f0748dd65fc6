// Frames from anywhere, in pieces of any size: those that are whole come out, in order and as they went in; nothing
// above the bound is kept. What a first frame would configure is read or refused.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "agent/agent_config.h"
#include "agent/control_channel.h"

namespace {

// Frames as they lie in the bytes: the second opinion.
void whole_frames(const std::string& wire, std::vector<stepscope::Frame>& out) {
  size_t at = 0;
  while (wire.size() - at >= 5) {
    uint32_t length;
    std::memcpy(&length, wire.data() + at + 1, sizeof length);
    if (length > stepscope::ControlChannel::kMaxBody || wire.size() - at - 5 < length) break;
    out.push_back({static_cast<stepscope::FrameType>(wire[at]), wire.substr(at + 5, length)});
    at += 5 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const size_t piece = 1 + data[0];
  const std::string wire(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<stepscope::Frame> expected, got;
  whole_frames(wire, expected);

  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  stepscope::ControlChannel channel{stepscope::Fd(ends[0])};
  stepscope::Fd sender(ends[1]);
  for (size_t at = 0; at < wire.size() && channel.open();) {
    const ssize_t n =
        ::send(sender.get(), wire.data() + at, std::min(piece, wire.size() - at), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) at += static_cast<size_t>(n);
    for (stepscope::Frame& frame : channel.receive()) got.push_back(std::move(frame));
    if (n <= 0) break;
  }
  if (channel.open()) {
    sender = stepscope::Fd();  // the other side goes
    for (stepscope::Frame& frame : channel.receive()) got.push_back(std::move(frame));
    if (channel.open()) std::abort();
  }
  if (got.size() != expected.size()) std::abort();
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i].type != expected[i].type || got[i].body != expected[i].body) std::abort();

  // A frame that can be read can be sent, and comes out the same.
  auto pair = stepscope::ControlChannel::make_pair();
  if (!pair) return 0;
  for (const stepscope::Frame& frame : got) {
    if (frame.body.size() > 65536 || !pair->first.send(frame.type, frame.body)) continue;
    const auto back = pair->second.receive();
    if (back.size() != 1 || back[0].type != frame.type || back[0].body != frame.body) std::abort();
  }
  std::string text = stepscope::AgentConfig{}.to_json();
  text.replace(piece % text.size(), wire.size() % 64, wire);
  if (const auto config = stepscope::AgentConfig::from_json(text)) {
    const auto again = stepscope::AgentConfig::from_json(config->to_json());
    if (!again || again->to_json() != config->to_json()) std::abort();
  }
  return 0;
}
