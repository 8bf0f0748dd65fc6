#include "blackbox/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace stepscope::blackbox {
namespace {

TEST(Printable, KeepsGoodText) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("DataLoader(workers=4)"), "DataLoader(workers=4)");
  EXPECT_EQ(printable("größe 模型 🚀"), "größe 模型 🚀");
}

TEST(Printable, TakesTerminalsOutOfReach) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\td\x7f"), "a [2Jb c d ");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            " 31m")
      << "C1 control sequence introducer";
  EXPECT_EQ(printable("\xe2\x80\xa8"), " ") << "line separator";
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a b");
}

TEST(Printable, ReplacesInvalidBytes) {
  EXPECT_EQ(printable("\xff"), "?");
  EXPECT_EQ(printable("\xc3"), "?") << "cut off";
  EXPECT_EQ(printable("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(printable("\xe0\x80\xaf"), "???") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "???") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????") << "beyond the last code point";
  EXPECT_EQ(printable("\xe2\x28\xa1"), "?(?");
}

RC_GTEST_PROP(Printable, IsIdempotentAndNeverLonger, (const std::string& text)) {
  const std::string once = printable(text);
  RC_ASSERT(once.size() <= text.size());
  RC_ASSERT(printable(once) == once);
  for (unsigned char c : once) RC_ASSERT(c >= 0x20 && c != 0x7f);
}

}  // namespace
}  // namespace stepscope::blackbox
