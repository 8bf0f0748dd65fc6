// When memory that grows is full. Told of findings that are sure of the growth and know a limit; what is information
// only (young, small, few stairs) promises nothing.
#include <algorithm>
#include <optional>
#include <string>

#include "base/text_format.h"
#include "diagnose/memory_forecast.h"
#include "report/page_blocks.h"

namespace stepscope {
namespace {

const Evidence* evidence_of(const Finding& f, const std::string& name) {
  const auto found = std::ranges::find(f.evidence, name, &Evidence::name);
  return found != f.evidence.end() && found->value ? &*found : nullptr;
}

// "1,240 to 1,500 steps"; "" where one of both is not there.
std::string range(const Finding& f, const std::string& name, std::string (*text)(MaybeNumber)) {
  const Evidence *low = evidence_of(f, name + "_low"), *high = evidence_of(f, name + "_high");
  if (!low || !high) return "";
  const std::string from = text(*low->value), to = text(*high->value);
  return from == to ? from : from + " to " + to;
}

std::string steps_text(MaybeNumber steps) {
  return steps && *steps >= 0 && *steps < 1e15 ? format_count(static_cast<uint64_t>(*steps))
                                               : std::string(kNotMeasured);
}

std::string sentence(const Finding& f, bool goes_on) {
  const Evidence *expected = evidence_of(f, "seconds_to_limit"), *limit = evidence_of(f, "limit_bytes");
  const std::string seconds = range(f, "seconds_to_limit", format_seconds);
  if (!expected || !limit || seconds.empty() || *expected->value > kFarthestSeconds) return "";
  const bool one = expected->rank.has_value();
  const std::string who = one ? formatted("rank {}", *expected->rank) : format_ranks(f.ranks) + " together";
  const std::string steps = range(f, "steps_to_limit", steps_text);
  return formatted("At this rate {} {} the limit {} ({}) {} {}{}", who,
                   goes_on ? one ? "reaches" : "reach" : "would have reached", limit->text, format_bytes(limit->value),
                   goes_on ? "in" : "after another", seconds, steps.empty() ? "" : ", " + steps + " steps");
}

}  // namespace

Block forecast_block(const Snapshot& s) {
  Block block{"Memory forecast", "from growth that is certain, and between which times", {}};
  Lines lines{{}, Tone::kWarn};
  for (const Finding& f : s.findings) {
    if (f.severity == Severity::kInfo) continue;
    if (std::string line = sentence(f, s.run.status == "running"); !line.empty())
      lines.items.push_back(std::move(line));
  }
  if (!lines.items.empty()) block.elements.emplace_back(std::move(lines));
  return block;
}

}  // namespace stepscope
