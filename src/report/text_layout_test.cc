#include "report/text_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "report/text_table.h"
#include "random_snapshot.h"

namespace stepscope {
namespace {

TEST(TextLayout, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("µ·–×"), 4u);
  EXPECT_EQ(display_width("日本"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u);  // a combining accent
  EXPECT_EQ(display_width("██"), 2u);
}

TEST(TextLayout, PrintableTakesAwayWhatMovesTheCursor) {
  EXPECT_EQ(printable("a\x1b[31mb\nc"), "a [31mb c");
  EXPECT_EQ(printable("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(printable("\xc0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");          // overlong NUL
  EXPECT_EQ(printable("a\u202Eb"), "a b");                               // right-to-left override
  EXPECT_EQ(printable("\xed\xa0\x80").find('\xed'), std::string::npos);  // a surrogate
}

TEST(TextLayout, ClipMarksWhatIsCut) {
  EXPECT_EQ(clip("backward", 8), "backward");
  EXPECT_EQ(clip("backward", 5), "back…");
  EXPECT_EQ(clip("日本語", 4), "日…");
  EXPECT_EQ(clip("x", 0), "");
}

TEST(TextLayout, WrapBreaksAtSpacesAndCutsLongWords) {
  EXPECT_EQ(wrap("one two  three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("abcdefgh", 3), (std::vector<std::string>{"abc", "def", "gh"}));
  EXPECT_TRUE(wrap("  ", 10).empty());
}

TEST(TextLayout, NoSeparatorDanglesAtALineEnd) {
  EXPECT_EQ(wrap_items({"aaa", "", "bbb", "ccc"}, " · ", 9), (std::vector<std::string>{"aaa · bbb", "ccc"}));
}

RC_GTEST_PROP(TextLayout, NothingGrowsBeyondItsWidth, (uint64_t seed)) {
  const std::string text = printable(examples::RandomSnapshot(seed).text());
  const size_t columns = *rc::gen::inRange<size_t>(2, 60);
  RC_ASSERT(display_width(clip(text, columns)) <= columns);
  RC_ASSERT(display_width(pad_left(text, columns)) == columns);
  RC_ASSERT(display_width(pad_right(text, columns)) == columns);
  for (const std::string& line : wrap(text, columns)) RC_ASSERT(display_width(line) <= columns);
  RC_ASSERT(printable(text) == text);
}

TEST(TextTable, LeavesOutTheLeastImportantColumnsFirst) {
  Table table{{{.title = "Rank"}, {.title = "Step", .unit = "ms", .priority = 1}, {.title = "Peak RSS", .priority = 2}},
              {}};
  table.add({"1", "79.4", "412 MiB"});
  EXPECT_EQ(text_table(table, 40).head, (std::vector<std::string>{"Rank  Step  Peak RSS", "        ms"}));
  EXPECT_EQ(text_table(table, 15).head, (std::vector<std::string>{"Rank  Step", "        ms"}));
  EXPECT_EQ(text_table(table, 6).head, (std::vector<std::string>{"Rank"})) << "no line of units without a unit";
  EXPECT_EQ(text_table(table, 6).rows[0], "   1");
}

TEST(TextTable, CutsTheWidestColumnWhenNothingMayGo) {
  Table table{{{.title = "Host", .right = false}, {.title = "Steps"}}, {}};
  table.add({"a-very-long-host-name.example", "12"});
  EXPECT_EQ(text_table(table, 16).rows[0], "a-very-l…     12");
}

}  // namespace
}  // namespace stepscope
