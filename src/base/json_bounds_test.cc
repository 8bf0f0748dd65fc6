#include "base/json_bounds.h"

#include <gtest/gtest.h>

#include <string>

namespace stepscope {
namespace {

TEST(JsonBounds, TheFirstExcessIsTold) {
  EXPECT_EQ(json_excess("[[1, 2]]", {2, 3}), JsonExcess::kNone);
  EXPECT_EQ(json_excess("[[1, 2]]", {1, 3}), JsonExcess::kDepth);
  EXPECT_EQ(json_excess("[[1, 2]]", {2, 2}), JsonExcess::kValues);
  EXPECT_EQ(json_excess("[] [] []", {1, 3}), JsonExcess::kNone) << "what was closed no longer nests";
  EXPECT_EQ(json_excess("", {0, 0}), JsonExcess::kNone);
}

TEST(JsonBounds, TextsAreNoStructure) {
  EXPECT_EQ(json_excess(R"({"[[[{{,,,": "\"[[,,"})", {1, 1}), JsonExcess::kNone);
  EXPECT_EQ(json_excess("]]]][", {1, 1}), JsonExcess::kNone) << "what was never opened is not closed";
  EXPECT_EQ(json_excess("\"" + std::string(100, '['), {0, 0}), JsonExcess::kNone);
}

}  // namespace
}  // namespace stepscope
