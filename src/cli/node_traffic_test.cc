// Who aggregates and how it is found: two agents' traffic over loopback, with folders instead of rank processes.
#include "agent/node_traffic.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/node_door.h"

namespace stepscope {
namespace {

constexpr const char* kSecret = "fedcba9876543210fedcba9876543210";

// An agent's traffic in a folder of its own.
class Node {
 public:
  explicit Node(TrafficOptions options = {}) {
    char name[] = "/tmp/stepscope-traffic-XXXXXX";
    folder_ = ::mkdtemp(name);
    options.shm_dir = folder_;
    options.open_door = open_node_door;
    options_ = options;
    restart();
  }
  ~Node() { remove_flat_dir(folder_); }

  void restart() {
    traffic = std::make_unique<NodeTraffic>(options_, [](int) {});
  }
  void put(const char* name, const std::string& text) {
    ASSERT_TRUE(write_file_atomic(path_join(folder_, name), text));
  }
  std::string text(const char* name) const { return read_file(path_join(folder_, name), 4096).value_or(""); }
  AggregatorOffer offer() const {
    auto read = read_offer(text(kOfferFile));
    EXPECT_TRUE(read) << read.error().message;
    return read ? *read : AggregatorOffer{};
  }
  // As the ranks' hook does: what one folder offers is found in the other.
  void find(const Node& other) { put(kFoundFile, other.text(kOfferFile)); }
  void wish() { put(kWishFile, R"({"listen": "127.0.0.1", "tell": "127.0.0.1"})"); }

  void turn(bool rank_zero = false) {
    traffic->look(rank_zero, monotonic_ns());
    traffic->turn({.take =
                       [&](std::string_view frame) {
                         taken.emplace_back(frame);
                         return FrameReply{200, "ok"};
                       },
                   .next = [&]() -> std::optional<std::string> {
                     if (due.empty()) return std::nullopt;
                     std::string frame = due.front();
                     due.erase(due.begin());
                     return frame;
                   },
                   .answered = [&](const FrameReply& reply) { answers.push_back(reply.status); }});
  }

  TrafficOptions options_;
  std::string folder_;
  std::unique_ptr<NodeTraffic> traffic;
  std::vector<std::string> due, taken;
  std::vector<int> answers;
};

template <class Done>
bool turn_until(std::vector<Node*> nodes, const Done& done, int most_ms = 8000) {
  const uint64_t deadline_ns = monotonic_ns() + static_cast<uint64_t>(most_ms) * 1'000'000;
  while (!done()) {
    if (monotonic_ns() > deadline_ns) return false;
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->turn(i == 0);
    ::poll(nullptr, 0, 2);
  }
  return true;
}

using Role = NodeTraffic::Role;

TEST(NodeTraffic, AJobOnOneNodeIsAlone) {
  Node node;
  node.due = {"never sent"};
  for (int i = 0; i < 3; ++i) node.turn(true);
  EXPECT_EQ(node.traffic->role(), Role::kAlone);
  EXPECT_EQ(node.due.size(), 1u);
  EXPECT_EQ(node.text(kOfferFile), "");
  EXPECT_EQ(node.traffic->verdict_note(), "");
}

TEST(NodeTraffic, AWishOpensTheDoorAndAnOfferIsFollowed) {
  Node zero({.run_dir = "/logs/run", .node = "node-0"}), one;
  zero.wish();
  ASSERT_TRUE(turn_until({&zero}, [&] { return zero.traffic->role() == Role::kAggregates; }));
  EXPECT_EQ(zero.offer().node, "node-0");
  EXPECT_TRUE(is_secret(zero.offer().place.secret));
  struct stat info;
  ASSERT_EQ(::stat(path_join(zero.folder_, kOfferFile).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  one.find(zero);
  one.due = {"a", "b"};
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return one.answers.size() == 2; }));
  EXPECT_EQ(one.traffic->role(), Role::kSends);
  EXPECT_EQ(zero.taken, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(one.traffic->verdict_note(), "the verdict of the whole job is on node-0: /logs/run");
  EXPECT_EQ(one.traffic->verdict_place(), "node-0: /logs/run");
  EXPECT_EQ(zero.traffic->verdict_note(), "");
  EXPECT_EQ(zero.traffic->verdict_place(), "");
}

TEST(NodeTraffic, AnAgentThatIsStartedAgainIsFoundWhereItWas) {
  Node zero, one;
  zero.wish();
  ASSERT_TRUE(turn_until({&zero}, [&] { return zero.traffic->role() == Role::kAggregates; }));
  const std::string before = zero.text(kOfferFile);
  one.find(zero);
  one.due = {"a"};
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return one.answers.size() == 1; }));
  zero.traffic.reset();
  zero.restart();
  one.due = {"b"};
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return one.answers.size() == 2; }));
  EXPECT_EQ(zero.text(kOfferFile), before);
  EXPECT_EQ(zero.taken, (std::vector<std::string>{"a", "b"}));
}

