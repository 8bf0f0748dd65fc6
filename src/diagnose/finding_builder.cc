#include "diagnose/finding_builder.h"

#include <algorithm>
#include <iterator>

#include "analyze/saved_range.h"
#include "diagnose/host_view.h"
#include "diagnose/rule_input.h"

namespace stepscope {

FindingBuilder::FindingBuilder(FindingKind kind, const RuleInput& in) : in_(&in), finding_(Finding::of(kind)) {
  finding_.coverage = in.coverage;
  if (!in.host) return;
  finding_.detected_step = finding_.last_step = host::newest_step(*in.host);
  finding_.first_step = finding_.detected_step >= 0 ? 0 : -1;
  finding_.coverage = 1;
  finding_.confidence = 0.9;
}

FindingBuilder& FindingBuilder::about(std::vector<int> ranks) {
  finding_.ranks = std::move(ranks);
  return *this;
}

FindingBuilder& FindingBuilder::also_about(int rank) {
  finding_.ranks.push_back(rank);
  return *this;
}

FindingBuilder& FindingBuilder::about_job() {
  finding_.job_scope = true;
  finding_.ranks.clear();
  return *this;
}

FindingBuilder& FindingBuilder::of_those_seen() {
  finding_.of_seen = true;
  return *this;
}

FindingBuilder& FindingBuilder::holding_up(std::vector<int> victims) {
  finding_.victims = std::move(victims);
  return *this;
}

FindingBuilder& FindingBuilder::also_holding_up(int victim) {
  finding_.victims.push_back(victim);
  return *this;
}

FindingBuilder& FindingBuilder::in(Category phase) {
  finding_.phase = std::string(name(phase));
  return *this;
}

FindingBuilder& FindingBuilder::in_no_phase() {
  finding_.phase.clear();
  return *this;
}

FindingBuilder& FindingBuilder::caused_by(CauseWord cause) {
  finding_.cause = std::move(cause);
  return *this;
}

FindingBuilder& FindingBuilder::pattern(std::string pattern) {
  finding_.pattern = std::move(pattern);
  return *this;
}

FindingBuilder& FindingBuilder::on_steps_clock() {
  if (in_->on_device()) finding_.clock = "gpu";
  return *this;
}

FindingBuilder& FindingBuilder::on_device_clock() {
  finding_.clock = "gpu";
  return *this;
}

FindingBuilder& FindingBuilder::costs(double share) { return costs(share, in_->seconds(share)); }

FindingBuilder& FindingBuilder::costs(double share, double seconds) {
  finding_.cost_share = share;
  finding_.cost_seconds = seconds;
  if (!graded_) finding_.severity = in_->severity(share);
  return *this;
}

FindingBuilder& FindingBuilder::graded(Severity severity) {
  finding_.severity = severity;
  graded_ = true;
  return *this;
}

FindingBuilder& FindingBuilder::at_least(Severity severity) {
  finding_.severity = std::max(finding_.severity, severity);
  return *this;
}

FindingBuilder& FindingBuilder::saves(Category category) { return saves(removal_of(category)); }

FindingBuilder& FindingBuilder::saves(const Reduction& reduce) { return saves(Change{.usual = reduce}); }

FindingBuilder& FindingBuilder::saves(const Change& change) { return saves(in_->rows, change); }

FindingBuilder& FindingBuilder::saves(const Rows& rows, const Change& change) {
  finding_.saves.reset();
  const auto range = saved_range(rows, change, in_->core_sharing(), in_->over ? kMostRangeRows : kLiveRangeRows);
  if (!range) return *this;
  Saving& saves = finding_.saves.emplace(Saving{range->share, range->low, range->high, ""});
  const auto because = [&](bool holds, std::string_view words) {
    if (holds && !words.empty()) saves.caveat.append(saves.caveat.empty() ? "" : "; ").append(words);
  };
  because(range->ends_differ, change.why_wide);
  because(range->cores_full, "what is left to do takes nearly all cores of the host");
  because(!range->contention_told, "these steps do not tell how much ranks of one host slow each other down");
  because(range->strangers, "other programs use cores of the host");
  return *this;
}

FindingBuilder& FindingBuilder::throughout() { return from(in_->first_step()).until(in_->last_step()); }

FindingBuilder& FindingBuilder::from(int64_t step) {
  finding_.first_step = step;
  return *this;
}

FindingBuilder& FindingBuilder::until(int64_t step) {
  finding_.last_step = step;
  return *this;
}

FindingBuilder& FindingBuilder::at_step(int64_t step) {
  finding_.detected_step = step;
  return from(step).until(step);
}

FindingBuilder& FindingBuilder::confidence(double confidence) {
  finding_.confidence = confidence;
  return *this;
}

FindingBuilder& FindingBuilder::coverage(double coverage) {
  finding_.coverage = coverage;
  return *this;
}

FindingBuilder& FindingBuilder::title(std::string text) {
  finding_.title = std::move(text);
  return *this;
}

FindingBuilder& FindingBuilder::title_goes_on(const std::string& text) {
  finding_.title += text;
  return *this;
}

FindingBuilder& FindingBuilder::action(std::string text) {
  finding_.action = std::move(text);
  return *this;
}

FindingBuilder& FindingBuilder::evidence(std::string name, double value, std::optional<int> rank,
                                         std::optional<double> others_median, std::string text) {
  finding_.evidence.push_back({std::move(name), rank, value, others_median, std::move(text)});
  return *this;
}

FindingBuilder& FindingBuilder::evidence(std::string name, std::string text, std::optional<int> rank) {
  finding_.evidence.push_back({std::move(name), rank, std::nullopt, std::nullopt, std::move(text)});
  return *this;
}

FindingBuilder& FindingBuilder::no_evidence_yet() {
  finding_.evidence.clear();
  return *this;
}

FindingBuilder& FindingBuilder::evidence(Evidence fact) {
  finding_.evidence.push_back(std::move(fact));
  return *this;
}

FindingBuilder& FindingBuilder::evidence(std::vector<Evidence> all) {
  std::move(all.begin(), all.end(), std::back_inserter(finding_.evidence));
  return *this;
}

}  // namespace stepscope
