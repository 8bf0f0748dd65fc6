// The server over loopback, as browsers, strangers and broken clients meet it.
#include "serve/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "../../tests/support/example_snapshot.h"
#include "base/clock.h"
#include "base/fd.h"

namespace stepscope {
namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.token = kToken;
    options.event_interval_ms = 20;
    options.shelf.live = &slot_;
    options.shelf.live_name = "live run";
    options.shelf.load = [](const std::string&) { return fail("no file in this test"); };
    auto server = Server::start(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    put(5);
  }

  void put(uint64_t steps, const char* status = "running") {
    Snapshot s;
    s.run.name = "live run", s.run.status = status;
    s.steps = steps;
    s.ranks = {RankStat{.rank = 0}};
    for (uint64_t step = 0; step < steps; ++step) s.recent.push_back({.step = step, .wall_ms = 10, .rank_ms = {10}});
    slot_.put(std::make_shared<const Snapshot>(s));
  }

  Fd connected() const {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }

  static void write(const Fd& fd, std::string_view text) {
    EXPECT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  // What comes until `end` is in it, the other side closes, or time is up.
  static std::string read_until(const Fd& fd, std::string_view end, int most_ms = 5000) {
    std::string out;
    const uint64_t deadline_ns = monotonic_ns() + static_cast<uint64_t>(most_ms) * 1'000'000;
    while (monotonic_ns() < deadline_ns && (end.empty() || out.find(end) == std::string::npos)) {
      pollfd wait{fd.get(), POLLIN, 0};
      if (::poll(&wait, 1, 50) <= 0) continue;
      char buffer[65536];
      const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
      if (got <= 0) break;
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }

  std::string request(const std::string& target, const std::string& fields = "", const char* method = "GET") const {
    return std::string(method) + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server_->port()) +
           "\r\nAuthorization: Bearer " + kToken + "\r\n" + fields + "\r\n";
  }
  std::string asked(const std::string& target, const std::string& fields = "Connection: close\r\n",
                    const char* method = "GET") const {
    const Fd fd = connected();
    write(fd, request(target, fields, method));
    return read_until(fd, "");
  }

  LiveSlot slot_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  const Fd fd = connected();
  for (int round = 0; round < 3; ++round) {
    write(fd, request("/api/v1/runs/live%20run/page"));
    const std::string answer = read_until(fd, "\"versions\":[]}}");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
    EXPECT_NE(answer.find("Connection: keep-alive"), std::string::npos);
  }
  EXPECT_NE(asked("/api/v1/runs").find("\"name\":\"live run\""), std::string::npos);
  EXPECT_NE(asked("/metrics").find("stepscope_steps_total{run=\"live run\"} 5"), std::string::npos);
  EXPECT_TRUE(asked("/api/v1/runs/other/page").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(asked("/api/v1/runs", "Connection: close\r\n", "HEAD").ends_with("\r\n\r\n"));
}

TEST_F(ServerTest, WhatHasNotChangedIsNotSentAgain) {
  const std::string answer = asked("/api/v1/runs/live%20run/page");
  const size_t at = answer.find("ETag: ") + 6;
  const std::string tag = answer.substr(at, answer.find("\r\n", at) - at);
  const std::string fields = "If-None-Match: " + tag + "\r\nConnection: close\r\n";
  EXPECT_TRUE(asked("/api/v1/runs/live%20run/page", fields).starts_with("HTTP/1.1 304 "));
  put(6);
  EXPECT_TRUE(asked("/api/v1/runs/live%20run/page", fields).starts_with("HTTP/1.1 200 "));
}

TEST_F(ServerTest, StrangersGetNothing) {
  const Fd fd = connected();
  write(fd, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  const std::string locked = read_until(fd, "");
  EXPECT_TRUE(locked.starts_with("HTTP/1.1 401 ")) << locked;
  EXPECT_EQ(locked.find("live run"), std::string::npos);
  EXPECT_TRUE(
      asked("/api/v1/runs", "Origin: http://evil.example\r\nConnection: close\r\n").starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(asked("/api/v1/runs", "Connection: close\r\n", "POST").starts_with("HTTP/1.1 405 "));
}

TEST_F(ServerTest, RubbishAndTooMuchOfItIsRefused) {
  const auto told = [&](std::string_view bytes) {
    const Fd fd = connected();
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(fd.get(), SHUT_WR);
    return read_until(fd, "");
  };
  EXPECT_TRUE(told("\x16\x03\x01 no http at all\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(told(request("/", "X: " + std::string(40000, 'x') + "\r\n")).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(told(request("/", "Content-Length: 5\r\n") + "12345").starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(told(request("/a%zz", "Connection: close\r\n")).starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(told(""), "");
  EXPECT_TRUE(asked("/api/v1/runs").starts_with("HTTP/1.1 200 "));  // and goes on
}

TEST_F(ServerTest, EventsTellNewStepsAndTheEnd) {
  const Fd fd = connected();
  write(fd, request("/api/v1/events?run=live%20run"));
  std::string told = read_until(fd, "event: state");
  EXPECT_NE(told.find("id: 4\n"), std::string::npos) << told;
  put(8);
  told = read_until(fd, "event: state");
  EXPECT_NE(told.find("\"from\":5,\"to\":7"), std::string::npos) << told;
  put(9, "completed");
  EXPECT_NE(read_until(fd, "").find("event: end"), std::string::npos);
  // Whoever comes back is told what it missed.
  const Fd again = connected();
  write(again, request("/api/v1/events?run=live%20run", "Last-Event-ID: 7\r\n"));
  EXPECT_NE(read_until(again, "").find("\"from\":8,\"to\":8"), std::string::npos);
  EXPECT_TRUE(asked("/api/v1/events?run=none").starts_with("HTTP/1.1 404 "));
}

TEST_F(ServerTest, ManyListenersAndOneWhoDoesNotRead) {
  std::vector<Fd> listeners;
  for (int i = 0; i < 100; ++i) {
    listeners.push_back(connected());
    write(listeners.back(), request("/api/v1/events?run=live%20run"));
  }
  for (const Fd& fd : listeners) EXPECT_NE(read_until(fd, "event: state").find("event: steps"), std::string::npos);
  put(7);
  for (size_t i = 1; i < listeners.size(); ++i)
    EXPECT_NE(read_until(listeners[i], "event: state").find("\"from\":5"), std::string::npos) << i;
  EXPECT_TRUE(asked("/api/v1/runs").starts_with("HTTP/1.1 200 "));
}

TEST_F(ServerTest, StopsWhileEverythingIsOpen) {
  const Fd idle = connected(), listening = connected(), half = connected();
  write(listening, request("/api/v1/events?run=live%20run"));
  write(half, "GET / HT");
  read_until(listening, "event: state");
  const uint64_t begin_ns = monotonic_ns();
  server_->stop();
  EXPECT_LT(monotonic_ns() - begin_ns, 2'000'000'000u);
  server_.reset();
  EXPECT_EQ(read_until(listening, "", 500).find("event: end"), std::string::npos);
}

TEST_F(ServerTest, ConnectionsBeyondTheLimitAreClosed) {
  std::vector<Fd> held;
  for (size_t i = 0; i < Server::kMaxConnections + 20; ++i) held.push_back(connected());
  // The last ones find themselves closed; those before are served.
  EXPECT_EQ(read_until(held.back(), "", 3000), "");
  write(held.front(), request("/api/v1/runs"));
  EXPECT_TRUE(read_until(held.front(), "\r\n").starts_with("HTTP/1.1 200 "));
}

constexpr const char* kSecret = "fedcba9876543210fedcba9876543210";

// With a gate for frames, and an owner's thread that takes them up.
class NodeServerTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    ServerOptions options;
    options.token = kToken;
    options.frames = gate_;
    options.shelf.load = [](const std::string&) { return fail("no file in this test"); };
    auto server = Server::start(options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  static std::string post(std::string_view frame, const std::string& secret = kSecret, const std::string& fields = "",
                          const std::string& path = "/api/v1/nodes/frames") {
    return "POST " + path + " HTTP/1.1\r\nHost: node-0\r\nAuthorization: Bearer " + secret + "\r\n" + fields +
           "Content-Length: " + std::to_string(frame.size()) + "\r\n\r\n" + std::string(frame);
  }
  // Takes frames up until one has come or time is up.
  size_t serve(const std::function<FrameReply(std::string_view)>& take, int most_ms = 5000) {
    for (int waited_ms = 0; waited_ms < most_ms; ++waited_ms) {
      if (const size_t count = gate_->serve(take)) return count;
      pollfd wait{gate_->fd(), POLLIN, 0};
      ::poll(&wait, 1, 1);
    }
    return 0;
  }

  std::shared_ptr<FrameGate> gate_ = std::make_shared<FrameGate>(kSecret);
};

TEST_F(NodeServerTest, FramesComeInWholeAndAreAnswered) {
  const Fd fd = connected();
  for (int round = 0; round < 3; ++round) {
    const std::string frame = std::string("\0\r\n\xff", 4) + std::string(200'000, static_cast<char>('a' + round));
    write(fd, post(frame));
    std::string got;
    ASSERT_EQ(
        serve([&](std::string_view bytes) { return got = bytes, FrameReply{200, "taken " + std::to_string(round)}; }),
        1u);
    EXPECT_EQ(got, frame);
    const std::string answer = read_until(fd, "taken " + std::to_string(round));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos) << answer;
  }
  write(fd, post("old"));
  serve([](std::string_view) { return FrameReply{409, "frames of version 1, not 2"}; });
  const std::string refused = read_until(fd, "not 2");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 409 Conflict\r\n")) << refused;
  EXPECT_NE(refused.find("frames of version 1, not 2"), std::string::npos);
}

TEST_F(NodeServerTest, WithoutTheSecretNothingOfABodyIsRead) {
  const auto told = [&](const std::string& bytes) {
    const Fd fd = connected();
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return read_until(fd, "");
  };
  const std::string head = "POST /api/v1/nodes/frames HTTP/1.1\r\nHost: x\r\n";
  // Answered at once and closed, although the bodies that they speak of never come.
  EXPECT_TRUE(told(head + "Content-Length: 1000000\r\n\r\n").starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(
      told(head + "Authorization: Bearer " + kToken + "\r\nContent-Length: 9\r\n\r\n").starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(told(head + "Authorization: Bearer " + kSecret + "\r\nOrigin: http://a\r\nContent-Length: 9\r\n\r\n")
                  .starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(told(post("x", kSecret, "", "/api/v1/runs")).starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(told(post("", kSecret, "Connection: close\r\n", "/api/v1/runs")).starts_with("HTTP/1.1 405 "));
  // The secret opens nothing else, the token no frames.
  EXPECT_TRUE(told("GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + std::string(kSecret) +
                   "\r\nConnection: close\r\n\r\n")
                  .starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(asked("/api/v1/nodes/frames").starts_with("HTTP/1.1 405 "));
  EXPECT_EQ(serve([](std::string_view) { return FrameReply{}; }, 20), 0u);
}

TEST_F(NodeServerTest, TooLargeAndHalfFramesAreRefused) {
  const auto told = [&](const std::string& bytes) {
    const Fd fd = connected();
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(fd.get(), SHUT_WR);
    return read_until(fd, "");
  };
  const std::string head =
      "POST /api/v1/nodes/frames HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + std::string(kSecret) + "\r\n";
  EXPECT_TRUE(told(head + "Content-Length: " + std::to_string(FrameGate::kMaxFrameBytes + 1) + "\r\n\r\n")
                  .starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(told(head + "Content-Length: 99999999999999999999\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(told(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n").starts_with("HTTP/1.1 400 "));
  std::string chunks;
  for (size_t i = 0; i <= FrameGate::kMaxFrameBytes / 0x20000; ++i)
    chunks += "20000\r\n" + std::string(0x20000, 'x') + "\r\n";
  EXPECT_TRUE(told(head + "Transfer-Encoding: chunked\r\n\r\n" + chunks).starts_with("HTTP/1.1 413 "));
  EXPECT_TRUE(told(head + "Content-Length: 10\r\n\r\nhalf").find("200") == std::string::npos);
  EXPECT_EQ(serve([](std::string_view) { return FrameReply{}; }, 20), 0u);
}

TEST_F(NodeServerTest, ASlowBodyHoldsUpNobody) {
  const Fd slow = connected();
  const std::string whole = post("slow frame");
  write(slow, whole.substr(0, whole.size() - 3));
  std::vector<Fd> others;
  for (int i = 0; i < 600; ++i) {  // more than browsers may open
    others.push_back(connected());
    write(others.back(), post("quick"));
  }
  size_t taken = 0;
  while (taken < others.size()) {
    const size_t some = serve([](std::string_view bytes) { return FrameReply{200, std::string(bytes)}; });
    if (some == 0) break;
    taken += some;
  }
  EXPECT_EQ(taken, others.size());
  for (const Fd& fd : others) EXPECT_TRUE(read_until(fd, "quick").starts_with("HTTP/1.1 200 "));
  write(slow, whole.substr(whole.size() - 3));
  EXPECT_EQ(serve([](std::string_view bytes) { return FrameReply{200, std::string(bytes)}; }), 1u);
  EXPECT_NE(read_until(slow, "slow frame").find("200 OK"), std::string::npos);
}

TEST_F(NodeServerTest, AFullGateAsksForTheFrameAgain) {
  for (size_t i = 0; i < FrameGate::kMaxWaitingBytes / FrameGate::kMaxFrameBytes; ++i)
    ASSERT_TRUE(gate_->put(std::string(FrameGate::kMaxFrameBytes, 'x'), [](const FrameReply&) {}));
  EXPECT_FALSE(gate_->put("one more", [](const FrameReply&) {}));
  const Fd fd = connected();
  write(fd, post("frame"));
  const std::string full = read_until(fd, "send it again");
  EXPECT_TRUE(full.starts_with("HTTP/1.1 503 ")) << full;
  EXPECT_NE(full.find("Retry-After: 1"), std::string::npos);
  serve([](std::string_view) { return FrameReply{}; });
  write(fd, post("frame"));
  EXPECT_EQ(serve([](std::string_view) { return FrameReply{200, "in"}; }), 1u);
  EXPECT_TRUE(read_until(fd, "in").starts_with("HTTP/1.1 200 "));
}

TEST_F(NodeServerTest, StopsWhileFramesWait) {
  const Fd waits = connected(), half = connected();
  write(waits, post("never taken up"));
  write(half, post("half a frame").substr(0, 100));
  pollfd wait{gate_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 5000), 1);
  const uint64_t begin_ns = monotonic_ns();
  server_->stop();
  EXPECT_LT(monotonic_ns() - begin_ns, 2'000'000'000u);
  EXPECT_FALSE(gate_->put("late", [](const FrameReply&) {}));
  EXPECT_EQ(gate_->serve([](std::string_view) { return FrameReply{}; }), 0u);
  server_.reset();
  EXPECT_EQ(read_until(waits, ""), "");
}

TEST_F(ServerTest, WithoutAGateNoFramesAreTaken) {
  EXPECT_TRUE(asked("/api/v1/nodes/frames").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(asked("/api/v1/nodes/frames", "Connection: close\r\n", "POST").starts_with("HTTP/1.1 405 "));
}

TEST(Server, AnAddressThatCannotBeHadIsSaid) {
  ServerOptions options;
  options.token = kToken;
  options.address = "nowhere.example";
  EXPECT_EQ(Server::start(options).error().message, "cannot listen on nowhere.example:0: not a numeric address");
  options.address = "127.0.0.1";
  auto first = Server::start(options);
  ASSERT_TRUE(first);
  options.port = (*first)->port();
  const auto second = Server::start(options);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("cannot listen on 127.0.0.1:"), std::string::npos);
}

TEST(LiveSlot, SnapshotsAreMadeWhileSomebodyLooks) {
  LiveSlot slot;
  EXPECT_FALSE(slot.wanted(100));
  slot.get(100);
  EXPECT_TRUE(slot.wanted(200));
  EXPECT_FALSE(slot.wanted(100 + 6'000'000'000));
}

}  // namespace
}  // namespace stepscope
