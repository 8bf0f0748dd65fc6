#include "align/name_book.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "align/config_fact.h"

namespace stepscope {

namespace {

constexpr size_t kMaxGroupRanks = 1u << 20;  // a text from outside must not make millions of them

// The ranks of "3", "0-7" or "0-56:8" at `p`; advances it. False at anything else.
bool parse_ranks(const char*& p, std::vector<int>& ranks) {
  auto number = [&](long& value) {
    char* next = nullptr;
    value = std::strtol(p, &next, 10);
    const bool good = next != p && value >= 0 && value <= INT32_MAX;
    p = next;
    return good;
  };
  long first = 0, step = 1;
  if (!number(first)) return false;
  long last = first;
  if (*p == '-' && (++p, !number(last))) return false;
  if (*p == ':' && (++p, !number(step) || step == 0)) return false;
  for (long rank = first; rank <= last && ranks.size() < kMaxGroupRanks; rank += step)
    ranks.push_back(static_cast<int>(rank));
  return true;
}

// "description|0,1,4-7"
ProcessGroup parse_group(const std::string& text) {
  ProcessGroup group;
  const size_t bar = text.rfind('|');
  group.description = bar == std::string::npos ? "" : text.substr(0, bar);
  const char* p = text.c_str() + (bar == std::string::npos ? 0 : bar + 1);
  while (*p && parse_ranks(p, group.ranks))
    if (*p) ++p;
  return group;
}

}  // namespace

void NameBook::add(uint16_t kind, uint64_t id, const std::string& text, RankLife& life) {
  switch (static_cast<NameKind>(kind)) {
    case NameKind::kFact: return add_fact(text, life);
    case NameKind::kUnavailable: life.unavailable.push_back(text); break;
    case NameKind::kAdvice: keep_config_fact(life.configuration, parse_config_fact(id, text)); break;
    case NameKind::kGroup: groups_[id] = parse_group(text); break;
    default: break;
  }
  names_[{kind, id}] = text;
}

// Facts share one id: their keys tell them apart.
void NameBook::add_fact(const std::string& text, RankLife& life) {
  const auto kind = static_cast<uint16_t>(NameKind::kFact);
  names_[{kind, std::hash<std::string_view>{}(std::string_view(text).substr(0, text.find('=')))}] = text;
  if (text.starts_with("device=")) life.device = text.substr(7);
  constexpr std::string_view kCapacity = "device_memory_bytes=";
  if (text.starts_with(kCapacity))
    life.device_memory_bytes = std::strtoull(text.c_str() + kCapacity.size(), nullptr, 10);
}

const std::string* NameBook::find(NameKind kind, uint64_t id) const {
  const auto found = names_.find({static_cast<uint16_t>(kind), id});
  return found == names_.end() ? nullptr : &found->second;
}

}  // namespace stepscope
