#include "tui/frame.h"

#include <gtest/gtest.h>

#include <map>

#include "tui/output_tail.h"
#include "tui/memory_track.h"
#include "tui/terminal_kind.h"

namespace stepscope::tui {
namespace {

Grid grid_of(std::string_view text, const Ink& ink = {}) {
  Grid grid(10, 2);
  grid.put(1, 1, text, ink);
  return grid;
}

TEST(Frame, TheFirstClearsAndDrawsAll) {
  EXPECT_EQ(frame_bytes(nullptr, grid_of("abc"), ColorDepth::k256), "\x1b[0m\x1b[2J\x1b[2;1H abc");
}

TEST(Frame, OnlyWhatDiffersIsWritten) {
  const Grid before = grid_of("abcdef"), now = grid_of("abXYef");
  EXPECT_EQ(frame_bytes(&before, now, ColorDepth::k256), "\x1b[2;4HXY");
  EXPECT_EQ(frame_bytes(&now, now, ColorDepth::k256), "");
}

TEST(Frame, AWideCharacterIsNeverCutInHalf) {
  const Grid before = grid_of("a\u65e5b"), now = grid_of("axyb");
  EXPECT_EQ(frame_bytes(&before, now, ColorDepth::kNone), "\x1b[2;3Hxy");
  EXPECT_EQ(frame_bytes(&now, before, ColorDepth::kNone), "\x1b[2;3H\u65e5");
}

TEST(Frame, ColoursAreWhatTheTerminalHas) {
  const Ink ink{.bold = true, .color = 33, .rgb = 0x2a6fdb};
  const Grid now = grid_of("x", ink), before = grid_of(" ");
  EXPECT_EQ(frame_bytes(&before, now, ColorDepth::kTrue), "\x1b[2;2H\x1b[0;1;38;2;42;111;219mx\x1b[0m");
  EXPECT_EQ(frame_bytes(&before, now, ColorDepth::k256), "\x1b[2;2H\x1b[0;1;38;5;33mx\x1b[0m");
  EXPECT_EQ(frame_bytes(&before, now, ColorDepth::k16), "\x1b[2;2H\x1b[0;1;36mx\x1b[0m");
  EXPECT_EQ(frame_bytes(&before, now, ColorDepth::kNone), "\x1b[2;2H\x1b[0;1mx\x1b[0m");
}

TEST(GridTest, TextIsCutAtTheEdgesAndCombiningMarksStayWithTheirLetter) {
  Grid grid(4, 1);
  EXPECT_EQ(grid.put(0, 0, "e\u0301xyz\u65e5"), 4);
  EXPECT_EQ(grid.text(), "e\u0301xyz\n");
  EXPECT_EQ(grid.put(3, 0, "\u65e5"), 3);
  grid.put(0, 7, "below");
  grid.put(9, 0, "beyond");
  EXPECT_EQ(grid.text(), "e\u0301xyz\n");
}

ColorDepth depth(std::map<std::string, std::string> variables) {
  return color_depth([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(TerminalKind, ColoursByWhatTheEnvironmentSays) {
  EXPECT_EQ(depth({{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}}), ColorDepth::kTrue);
  EXPECT_EQ(depth({{"TERM", "screen-256color"}}), ColorDepth::k256);
  EXPECT_EQ(depth({{"TERM", "xterm-kitty"}}), ColorDepth::kTrue);
  EXPECT_EQ(depth({{"TERM", "linux"}}), ColorDepth::k16);
  EXPECT_EQ(depth({{"TERM", "vt100"}}), ColorDepth::kNone);
  EXPECT_EQ(depth({{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}, {"NO_COLOR", "1"}}), ColorDepth::kNone);
  EXPECT_EQ(depth({{"TERM", "xterm-256color"}, {"NO_COLOR", ""}}), ColorDepth::k256);
}

std::string shown(const OutputTail& tail) {
  std::string out;
  for (const OutputLine& line : tail.lines()) out += std::to_string(line.rank) + "|" + line.text + "\n";
  return out;
}

TEST(OutputTailTest, RanksAreToldByTheirPrefix) {
  OutputTail tail;
  tail.feed("[rank3]: Traceback\n[default12]:step 1\n[rank]: no\n[12]: no\n[W1129 x.cpp:3] no\nplain\n");
  EXPECT_EQ(shown(tail), "3|Traceback\n12|step 1\n-1|[rank]: no\n12|no\n-1|[W1129 x.cpp:3] no\n-1|plain\n");
}

TEST(OutputTailTest, BarsAndColoursLeaveTheirLastState) {
  OutputTail tail;
  tail.feed("10%\r20");
  tail.feed("%\r");
  EXPECT_EQ(shown(tail), "-1|20%\n");
  tail.feed("\x1b[1;32mgreen\x1b[0m\x1b]0;title\a\r\nnext\n");
  EXPECT_EQ(shown(tail), "-1|green\n-1|next\n");
}

TEST(OutputTailTest, AnyBytesAreBounded) {
  OutputTail tail;
  for (size_t i = 0; i < 3 * OutputTail::kMaxLines; ++i) tail.feed("x\n");
  EXPECT_EQ(tail.lines().size(), OutputTail::kMaxLines);
  tail.feed(std::string(1 << 20, 'y'));
  EXPECT_LE(tail.lines().back().text.size(), OutputTail::kMaxBytes);
  std::string noise;
  for (int i = 0; i < 100'000; ++i) noise += static_cast<char>(i * 7919 % 251);
  tail.feed(noise);
}

TEST(MemoryTrackTest, ItStaysBoundedAndKeepsTheHighest) {
  MemoryTrack track;
  for (int i = 0; i < 5000; ++i) track.add("host", i == 2500 ? 1e9 : 1.0);
  EXPECT_LE(track.bytes().size(), MemoryTrack::kMaxPoints);
  EXPECT_EQ(*std::max_element(track.bytes().begin(), track.bytes().end()), 1e9);
  track.add("device", 5);
  EXPECT_EQ(track.bytes(), std::vector<double>{5});
}

}  // namespace
}  // namespace stepscope::tui
