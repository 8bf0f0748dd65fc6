#include "align/name_book.h"

#include <cstdint>
#include <functional>
#include <string_view>

#include "align/config_fact.h"
#include "align/number_ranges.h"

namespace stepscope {

namespace {

// "description|0,1,4-7"
ProcessGroup parse_group(const std::string& text) {
  ProcessGroup group;
  const size_t bar = text.rfind('|');
  group.description = bar == std::string::npos ? "" : text.substr(0, bar);
  group.ranks = parse_ranges(bar == std::string::npos ? text : text.substr(bar + 1));
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
