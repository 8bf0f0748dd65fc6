#include "serve/event_stream.h"

#include <gtest/gtest.h>

#include "../../tests/support/example_snapshot.h"

namespace stepscope {
namespace {

RunState run_with(uint64_t first, uint64_t last, uint64_t version, bool going_on = true) {
  Snapshot s;
  s.run.name = "r", s.run.status = going_on ? "running" : "completed";
  for (uint64_t step = first; step <= last; ++step) s.recent.push_back({.step = step, .wall_ms = 10.0 + double(step)});
  s.steps = last + 1;
  return {.name = "r", .version = version, .going_on = going_on, .snapshot = std::make_shared<const Snapshot>(s)};
}

TEST(EventStream, SaysWhatIsNewOnce) {
  EventCursor cursor;
  const std::string first = next_events(run_with(0, 4, 1), cursor, 1);
  EXPECT_NE(first.find("event: steps\nid: 4\n"), std::string::npos) << first;
  EXPECT_NE(first.find("event: state\n"), std::string::npos);
  EXPECT_EQ(next_events(run_with(0, 4, 1), cursor, 2), "");
  const std::string second = next_events(run_with(0, 6, 2), cursor, 3);
  EXPECT_NE(second.find("\"from\":5,\"to\":6"), std::string::npos) << second;
}

TEST(EventStream, GoesOnAfterTheStepThatTheListenerHas) {
  EventCursor cursor{.after_step = step_of_event_id("5")};
  EXPECT_NE(next_events(run_with(0, 9, 3), cursor, 1).find("\"from\":6,\"to\":9"), std::string::npos);
  // What is no longer kept shows as a gap.
  EventCursor late{.after_step = 5};
  EXPECT_NE(next_events(run_with(100, 103, 3), late, 1).find("\"from\":100"), std::string::npos);
  for (const char* text : {"", "x", "-3", "5x", "99999999999999999999"}) EXPECT_EQ(step_of_event_id(text), -1) << text;
}

TEST(EventStream, BeatsWhileNothingHappensAndEndsWithTheRun) {
  EventCursor cursor;
  next_events(run_with(0, 1, 1), cursor, 1);
  EXPECT_EQ(next_events(run_with(0, 1, 1), cursor, 2), "");
  EXPECT_NE(next_events(run_with(0, 1, 1), cursor, 2 + kBeatNs).find("event: beat"), std::string::npos);
  const std::string last = next_events(run_with(0, 2, 2, false), cursor, 3);
  EXPECT_NE(last.find("\"to\":2"), std::string::npos);
  EXPECT_NE(last.find("event: end"), std::string::npos);
  EXPECT_TRUE(cursor.ended);
  // A run of which nothing is known yet.
  EventCursor early;
  EXPECT_NE(next_events({}, early, kBeatNs).find("beat"), std::string::npos);
}

TEST(EventStream, ALineOfTheRunCannotBecomeAnEvent) {
  RunState run = run_with(0, 1, 1);
  Snapshot s = *run.snapshot;
  s.findings.push_back(Finding::of(FindingKind::kCommBound));
  s.findings.back().title = "a\n\nevent: end\ndata: {}";
  s.primary = 0;
  run.snapshot = std::make_shared<const Snapshot>(s);
  EventCursor cursor;
  EXPECT_EQ(next_events(run, cursor, 1).find("\nevent: end"), std::string::npos);
}

}  // namespace
}  // namespace stepscope
