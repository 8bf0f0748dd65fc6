// The registry of rules: which there are, over what they are asked, in which order. diagnose/rules.def is the table; a
// rule is a pure function of a RuleInput that appends what it finds. It sees what the rules before it have said in the
// same round, and may rest on it. Asking costs what the rules cost.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "diagnose/rule_input.h"

namespace stepscope {

// What a rule is asked over. While a run goes on the windows over steps are asked the more rarely, the longer they are.
enum RuleWindow : uint8_t {
  kNewest = 1,   // the newest steps, at each evaluation
  kWide = 2,     // more of them: shares and pauses show there
  kRecent = 4,   // all steps that are still known one by one: pauses that come rarely
  kHistory = 8,  // the whole run, thinned, also at its end: the shape of a growth
  kWhole = 16,   // all that is kept, at the end
  kHost = 32,    // what was sampled on one node (RuleInput::host), at the end
};
inline constexpr int kSteps = kNewest | kWide | kWhole;

struct Rule {
  std::string_view name;  // of its function, without judge_
  int windows = 0;        // of RuleWindow
  void (*judge)(const RuleInput&, std::vector<Finding>&) = nullptr;
};

#define RULE(name, ...) void judge_##name(const RuleInput&, std::vector<Finding>&);
#include "diagnose/rules.def"
#undef RULE

std::span<const Rule> rules();

// What the rules of a window say of an input, in the order of the table. In a job of which some ranks were not seen,
// marked as said of the others.
std::vector<Finding> ask(RuleWindow window, const RuleInput& in);

}  // namespace stepscope
