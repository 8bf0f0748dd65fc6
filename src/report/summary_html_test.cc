#include "report/summary_html.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <regex>

#include "example_snapshot.h"
#include "random_snapshot.h"
#include "report/html_charts.h"
#include "report/html_text.h"
#include "report/page_blocks.h"

namespace stepscope {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// "" when every element that must be closed is closed in order.
std::string nesting_problem(const std::string& html) {
  static const std::regex kTag("<(/?)([a-z0-9]+)[^<>]*?(/?)>");
  std::vector<std::string> open;
  for (std::sregex_iterator it(html.begin(), html.end(), kTag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if (name == "meta" || (*it)[3] == "/") continue;
    if ((*it)[1] != "/") {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "unexpected </" + name + ">";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

TEST(SummaryHtml, TellsTheSameStoryAsTheText) {
  const std::string html = summary_html(examples::rank_lost());
  for (const char* part : {"RANK LOST", "Rank 2 is gone: killed by SIGKILL", "crashed by SIGKILL", "COMPUTE STRAGGLER",
                           "Worst Rank", "812 lost", "lost in backward", "torchrun --nproc-per-node"}) {
    EXPECT_TRUE(has(html, part)) << part;
  }
}

TEST(SummaryHtml, IsSelfContainedAndRunsNothing) {
  const std::string html = summary_html(examples::gpu_job());
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "http:"));
  EXPECT_FALSE(has(html, "https:"));
  EXPECT_FALSE(has(html, "url("));
  EXPECT_TRUE(has(html, "default-src 'none'"));
  EXPECT_TRUE(has(html, "prefers-color-scheme:dark"));
  EXPECT_TRUE(has(html, "@media print"));
}

TEST(SummaryHtml, EveryStringOfTheRunIsEscaped) {
  Snapshot s = examples::straggler();
  s.run.name = "<script>alert(1)</script>";
  s.findings[0].title = "a<b>&\"'";
  s.ranks[0].hostname = "\"><img src=x>";
  const std::string html = summary_html(s);
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_TRUE(has(html, "a&lt;b&gt;&amp;&quot;&#39;"));
}

TEST(SummaryHtml, ElementsAreClosedInOrder) {
  for (const Snapshot& s : {examples::straggler(), examples::straggler(100), examples::gpu_job(), examples::empty()})
    EXPECT_EQ(nesting_problem(summary_html(s)), "");
}

RC_GTEST_PROP(SummaryHtml, ArbitrarySnapshotsGiveWellFormedPages, (uint64_t seed)) {
  const std::string html = summary_html(examples::RandomSnapshot(seed).make());
  RC_ASSERT(nesting_problem(html) == "");
  RC_ASSERT(!has(html, "<script"));
  RC_ASSERT(html.find('\x1b') == std::string::npos);
}

template <class T>
const T* element_of(const Block& block) {
  for (const Element& element : block.elements)
    if (const T* found = std::get_if<T>(&element)) return found;
  return nullptr;
}

std::string heat_strip(const Snapshot& s) {
  const Block block = steps_block(s, {.heat_rows = 64});
  const HeatMap* map = element_of<HeatMap>(block);
  return map ? svg_heat_strip(*map) : "";
}

TEST(HtmlCharts, HeatStripHasARowPerRankAndAGapWhereARankIsGone) {
  const std::string whole = heat_strip(examples::straggler(4)), gap = heat_strip(examples::rank_lost());
  EXPECT_TRUE(has(whole, "viewBox=\"0 0 240 64\""));
  EXPECT_TRUE(has(whole, "<span>3</span>"));
  EXPECT_TRUE(has(gap, "y=\"32\" width=\"118\""));  // rank 2 ends after step 120: columns 3 to 120
  EXPECT_FALSE(has(whole, "y=\"32\" width=\"118\""));
}

TEST(HtmlCharts, OfTwoRanksTheFasterIsTheMeasure) {
  Snapshot s;
  for (int i = 0; i < 100; ++i) {
    StepPoint p;
    p.wall_ms = 95;
    p.rank_ms = {i % 10 == 3 ? 80.0f : 48.0f, 92.0f};  // now and then the fast one is slow
    s.recent.push_back(p);
  }
  s.ranks.resize(2);
  s.ranks[1].rank = 1;
  const std::string strip = heat_strip(s);
  EXPECT_TRUE(has(strip, "<rect class=\"h4\" x=\"0\" y=\"16\" width=\"100\"")) << strip;  // 92 / 48
  EXPECT_TRUE(has(strip, "<rect class=\"h0\" x=\"0\" y=\"0\" width=\"3\"")) << strip;
}

TEST(HtmlCharts, TheLineOfStepsHasNoEdgesOfItsOwn) {
  const std::string chart = svg_step_series({.wall_ms = {10, 10, 10, 10}, .median_ms = 10});
  EXPECT_TRUE(has(chart, "<polyline class=\"series\" points=\"125.0,4.3 375.0,4.3 625.0,4.3 875.0,4.3 \"/>")) << chart;
  EXPECT_TRUE(has(chart, "points=\"125.0,90 125.0,4.3 ")) << chart;
}

TEST(HtmlCharts, NothingToDrawGivesNothing) {
  EXPECT_TRUE(steps_block(examples::empty(), {}).elements.empty());
  EXPECT_EQ(svg_step_series({}), "");
  EXPECT_EQ(svg_heat_strip({}), "");
}

}  // namespace
}  // namespace stepscope
