#include "tui/keys.h"

#include <gtest/gtest.h>

#include "tui/view_state.h"

namespace stepscope::tui {
namespace {

TEST(Keys, SequencesOfTerminalsAreKeys) {
  KeyDecoder decoder;
  const std::vector<Key> keys = decoder.feed("q\x1b[A\x1bOB\x1b[5~\x1b[Z\r\x7f\t");
  const std::vector<Key> expected = {{KeyKind::kChar, 'q'}, {KeyKind::kUp},      {KeyKind::kDown},
                                     {KeyKind::kPageUp},    {KeyKind::kBackTab}, {KeyKind::kEnter},
                                     {KeyKind::kBackspace}, {KeyKind::kTab}};
  EXPECT_EQ(keys, expected);
}

TEST(Keys, ASequenceMayComeInPieces) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.feed("\x1b").empty());
  EXPECT_TRUE(decoder.feed("[").empty());
  EXPECT_EQ(decoder.feed("B"), (std::vector<Key>{{KeyKind::kDown}}));
}

TEST(Keys, ALoneEscapeIsOneOnceNothingFollows) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.feed("\x1b").empty());
  EXPECT_EQ(decoder.flush(), (std::vector<Key>{{KeyKind::kEscape}}));
  EXPECT_TRUE(decoder.flush().empty());
}

TEST(Keys, WhatIsNoKeyOfOursIsLeftOut) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.feed("\x1b[24~\x1b[?62;c\xc3\xa4\x01").empty());
  EXPECT_EQ(decoder.feed("s"), (std::vector<Key>{{KeyKind::kChar, 's'}}));
}

const ViewLimits kLimits{.ranks = 8, .findings = 3, .scroll = 10, .page_rows = 4, .sorts = {"Rank", "Step"}};

ViewState typed(std::string_view bytes, ViewState state = {}) {
  for (const Key& key : KeyDecoder().feed(bytes)) apply_key(state, key, kLimits);
  return state;
}

TEST(ViewStateTest, ArrowsStayWithinTheList) {
  EXPECT_EQ(typed("j").rank_row, 0);
  EXPECT_EQ(typed("jjk").rank_row, 0);
  EXPECT_EQ(typed("jkkk").rank_row, 0);
  EXPECT_EQ(typed("\x1b[F").rank_row, 7);
  EXPECT_EQ(typed("\tjjjjj").finding, 2);
  EXPECT_EQ(typed("7kkkkkkkkkkkkkkkk").scroll, 10);
  EXPECT_EQ(typed("7kkkj").scroll, 2);
}

TEST(ViewStateTest, SortingGoesThroughTheColumnsAndBack) {
  EXPECT_EQ(typed("s").sort, "Rank");
  EXPECT_EQ(typed("ss").sort, "Step");
  EXPECT_EQ(typed("sss").sort, "");
  EXPECT_EQ(typed("S").sort, "Step");
  EXPECT_TRUE(typed("r").ascending);
}

TEST(ViewStateTest, EscapeGoesBackStepByStep) {
  ViewState state = typed("4\r?");
  EXPECT_TRUE(state.help && state.detail && state.pane == Pane::kFindings);
  apply_key(state, {KeyKind::kEscape}, kLimits);
  EXPECT_TRUE(!state.help && state.detail);
  apply_key(state, {KeyKind::kEscape}, kLimits);
  EXPECT_TRUE(!state.detail && state.pane == Pane::kFindings);
  apply_key(state, {KeyKind::kEscape}, kLimits);
  EXPECT_EQ(state.pane, Pane::kOverview);
}

TEST(ViewStateTest, OnlyQLeaves) {
  ViewState state;
  for (int c = 1; c < 127; ++c) {
    const Action action = apply_key(state, {KeyKind::kChar, static_cast<char>(c)}, kLimits);
    EXPECT_EQ(action == Action::kQuit, c == 'q' || c == 'Q') << c;
  }
}

}  // namespace
}  // namespace stepscope::tui
