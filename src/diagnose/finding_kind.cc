#include "diagnose/finding_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

namespace stepscope {
namespace {

constexpr size_t kMostCauses = 24;

struct CauseList {
  Cause list[kMostCauses];
  constexpr size_t size() const {
    return static_cast<size_t>(std::find(list, list + kMostCauses, Cause::kNone) - list);
  }
};

struct KindRow {
  std::string_view spelling, display, page;
  SectionName section = SectionName::kNone;
  KindScope scope = KindScope::kEither;
  Urgency urgency = Urgency::kFault;
  int traits = kPlain;
  CauseList causes{};
};

struct CauseRow {
  std::string_view spelling, sentence;
  bool numbered = false;
};

#define CAUSES(...)                  \
  [] {                               \
    using enum Cause;                \
    return CauseList{{__VA_ARGS__}}; \
  }()

constexpr KindRow kKinds[] = {
    {},
#define KIND(id, spelling, display, page, section, scope, urgency, traits, causes) \
  {spelling, display, page, SectionName::section, KindScope::scope, Urgency::urgency, traits, causes},
#include "diagnose/kinds.def"
    {},
};

constexpr CauseRow kCauses[] = {
    {},
#define CAUSE(id, spelling, sentence) {spelling, sentence},
#define NUMBERED_CAUSE(id, spelling, sentence) {spelling, sentence, true},
#include "diagnose/kinds.def"
    {},
};

#undef CAUSES

constexpr std::string_view kSections[] = {"", "system", "process", "step_time", "step_memory", "configuration", ""};

constexpr size_t kKindCount = std::size(kKinds), kCauseCount = std::size(kCauses);
static_assert(kKindCount == static_cast<size_t>(FindingKind::kOther) + 1);
static_assert(kCauseCount == static_cast<size_t>(Cause::kOther) + 1);
static_assert(std::size(kSections) == static_cast<size_t>(SectionName::kOther) + 1);

// Every row is complete, and no word stands for two things.
constexpr bool complete_kinds() {
  for (size_t i = 1; i + 1 < kKindCount; ++i) {
    const KindRow& row = kKinds[i];
    if (row.spelling.empty() || row.display.empty() || row.page.empty()) return false;
    if (row.section == SectionName::kNone) return false;
    if (row.causes.size() == kMostCauses) return false;
    for (size_t other = 1; other < i; ++other)
      if (kKinds[other].spelling == row.spelling || kKinds[other].page == row.page) return false;
  }
  return true;
}
static_assert(complete_kinds(), "diagnose/kinds.def: a kind lacks a column, or two are spelled alike");

constexpr bool belongs_to_a_kind(size_t cause) {
  for (const KindRow& row : kKinds)
    for (Cause allowed : row.causes.list)
      if (allowed == static_cast<Cause>(cause)) return true;
  return false;
}

constexpr bool complete_causes() {
  for (size_t i = 1; i + 1 < kCauseCount; ++i) {
    const CauseRow& row = kCauses[i];
    if (row.spelling.empty() || row.sentence.empty() || !belongs_to_a_kind(i)) return false;
    if (row.numbered != (row.sentence.find("{}") != std::string_view::npos)) return false;
    if (row.numbered != row.spelling.ends_with('_')) return false;
    for (size_t other = 1; other < i; ++other)
      if (kCauses[other].spelling == row.spelling) return false;
  }
  return true;
}
static_assert(complete_causes(), "diagnose/kinds.def: a cause has no sentence or no kind, or two are spelled alike");

const KindRow& row(FindingKind kind) { return kKinds[static_cast<size_t>(kind)]; }
const CauseRow& row(Cause cause) { return kCauses[static_cast<size_t>(cause)]; }

bool is_number(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= 19 && std::all_of(text.begin(), text.end(), digit);
}

std::string replaced(std::string_view text, char from, char to) {
  std::string out(text);
  std::replace(out.begin(), out.end(), from, to);
  return out;
}

}  // namespace

std::string_view spelling(FindingKind kind) { return row(kind).spelling; }
std::string_view spelling(Cause cause) { return row(cause).spelling; }
std::string_view spelling(SectionName section) { return kSections[static_cast<size_t>(section)]; }

FindingKind from_spelling(FindingKind, std::string_view text) {
  const auto same = [&](const KindRow& r) { return r.spelling == text; };
  const auto found = std::find_if(kKinds, kKinds + kKindCount - 1, same);
  return static_cast<FindingKind>(found - kKinds);
}

Cause from_spelling(Cause, std::string_view text) {
  const auto found = std::find_if(kCauses, kCauses + kCauseCount - 1, [&](const CauseRow& r) {
    return r.numbered ? text.starts_with(r.spelling) && is_number(text.substr(r.spelling.size())) : r.spelling == text;
  });
  return static_cast<Cause>(found - kCauses);
}

SectionName from_spelling(SectionName, std::string_view text) {
  return static_cast<SectionName>(std::find(std::begin(kSections), std::end(kSections) - 1, text) - kSections);
}

SectionName section_of(FindingKind kind) { return row(kind).section; }
KindScope scope_of(FindingKind kind) { return row(kind).scope; }
Urgency urgency_of(FindingKind kind) { return row(kind).urgency; }
bool has(FindingKind kind, KindTrait trait) { return (row(kind).traits & trait) != 0; }
std::span<const Cause> causes_of(FindingKind kind) { return {row(kind).causes.list, row(kind).causes.size()}; }

bool allows(FindingKind kind, Cause cause) {
  const std::span<const Cause> causes = causes_of(kind);
  return cause == Cause::kNone || std::find(causes.begin(), causes.end(), cause) != causes.end();
}

CauseWord numbered(Cause cause, int64_t number) {
  return CauseWord::parsed(std::string(spelling(cause)) + std::to_string(number));
}

std::string display_name(const KindWord& kind) {
  const std::string_view known = row(kind.id()).display;
  return known.empty() ? replaced(kind.text(), '_', ' ') : std::string(known);
}

std::string page_of(const KindWord& kind) {
  if (kind.empty()) return "";
  if (kind.id() != FindingKind::kOther) return "findings/" + std::string(row(kind.id()).page);
  std::string slug;
  for (unsigned char c : kind.text()) {
    if (std::isalnum(c))
      slug += static_cast<char>(std::tolower(c));
    else if (!slug.ends_with('-'))
      slug += '-';  // one for many: bytes that are no text are written as several
  }
  return "findings/" + slug;
}

std::string sentence_of(const CauseWord& cause) {
  const CauseRow& known = row(cause.id());
  if (known.sentence.empty()) return replaced(cause.text(), '_', ' ');
  std::string out(known.sentence);
  if (known.numbered) out.replace(out.find("{}"), 2, cause.text().substr(known.spelling.size()));
  return out;
}

}  // namespace stepscope
