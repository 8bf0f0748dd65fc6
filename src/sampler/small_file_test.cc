#include "sampler/small_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cerrno>

#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::RecordedTree;

RC_GTEST_PROP(SmallFile, NumbersReadBack, (uint64_t value)) {
  const std::string text = " \t" + std::to_string(value) + " kB";
  std::string_view rest = text;
  RC_ASSERT(take_u64(rest) == value);
  RC_ASSERT(rest == " kB");
}

RC_GTEST_PROP(SmallFile, ParsersTakeAnyBytes, (const std::string& text, const std::string& key)) {
  std::string_view rest = text;
  (void)take_u64(rest);
  (void)take_word(rest);
  (void)take_line(rest);
  (void)value_of(text, key);
  const auto n = count_list(text);
  RC_ASSERT(!n || *n > 0);
}

TEST(SmallFile, NumbersBeyond64BitAreNoNumbers) {
  std::string_view text = "99999999999999999999999 7";
  EXPECT_FALSE(take_u64(text).has_value());
  EXPECT_EQ(take_u64(text), 7u);  // and the reader stands behind it
}

TEST(SmallFile, ValueOfMatchesWholeKeysAtLineBegins) {
  const std::string_view text = "MemTotalX: 1 kB\nxMemTotal: 2 kB\nMemTotal:   3 kB\nnr_throttled 4\n";
  EXPECT_EQ(value_of(text, "MemTotal"), 3u);
  EXPECT_EQ(value_of(text, "nr_throttled"), 4u);
  EXPECT_FALSE(value_of(text, "nr_thrott").has_value());
  EXPECT_FALSE(value_of("Key: -1", "Key").has_value());
}

TEST(SmallFile, CountsCpuLists) {
  EXPECT_EQ(count_list("0-3,8,10-11\n"), 7);
  EXPECT_EQ(count_list("5"), 1);
  EXPECT_FALSE(count_list("").has_value());
  EXPECT_FALSE(count_list("3-1").has_value());
  EXPECT_FALSE(count_list("0-99999999999").has_value());
  EXPECT_FALSE(count_list("0;1").has_value());
}

TEST(SmallFile, ReadsLargeFilesUpToItsBoundAndTellsWhyNot) {
  RecordedTree tree("");
  tree.write("proc/large", std::string(3 << 20, 'x'));
  tree.write("proc/small", "1\n");
  SmallFile file;
  EXPECT_EQ(file.read(AT_FDCWD, tree.path("proc/large").c_str())->size(), 1u << 20);
  EXPECT_EQ(*file.read(AT_FDCWD, tree.path("proc/small").c_str()), "1\n");
  EXPECT_FALSE(file.read(AT_FDCWD, tree.path("proc/none").c_str()).has_value());
  EXPECT_EQ(file.error(), ENOENT);
  EXPECT_FALSE(file.read(AT_FDCWD, tree.path("proc").c_str()).has_value());
  EXPECT_EQ(file.error(), EISDIR);
}

}  // namespace
}  // namespace stepscope