TEST(NodeTraffic, TheNewestNoteCounts) {
  Node zero, one;
  zero.wish();
  ASSERT_TRUE(turn_until({&zero}, [&] { return zero.traffic->role() == Role::kAggregates; }));
  one.find(zero);
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return one.traffic->role() == Role::kSends; }));
  // The ranks start anew, rank 0 on the other node.
  one.wish();
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return one.traffic->role() == Role::kAggregates; }));
  zero.find(one);
  zero.due = {"c"};
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return zero.answers.size() == 1; }));
  EXPECT_EQ(zero.traffic->role(), Role::kSends);
  EXPECT_EQ(one.taken, std::vector<std::string>{"c"});
}

TEST(NodeTraffic, OurOwnOfferIsNobodyElse) {
  Node zero;
  zero.wish();
  ASSERT_TRUE(turn_until({&zero}, [&] { return zero.traffic->role() == Role::kAggregates; }));
  zero.find(zero);
  ::poll(nullptr, 0, 1100);
  for (int i = 0; i < 3; ++i) zero.turn(true);
  EXPECT_EQ(zero.traffic->role(), Role::kAggregates);
}

TEST(NodeTraffic, WhatIsConfiguredNeedsNoNotes) {
  uint16_t port;
  {
    const auto door = open_node_door({.address = "127.0.0.1", .port = 0, .secret = kSecret});
    port = (*door)->port();
  }
  const std::string place = "127.0.0.1:" + std::to_string(port);
  Node zero({.aggregator = place, .secret = kSecret}), one({.aggregator = place, .secret = kSecret});
  one.due = {"a"};
  ASSERT_TRUE(turn_until({&zero, &one}, [&] { return one.answers.size() == 1; }));
  EXPECT_EQ(zero.taken, std::vector<std::string>{"a"});
  // The secret of a file is written nowhere.
  EXPECT_EQ(zero.text(kOfferFile).find(kSecret), std::string::npos);
  Node off({.aggregator = "off"});
  off.wish();
  ::poll(nullptr, 0, 60);
  off.turn(true);
  EXPECT_EQ(off.traffic->role(), Role::kAlone);
}

TEST(NodeTraffic, WhatDoesNotFitIsSaidOnce) {
  Node zero, one;
  zero.wish();
  ASSERT_TRUE(turn_until({&zero}, [&] { return zero.traffic->role() == Role::kAggregates; }));
  AggregatorOffer wrong = zero.offer();
  wrong.place.secret = kSecret;
  one.put(kFoundFile, write_offer(wrong));
  one.due = {"a", "b"};
  std::vector<std::string> lines;
  ASSERT_TRUE(turn_until({&zero, &one}, [&] {
    for (std::string& line : one.traffic->take_lines()) lines.push_back(std::move(line));
    return !lines.empty();
  }));
  EXPECT_EQ(lines.front(), "the aggregator on " + place_text(wrong.place) +
                               " does not take this node's part: the secret of the run is missing or wrong (the "
                               "training goes on, with a verdict of its own here)");
  EXPECT_FALSE(one.traffic->can_deliver());
  for (int i = 0; i < 5; ++i) one.turn();
  EXPECT_TRUE(one.traffic->take_lines().empty());
  EXPECT_TRUE(zero.taken.empty());
  EXPECT_NE(one.traffic->verdict_note().find("this node alone"), std::string::npos);
  // A place that cannot be listened on.
  Node elsewhere({.aggregator = "203.0.113.7:8800", .secret = kSecret});
  elsewhere.turn(true);
  const auto said = elsewhere.traffic->take_lines();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said.front().find("the other nodes are not seen: cannot listen on 203.0.113.7:8800"), std::string::npos);
}

TEST(AggregatorNotes, WhatComesByTheStoreIsChecked) {
  for (const char* text :
       {"", "[]", "{}", "null", R"({"host": "a", "port": "1", "secret": "0123456789abcdef"})",
        R"({"host": "a", "port": 0, "secret": "0123456789abcdef"})", R"({"host": "a", "port": 65536})",
        R"({"host": "a b", "port": 1})", R"({"host": 7, "port": 1})", R"({"host": "a", "port": -1})",
        R"({"host": "a", "port": 1, "secret": "short"})", R"({"host": "a\r\nX: y", "port": 1})"})
    EXPECT_FALSE(read_offer(text)) << text;
  EXPECT_FALSE(read_offer("{\"host\": \"" + std::string(5000, 'a') + "\", \"port\": 1}"));
  const auto offer = read_offer(R"({"host": "a", "port": 1, "node": "x\ny", "later": []})");
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->node, "x?y");
  for (const char* text : {"a", "a:", ":1", "a:0", "a:65536", "a:1x", "::1:5", "a b:1", ""})
    EXPECT_FALSE(parse_place(text)) << text;
  EXPECT_EQ(place_text(*parse_place("[::1]:8800")), "[::1]:8800");
  EXPECT_EQ(parse_place("node-0:8800")->host, "node-0");
}

}  // namespace
}  // namespace stepscope
