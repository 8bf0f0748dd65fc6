#include "diagnose/finding.h"

#include <algorithm>
#include <cctype>

namespace stepscope {
namespace {

// Spellings that the suffix rules below do not give.
constexpr std::pair<std::string_view, std::string_view> kSpecial[] = {
    {"MEMORY_CREEP_EARLY", "MEMORY CREEP (EARLY)"},
    {"BETWEEN_STEPS_HEAVY", "BETWEEN-STEPS HEAVY"},
    {"NON_FINITE", "NON-FINITE"},
    {"LENGTH_DRIVEN_PEAK", "LENGTH-DRIVEN PEAK"},
};

// INPUT_BOUND -> INPUT-BOUND, WAIT_HEAVY -> WAIT-HEAVY: one word before the suffix is joined to it.
bool joins_with_hyphen(std::string_view kind, std::string_view suffix) {
  return kind.ends_with(suffix) && kind.find('_') == kind.size() - suffix.size();
}

std::string replaced(std::string_view text, char from, char to) {
  std::string out(text);
  std::replace(out.begin(), out.end(), from, to);
  return out;
}

}  // namespace

std::string display_name(std::string_view kind) {
  for (const auto& [from, to] : kSpecial) {
    if (kind == from) return std::string(to);
  }
  const bool hyphen = joins_with_hyphen(kind, "_BOUND") || joins_with_hyphen(kind, "_HEAVY");
  return replaced(kind, '_', hyphen ? '-' : ' ');
}

std::string Finding::doc() const {
  std::string slug = replaced(kind, '_', '-');
  std::transform(slug.begin(), slug.end(), slug.begin(), [](unsigned char c) { return std::tolower(c); });
  return "findings/" + slug;
}

}  // namespace stepscope
