#include "diagnose/finding_kind.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "align/rank_state.h"

namespace stepscope {
namespace {

// Every enumerator between the absence of a word and the word of a newer file.
template <class E>
std::vector<E> all_of() {
  std::vector<E> out;
  for (int i = 1; i < static_cast<int>(E::kOther); ++i) out.push_back(static_cast<E>(i));
  return out;
}

template <class E>
class Vocabulary : public testing::Test {};
using Vocabularies = testing::Types<FindingKind, Cause, SectionName, RankState>;
TYPED_TEST_SUITE(Vocabulary, Vocabularies);

TYPED_TEST(Vocabulary, EveryWordComesBack) {
  std::set<std::string> seen;
  for (TypeParam id : all_of<TypeParam>()) {
    const std::string word = spelling(id).ends_with('_') ? std::string(spelling(id)) + "17" : std::string(spelling(id));
    EXPECT_FALSE(word.empty());
    EXPECT_TRUE(seen.insert(word).second) << word;
    EXPECT_EQ(Word<TypeParam>::parsed(word).id(), id) << word;
    EXPECT_EQ(Word<TypeParam>::parsed(word).text(), word);
  }
  EXPECT_TRUE(Word<TypeParam>().empty());
  EXPECT_EQ(Word<TypeParam>::parsed("").id(), TypeParam::kNone);
}

TYPED_TEST(Vocabulary, AWordOfANewerFileIsKeptAsItIs) {
  for (const char* text : {"A_KIND_TO_COME", "a cause to come", "signal_", "signal_x", "INPUT_BOUND2", " "}) {
    const auto word = Word<TypeParam>::parsed(text);
    EXPECT_EQ(word.id(), TypeParam::kOther) << text;
    EXPECT_EQ(word.text(), text);
    EXPECT_EQ(word, Word<TypeParam>::parsed(word.text()));
    EXPECT_FALSE(word == Word<TypeParam>::parsed("another"));
    EXPECT_FALSE(word == TypeParam::kNone);
  }
}

TEST(FindingKind, PeopleReadTheNamesOfTheTable) {
  EXPECT_EQ(display_name(FindingKind::kInputBound), "INPUT-BOUND");
  EXPECT_EQ(display_name(FindingKind::kMemoryCreepEarly), "MEMORY CREEP (EARLY)");
  EXPECT_EQ(display_name(KindWord::parsed("A_KIND_TO_COME")), "A KIND TO COME");
  EXPECT_EQ(page_of(KindWord::parsed("A_KIND_TO_COME")), "findings/a-kind-to-come");
  EXPECT_EQ(page_of({}), "");
  for (FindingKind kind : all_of<FindingKind>()) {
    std::string letters, shown;
    const auto add = [](std::string& to, char c) {
      if (std::isalnum(static_cast<unsigned char>(c))) to += c;
    };
    for (char c : spelling(kind)) add(letters, c);
    for (char c : display_name(kind)) add(shown, c);
    EXPECT_EQ(letters, shown);
  }
}

TEST(Cause, EachHasASentenceAndNumbersStandInTheirs) {
  EXPECT_EQ(sentence_of(Cause::kSameWorkSlower), "slower at the same work");
  EXPECT_EQ(numbered(Cause::kSignal, 9).text(), "signal_9");
  EXPECT_EQ(sentence_of(numbered(Cause::kSignal, 9)), "killed by signal 9");
  EXPECT_EQ(sentence_of(CauseWord::parsed("xid_79")), "the driver reported XID 79");
  EXPECT_EQ(sentence_of(CauseWord::parsed("a_cause_to_come")), "a cause to come");
  EXPECT_EQ(sentence_of({}), "");
  for (Cause cause : all_of<Cause>()) EXPECT_NE(sentence_of(cause), std::string(spelling(cause))) << spelling(cause);
}

TEST(Cause, BelongsToTheKindsOfItsRow) {
  EXPECT_TRUE(allows(FindingKind::kInputBound, Cause::kHeadOfLine));
  EXPECT_TRUE(allows(FindingKind::kInputBound, Cause::kNone));
  EXPECT_FALSE(allows(FindingKind::kInputBound, Cause::kThermal));
  EXPECT_FALSE(allows(FindingKind::kInputBound, Cause::kOther));
  EXPECT_EQ(causes_of(FindingKind::kAdvice).size(), 23u);
}

TEST(RankState, OneRuleForSnapshotAndRunFile) {
  RankLife life;
  EXPECT_EQ(state_of(life), RankState::kRunning);
  life.exception = "ValueError: x";
  EXPECT_EQ(state_of(life), RankState::kRunning);  // still there
  life.ended = true;
  EXPECT_EQ(state_of(life), RankState::kException);
  life.stopped = true;
  EXPECT_EQ(state_of(life), RankState::kStopped);
  EXPECT_EQ(state_of({.ended = true}), RankState::kLost);
  EXPECT_EQ(state_of({.ended = true, .clean_exit = true}), RankState::kFinished);
}

}  // namespace
}  // namespace stepscope
