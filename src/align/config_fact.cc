#include "align/config_fact.h"

#include <algorithm>

namespace stepscope {

namespace {
constexpr size_t kMaxFacts = 128;
}  // namespace

ConfigFact parse_config_fact(uint64_t id, std::string_view text) {
  const size_t bar = std::min(text.find('|'), text.size());
  ConfigFact fact{std::string(text.substr(0, bar)), id, {}};
  for (size_t at = bar + 1; at < text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    const size_t equals = text.find('=', at);
    if (equals < end)
      fact.values[std::string(text.substr(at, equals - at))] = text.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return fact;
}

std::string config_fact_text(const ConfigFact& fact) {
  std::string out = fact.subject;
  char before = '|';
  for (const auto& [name, value] : fact.values) {
    out += before + name + "=" + value;
    before = ';';
  }
  return out;
}

void keep_config_fact(std::vector<ConfigFact>& known, ConfigFact fact) {
  const auto same = std::find_if(known.begin(), known.end(),
                                 [&](const ConfigFact& f) { return f.subject == fact.subject && f.id == fact.id; });
  if (same != known.end())
    *same = std::move(fact);
  else if (known.size() < kMaxFacts)
    known.push_back(std::move(fact));
}

}  // namespace stepscope
