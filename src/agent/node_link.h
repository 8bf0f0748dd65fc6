// What the agent needs of the network, and no more: the side that takes frames of other nodes in, and the side that
// sends them. Frames and answers are bytes here. Called on the agent's thread; nothing waits, nothing throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/frame_reply.h"
#include "base/result.h"

namespace stepscope {

// Aggregator: where frames of other nodes come in.
class NodeDoor {
 public:
  virtual ~NodeDoor() = default;
  virtual uint16_t port() const = 0;
  virtual int fd() const = 0;  // readable when frames wait; -1 = none, serve() is then called now and then
  // Hands each frame that waits to `take`; what it returns goes back to the sender.
  virtual void serve(const std::function<FrameReply(std::string_view frame)>& take) = 0;
};

struct DoorPlace {
  std::string address;  // numeric
  uint16_t port = 0;    // 0 = the system chooses
  std::string secret;
};
// One line where the address cannot be listened on.
using OpenNodeDoor = std::function<Result<std::unique_ptr<NodeDoor>>(const DoorPlace&)>;

// Where an aggregator is, and by what it lets a node in.
struct AggregatorPlace {
  std::string host;  // name or numeric address
  uint16_t port = 0;
  std::string secret;
};

// Any other node: its way to the aggregator. One frame is on its way at a time; it is sent until it is answered.
class NodeUplink {
 public:
  enum class State : uint8_t {
    kConnecting,  // never answered so far
    kUp,
    kDown,     // answered before, and not the last time; it is tried again
    kRefused,  // for good: reason() says why
  };
  virtual ~NodeUplink() = default;
  virtual bool idle() const = 0;               // takes a frame now
  virtual void send(std::string frame) = 0;    // only when idle
  virtual bool answer(FrameReply& reply) = 0;  // what came back for the frame that was sent; then it is idle
  virtual State state() const = 0;
  virtual std::string reason() const = 0;  // of the last failure, one line; "" = none
  virtual int fd() const = 0;              // readable when an answer has come
};

}  // namespace stepscope
