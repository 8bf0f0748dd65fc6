#include "diagnose/rules_advice.h"

#include <algorithm>
#include <cstdlib>

namespace stepscope {

namespace {

Finding finding_of(const RuleInput& in, Advice advice) {
  FindingBuilder f = in.finding(FindingKind::kAdvice);
  f.about_job()
      .caused_by(advice.cause)
      .confidence(0.9)
      .title(std::move(advice.title))
      .action(std::move(advice.action))
      .evidence(std::move(advice.evidence));
  return f;
}

}  // namespace

const ConfigFact* Configuration::find(std::string_view subject) const {
  const auto& list = life_.configuration;
  const auto found = std::find_if(list.begin(), list.end(), [&](const ConfigFact& f) { return f.subject == subject; });
  return found == list.end() ? nullptr : &*found;
}

const ConfigFact* Configuration::find(std::string_view subject, uint64_t id) const {
  const auto& list = life_.configuration;
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const ConfigFact& f) { return f.subject == subject && f.id == id; });
  return found == list.end() ? nullptr : &*found;
}

std::vector<const ConfigFact*> Configuration::training_loaders() const {
  std::vector<const ConfigFact*> out;
  for (uint64_t id : life_.training_loaders)
    if (const ConfigFact* fact = find("loader", id)) out.push_back(fact);
  return out;
}

int Configuration::data_ranks() const {
  double ranks = 1;
  for (const char* subject : {"ddp", "fsdp"})
    if (const ConfigFact* fact = find(subject)) ranks = std::max(ranks, number(*fact, "world", 1));
  return static_cast<int>(ranks);
}

double number(const ConfigFact& fact, const std::string& name, double otherwise) {
  const auto found = fact.values.find(name);
  if (found == fact.values.end()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  return end != found->second.c_str() && *end == 0 ? value : otherwise;
}

std::string text(const ConfigFact& fact, const std::string& name) {
  const auto found = fact.values.find(name);
  return found == fact.values.end() ? "" : found->second;
}

void judge_advice(const RuleInput& in, std::vector<Finding>& out) {
  const auto silenced = [&](Cause cause) {
    return in.silenced && (in.silenced->contains("all") || in.silenced->contains(std::string(spelling(cause))));
  };
  const auto add = [&](std::vector<Advice> list) {
    for (Advice& advice : list)
      if (!silenced(advice.cause)) out.push_back(finding_of(in, std::move(advice)));
  };
  if (in.lives->empty()) return;
  const Configuration first(in.lives->begin()->second);
  add(advice_on_ddp(in, first));
  add(advice_on_loaders(in, first));
  add(advice_on_fsdp(in, first));
  add(advice_on_processes(in));
  add(advice_on_switches(first));
  add(advice_on_optimizer(in, first));
}

}  // namespace stepscope
