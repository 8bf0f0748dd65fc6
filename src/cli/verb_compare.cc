#include <unistd.h>

#include <string>

#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/load_run.h"
#include "cli/verbs.h"
#include "report/compare.h"
#include "report/summary_text.h"

namespace stepscope {
namespace {

int code_of(Outcome outcome, const std::string& fail_on) {
  if (fail_on == "never" || (fail_on == "regression" && outcome == Outcome::kInconclusive)) return 0;
  return exit_code(outcome);
}

}  // namespace

int verb_compare(const CompareVerb& verb) {
  auto a = load_run(verb.a);
  if (!a) return say(a.error().message), kExitUsage;
  auto b = load_run(verb.b);
  if (!b) return say(b.error().message), kExitUsage;
  for (const auto* run : {&*a, &*b})
    if (!run->note.empty()) say(run->note);
  const Comparison comparison = compare(a->snapshot, b->snapshot, {.least_change = verb.least_change_pct / 100});
  TextOptions options;
  if (!verb.output.empty()) {
    const std::pair<const char*, std::string> files[] = {{".json", compare_json(comparison)},
                                                         {".txt", compare_text(comparison, options)}};
    for (const auto& [ending, text] : files) {
      if (Status status = write_file_atomic(verb.output + ending, text); !status) return say(status.error().message), 1;
    }
  }
  options.color = ::isatty(STDOUT_FILENO);
  const std::string text = verb.json ? compare_json(comparison) : compare_text(comparison, options);
  if (!write_all(STDOUT_FILENO, text, "stdout")) return 1;
  return code_of(comparison.outcome, verb.fail_on);
}

}  // namespace stepscope
