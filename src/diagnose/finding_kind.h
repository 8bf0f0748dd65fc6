// Kinds of findings, causes, sections: the enumerations of the one table (diagnose/kinds.def), and what it says of
// each.
// Rules and readers use enumerators; files and interfaces the same words as ever. A word that only a newer stepscope
// knows stays as it was written (align/word.h). Pure; every look-up is an index into a constant table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "align/word.h"

namespace stepscope {

enum class FindingKind : uint8_t {
  kNone,
#define KIND(id, ...) id,
#include "diagnose/kinds.def"
  kOther,  // known to a newer stepscope only
};

enum class Cause : uint8_t {
  kNone,  // not known
#define CAUSE(id, ...) id,
#include "diagnose/kinds.def"
  kOther,
};

enum class SectionName : uint8_t { kNone, kSystem, kProcess, kStepTime, kStepMemory, kConfiguration, kOther };

// Whom a finding of the kind is about.
enum class KindScope : uint8_t {
  kRanks,   // culprits are named
  kJob,     // the whole job: no ranks
  kEither,  // the rule decides
};

// Place in a report, and so among the candidates for the primary finding. One of severity info that is neither kHealthy
// nor kHint stands between these two.
enum class Urgency : uint8_t {
  kProgress,  // training stands or has lost a rank: before everything else
  kFault,
  kHealthy,  // the word that all is well
  kHint,     // never before a verdict, not even before kHealthy
};

enum KindTrait : uint8_t {
  kPlain = 0,
  kOutlivesAttempt = 1,   // still said when the job's ranks were started again
  kDelaysOthers = 2,      // its ranks make others wait in collectives
  kToldApartByCause = 4,  // several at a time: one per cause, where other kinds have one per phase
  kNotSaidYet = 8,        // readers know it, no rule says it: it needs no page
  kSumsUp = 16,           // of time that others may name more closely: they own it
  kShowsEffects = 32,     // without a cost of its own it shows what others do to a device
};

using KindWord = Word<FindingKind>;
using CauseWord = Word<Cause>;
using SectionWord = Word<SectionName>;

std::string_view spelling(FindingKind kind);
std::string_view spelling(Cause cause);
std::string_view spelling(SectionName section);
FindingKind from_spelling(FindingKind, std::string_view text);
Cause from_spelling(Cause, std::string_view text);
SectionName from_spelling(SectionName, std::string_view text);

// Of a kind that is not in the table: no section, either scope, a fault, no trait.
SectionName section_of(FindingKind kind);
KindScope scope_of(FindingKind kind);
Urgency urgency_of(FindingKind kind);
bool has(FindingKind kind, KindTrait trait);
std::span<const Cause> causes_of(FindingKind kind);
// Whether the table lets a finding of the kind have the cause; not to know it is always allowed.
bool allows(FindingKind kind, Cause cause);

// numbered(Cause::kSignal, 9): "signal_9".
CauseWord numbered(Cause cause, int64_t number);

// "COMPUTE STRAGGLER", "MEMORY CREEP (EARLY)": as people know it.
std::string display_name(const KindWord& kind);
// "findings/compute-straggler": below docs/, without .md; "" without a kind.
std::string page_of(const KindWord& kind);
// "slower at the same work": the rest of a sentence that begins "cause: ".
std::string sentence_of(const CauseWord& cause);

}  // namespace stepscope
