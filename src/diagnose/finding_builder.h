// How rules write findings: what is asked of every finding once, in words. A builder begins with what the table of
// kinds and the input say of the finding (section, scope, coverage; of a node: its steps), each call adds to it, and it
// becomes the finding where one is wanted:
//
//   out.push_back(in.finding(FindingKind::kH2dBound).in(Category::kH2d).costs(share).saves(Category::kH2d)
//                     .title("…").action("…").evidence("h2d_share", share));
//
// Holds a reference to the input it was made from. Pure; cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyze/whatif.h"
#include "diagnose/finding.h"

namespace stepscope {

struct RuleInput;

class FindingBuilder {
 public:
  FindingBuilder(FindingKind kind, const RuleInput& in);

  FindingBuilder& about(int rank) { return about(std::vector{rank}); }
  FindingBuilder& about(std::vector<int> ranks);
  FindingBuilder& also_about(int rank);
  FindingBuilder& about_job();                           // no rank is named
  FindingBuilder& of_those_seen();                       // not all of the job's ranks were
  FindingBuilder& holding_up(std::vector<int> victims);  // who waits for the ranks it is about
  FindingBuilder& also_holding_up(int victim);
  FindingBuilder& in(Category phase);  // kUnattributed is a phase, too
  FindingBuilder& in_no_phase();
  FindingBuilder& caused_by(CauseWord cause);
  FindingBuilder& pattern(std::string pattern);
  FindingBuilder& on_steps_clock();  // figures are on the steps' main axis
  FindingBuilder& on_device_clock();

  // Of the job's wall time; the severity follows from it, unless it was graded. `seconds`: else as many of the run's
  // completed steps.
  FindingBuilder& costs(double share);
  FindingBuilder& costs(double share, double seconds);
  FindingBuilder& graded(Severity severity);  // otherwise than by its cost
  FindingBuilder& at_least(Severity severity);
  // What-if over the steps in scope, or others: with the category taken away on all ranks, what `reduce` says, or from
  // the least to the most that a change may bring.
  FindingBuilder& saves(Category category);
  FindingBuilder& saves(const Reduction& reduce);
  FindingBuilder& saves(const Change& change);
  FindingBuilder& saves(const Rows& rows, const Change& change);

  FindingBuilder& throughout();  // the steps in scope, first to last
  FindingBuilder& from(int64_t step);
  FindingBuilder& until(int64_t step);
  FindingBuilder& at_step(int64_t step);  // it begins, ends and was told there
  FindingBuilder& confidence(double confidence);
  FindingBuilder& coverage(double coverage);

  FindingBuilder& title(std::string text);
  FindingBuilder& title_goes_on(const std::string& text);
  FindingBuilder& action(std::string text);
  FindingBuilder& evidence(std::string name, double value, std::optional<int> rank = {},
                           std::optional<double> others_median = {}, std::string text = "");
  FindingBuilder& evidence(std::string name, std::string text, std::optional<int> rank = {});
  FindingBuilder& no_evidence_yet();  // what was said so far is no evidence of this
  FindingBuilder& evidence(Evidence fact);
  FindingBuilder& evidence(std::vector<Evidence> all);

  const Finding* operator->() const { return &finding_; }
  operator Finding() const { return finding_; }

 private:
  const RuleInput* in_;
  Finding finding_;
  bool graded_ = false;
};

}  // namespace stepscope
