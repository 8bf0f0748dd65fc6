// Frames from an uplink to a door, over loopback.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/node_uplink.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/node_door.h"
#include "serve/frame_gate.h"

namespace stepscope {
namespace {

constexpr const char* kSecret = "fedcba9876543210fedcba9876543210";

std::unique_ptr<NodeDoor> door(uint16_t port = 0, const std::string& secret = kSecret) {
  auto opened = open_node_door({.address = "127.0.0.1", .port = port, .secret = secret});
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? std::move(*opened) : nullptr;
}

// Turns both sides until `done` or the time is up.
bool turn(NodeDoor* door, const NodeUplink& uplink, const std::function<FrameReply(std::string_view)>& take,
          const std::function<bool()>& done, int most_ms = 8000) {
  const uint64_t deadline_ns = monotonic_ns() + static_cast<uint64_t>(most_ms) * 1'000'000;
  while (!done()) {
    if (monotonic_ns() > deadline_ns) return false;
    pollfd wait[] = {{uplink.fd(), POLLIN, 0}, {door ? door->fd() : -1, POLLIN, 0}};
    ::poll(wait, 2, 10);
    if (door) door->serve(take);
  }
  return true;
}

FrameReply echo(std::string_view frame) { return {200, "+" + std::string(frame)}; }

TEST(NodeWire, FramesArriveAndAnswersComeBack) {
  const auto there = door();
  const auto here = open_node_uplink({"127.0.0.1", there->port(), kSecret});
  EXPECT_EQ(here->state(), NodeUplink::State::kConnecting);
  for (const std::string& frame : {std::string("\0binary\xff", 8), std::string(500'000, 'x'), std::string("c")}) {
    ASSERT_TRUE(here->idle());
    here->send(frame);
    EXPECT_FALSE(here->idle());
    FrameReply reply;
    ASSERT_TRUE(turn(there.get(), *here, echo, [&] { return here->answer(reply); }));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "+" + frame);
    EXPECT_EQ(here->state(), NodeUplink::State::kUp);
  }
}

TEST(NodeWire, AFrameThatWillNeverDoIsGivenBack) {
  const auto there = door();
  const auto here = open_node_uplink({"localhost", there->port(), kSecret});
  here->send("rubbish");
  FrameReply reply;
  ASSERT_TRUE(turn(
      there.get(), *here, [](std::string_view) { return FrameReply{400, "no frame"}; },
      [&] { return here->answer(reply); }));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, "no frame");
  here->send(std::string(FrameGate::kMaxFrameBytes + 1, 'x'));
  ASSERT_TRUE(turn(there.get(), *here, echo, [&] { return here->answer(reply); }));
  EXPECT_EQ(reply.status, 413);
  here->send("good");
  ASSERT_TRUE(turn(there.get(), *here, echo, [&] { return here->answer(reply); }));
  EXPECT_EQ(reply.body, "+good");
}

TEST(NodeWire, AWrongSecretAndAnotherVersionAreFinal) {
  const auto there = door();
  const auto stranger = open_node_uplink({"127.0.0.1", there->port(), "0123456789abcdef0123456789abcdef"});
  stranger->send("frame");
  bool seen = false;
  const auto take = [&](std::string_view) { return seen = true, FrameReply{}; };
  ASSERT_TRUE(turn(there.get(), *stranger, take, [&] { return stranger->state() == NodeUplink::State::kRefused; }));
  EXPECT_FALSE(seen);
  EXPECT_EQ(stranger->reason(), "the secret of the run is missing or wrong");
  EXPECT_FALSE(stranger->idle());
  const auto old = open_node_uplink({"127.0.0.1", there->port(), kSecret});
  old->send("frame");
  ASSERT_TRUE(turn(
      there.get(), *old, [](std::string_view) { return FrameReply{409, "frames of version 2 are taken, not 1"}; },
      [&] { return old->state() == NodeUplink::State::kRefused; }));
  EXPECT_EQ(old->reason(), "frames of version 2 are taken, not 1");
}

TEST(NodeWire, AnAggregatorThatIsGoneAndBackGetsTheSameFrame) {
  auto there = door();
  const uint16_t port = there->port();
  const auto here = open_node_uplink({"127.0.0.1", port, kSecret});
  FrameReply reply;
  here->send("one");
  ASSERT_TRUE(turn(there.get(), *here, echo, [&] { return here->answer(reply); }));
  there.reset();
  here->send("two");
  ASSERT_TRUE(turn(nullptr, *here, echo, [&] { return here->state() == NodeUplink::State::kDown; }));
  EXPECT_NE(here->reason().find("127.0.0.1:" + std::to_string(port)), std::string::npos) << here->reason();
  EXPECT_FALSE(here->answer(reply));
  // Somebody else under that address is no reason to give up.
  auto other = door(port, "0123456789abcdef0123456789abcdef");
  ASSERT_TRUE(turn(other.get(), *here, echo, [&] { return here->reason().find("secret") != std::string::npos; }));
  EXPECT_EQ(here->state(), NodeUplink::State::kDown);
  other.reset();
  there = door(port);
  ASSERT_TRUE(turn(there.get(), *here, echo, [&] { return here->answer(reply); }));
  EXPECT_EQ(reply.body, "+two");
  EXPECT_EQ(here->state(), NodeUplink::State::kUp);
}

TEST(NodeWire, EndsAtOnceWhereNobodyAnswers) {
  // A listener that takes connections and says nothing.
  const Fd mute(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  ASSERT_EQ(::bind(mute.get(), reinterpret_cast<sockaddr*>(&at), length), 0);
  ASSERT_EQ(::listen(mute.get(), 8), 0);
  ASSERT_EQ(::getsockname(mute.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
  auto here = open_node_uplink({"127.0.0.1", ntohs(at.sin_port), kSecret});
  here->send("frame");
  pollfd wait{mute.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, 5000), 1);
  const uint64_t begin_ns = monotonic_ns();
  here.reset();
  EXPECT_LT(monotonic_ns() - begin_ns, 1'000'000'000u);
}

}  // namespace
}  // namespace stepscope
