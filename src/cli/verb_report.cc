#include <unistd.h>

#include <string>

#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/load_run.h"
#include "cli/verbs.h"
#include "report/reporters.h"

namespace stepscope {
namespace {

std::string beside(const std::string& run, std::string_view file) {
  const std::string folder = is_dir(run) ? run : run.substr(0, run.rfind('/') + 1);
  return path_join(folder.empty() ? "." : folder, std::string(file));
}

}  // namespace

int verb_report(const ReportVerb& verb) {
  const std::string format = verb.html ? "html" : verb.format;
  const Reporter* reporter = reporter_named(format);
  if (!reporter) return say("no format is called '" + format + "': " + reporter_names()), kExitUsage;
  auto run = load_run(verb.path, verb.rebuild);
  if (!run) return say(run.error().message), kExitUsage;
  if (!run->note.empty()) say(run->note);
  std::string target = verb.output;
  if (target.empty() && verb.html) target = beside(verb.path, reporter->file);
  TextOptions options;
  options.color = target.empty() && ::isatty(STDOUT_FILENO);
  const std::string page = reporter->render(run->snapshot, options);
  if (target.empty()) return write_all(STDOUT_FILENO, page, "stdout") ? 0 : 1;
  if (Status status = write_file_atomic(target, page); !status) return say(status.error().message), 1;
  say("written: " + target);
  return 0;
}

}  // namespace stepscope
