// ADVICE: hints on the configuration, from facts that the hooks told once (RankLife::configuration) and shares that
// were measured. Always info, never primary, each can be silenced by its cause. One file per subject
// (rules_advice_*.cc).
#pragma once

#include <optional>
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
std::vector<Advice> advice_on_switches(const Configuration&);
std::vector<Advice> advice_on_optimizer(const RuleInput&, const Configuration&);

// Backwards per optimizer step under DDP that each send all gradients; 0 = they do not, or there is one.
double unneeded_syncs(const RuleInput& in);

// A loader in the training process whose samples take so little each that what is done per sample is the cost; worker
// processes would have to hand over the same small pieces.
bool per_sample_overhead(const RuleInput& in, const ConfigFact& loader);
// Threads of the job's ranks on the host that has the most cores beyond them, where the model runs on the host's cores.
struct ThreadsAndCores {
  double threads = 0, cores = 0;
  int ranks = 0;
  std::string host;
};
std::vector<ThreadsAndCores> threads_by_host(const RuleInput& in);
std::optional<ThreadsAndCores> few_threads(const RuleInput& in);

}  // namespace stepscope
