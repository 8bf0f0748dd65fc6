// ADVICE: hints on the configuration, from facts that the hooks told once (RankLife::configuration) and shares that
// were measured. Always info, never primary, each can be silenced by its cause. One file per subject
// (rules_advice_*.cc).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/rule.h"

namespace stepscope {

struct Advice {
  Cause cause;  // one of causes_of(FindingKind::kAdvice)
  std::string title, action;
  std::vector<Evidence> evidence;
};

// The facts of one rank: what its configuration says is what the others' say, unless a rule compares them.
class Configuration {
 public:
  explicit Configuration(const RankLife& life) : life_(life) {}

  // The first fact about a subject, null = none.
  const ConfigFact* find(std::string_view subject) const;
  const ConfigFact* find(std::string_view subject, uint64_t id) const;
  // Loaders whose batches led to gradients.
  std::vector<const ConfigFact*> training_loaders() const;
  // Ranks that hold the whole model or a shard of it and take different batches: what DDP or FSDP was given; 1 =
  // neither.
  int data_ranks() const;

 private:
  const RankLife& life_;
};

// A value as a number, `otherwise` where it is absent or no number.
double number(const ConfigFact& fact, const std::string& name, double otherwise);
std::string text(const ConfigFact& fact, const std::string& name);

std::vector<Advice> advice_on_ddp(const RuleInput&, const Configuration&);
std::vector<Advice> advice_on_loaders(const RuleInput&, const Configuration&);
std::vector<Advice> advice_on_fsdp(const RuleInput&, const Configuration&);
std::vector<Advice> advice_on_processes(const RuleInput&);

}  // namespace stepscope
