// Remembers when each finding was opened, at its final kind, ranks and phase, so that `detected` is true: the newest
// step the engine had been fed then. What was no longer said and comes again is opened anew; a finding is dated by the
// first opening that lasted into its steps, and what was seen from there on began no later. Fed live and in replay
// alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "diagnose/finding.h"

namespace stepscope {

class FindingBook {
 public:
  // What the rules said at `step`. Only findings of warn or crit are opened.
  void note(const std::vector<Finding>& findings, int64_t step);
  // Fills detected_step of the findings that were said before; the others get `step`.
  void date(std::vector<Finding>& findings, int64_t step) const;

 private:
  struct Opening {
    int64_t opened = 0, last_said = 0;
    int64_t first_step = 0;  // as it was said then
  };
  static std::string key(const Finding& f);
  std::map<std::string, std::vector<Opening>> openings_;
};

// Shares out the loss (diagnose/explanation.h), then the order of a report: hangs and lost ranks first, then what is
// wrong, the word that all is well, and other info, by severity and cost; each followed by its effects. Numbers the
// findings f1, f2, …
void settle_findings(std::vector<Finding>& findings);
// Index of the primary finding of an ordered list, -1 when there is nothing to say.
int primary_of(const std::vector<Finding>& findings);

}  // namespace stepscope
