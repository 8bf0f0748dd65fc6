#include <unistd.h>

#include <string>

#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/load_run.h"
#include "cli/verbs.h"
#include "report/summary_html.h"
#include "report/summary_json.h"
#include "report/summary_text.h"

namespace stepscope {
int verb_report(const ReportVerb& verb) {
  auto run = load_run(verb.path, verb.rebuild);
  if (!run) return say(run.error().message), kExitUsage;
  const Snapshot& snapshot = run->snapshot;
  if (!run->note.empty()) say(run->note);
  if (verb.json) return write_all(STDOUT_FILENO, summary_json(snapshot), "stdout") ? 0 : 1;
  if (verb.html) {
    const std::string folder = is_dir(verb.path) ? verb.path : verb.path.substr(0, verb.path.rfind('/') + 1);
    const std::string beside = path_join(folder.empty() ? "." : folder, "final_summary.html");
    const std::string target = verb.output.empty() ? beside : verb.output;
    if (Status status = write_file_atomic(target, summary_html(snapshot)); !status)
      return say(status.error().message), 1;
    say("written: " + target);
    return 0;
  }
  TextOptions options;
  options.color = ::isatty(STDOUT_FILENO);
  return write_all(STDOUT_FILENO, summary_text(snapshot, options), "stdout") ? 0 : 1;
}

}  // namespace stepscope
