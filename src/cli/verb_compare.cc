#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

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

Result<std::vector<Snapshot>> load_side(const std::vector<std::string>& paths) {
  std::vector<Snapshot> out;
  for (const std::string& path : paths) {
    auto run = load_run(path);
    if (!run) return std::unexpected(run.error());
    if (!run->note.empty()) say(run->note);
    out.push_back(std::move(run->snapshot));
  }
  return out;
}

struct Sides {
  std::vector<std::string> a, b;
};

Result<Sides> sides_of(const CompareVerb& verb) {
  Sides out{verb.baseline, verb.candidate};
  if (verb.baseline.empty()) {
    if (!verb.candidate.empty()) return fail("compare: --candidate needs --baseline");
    if (verb.runs.size() != 2) return fail("compare: two runs are expected, or --baseline and --candidate");
    return Sides{{verb.runs[0]}, {verb.runs[1]}};
  }
  out.b.insert(out.b.end(), verb.runs.begin(), verb.runs.end());
  if (out.b.empty()) return fail("compare: no run to judge beside --baseline; name it after --candidate");
  return out;
}

}  // namespace

int verb_compare(const CompareVerb& verb) {
  const auto sides = sides_of(verb);
  if (!sides) return say(sides.error().message), kExitUsage;
  const auto a = load_side(sides->a);
  if (!a) return say(a.error().message), kExitUsage;
  const auto b = load_side(sides->b);
  if (!b) return say(b.error().message), kExitUsage;
  const Comparison comparison = compare(*a, *b, {.least_change = verb.threshold_pct / 100});
  TextOptions options;
  if (!verb.output.empty()) {
    const std::pair<const char*, std::string> files[] = {{".json", compare_json(comparison)},
                                                         {".md", compare_markdown(comparison)},
                                                         {".txt", compare_text(comparison, options)}};
    for (const auto& [ending, text] : files) {
      if (Status status = write_file_atomic(verb.output + ending, text); !status) return say(status.error().message), 1;
    }
  }
  options.color = ::isatty(STDOUT_FILENO);
  const std::string text = verb.json       ? compare_json(comparison)
                           : verb.markdown ? compare_markdown(comparison)
                                           : compare_text(comparison, options);
  if (!write_all(STDOUT_FILENO, text, "stdout")) return 1;
  return code_of(comparison.outcome, verb.fail_on);
}

}  // namespace stepscope
