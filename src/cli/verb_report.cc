#include <unistd.h>

#include <string>

#include "agent/replay.h"
#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/verbs.h"
#include "report/summary_html.h"
#include "report/summary_read.h"
#include "report/summary_text.h"

namespace stepscope {
namespace {

Result<Snapshot> snapshot_from_json(const std::string& path) {
  auto text = read_file(path, kMaxSummaryBytes + 1);
  if (!text) return std::unexpected(text.error());
  return read_summary(*text, path);
}

// The summary that was written, else the verdict worked out again from the rings that were kept.
Result<Snapshot> load(const std::string& path) {
  if (!is_dir(path)) return snapshot_from_json(path);
  if (const std::string json = path_join(path, "final_summary.json"); is_file(json)) return snapshot_from_json(json);
  for (const std::string& folder : {path, path_join(path, "blackbox")}) {
    if (has_rings(folder)) return replay_rings(folder);
  }
  return fail(path + ": neither a final_summary.json nor a black box in it");
}

}  // namespace

int verb_report(const ReportVerb& verb) {
  auto snapshot = load(verb.path);
  if (!snapshot) return say(snapshot.error().message), kExitUsage;
  if (verb.html) {
    const std::string folder = is_dir(verb.path) ? verb.path : verb.path.substr(0, verb.path.rfind('/') + 1);
    const std::string target = path_join(folder.empty() ? "." : folder, "final_summary.html");
    if (Status status = write_file_atomic(target, summary_html(*snapshot)); !status) return say(status.error().message), 1;
    say("written: " + target);
    return 0;
  }
  TextOptions options;
  options.color = ::isatty(STDOUT_FILENO);
  return write_all(STDOUT_FILENO, summary_text(*snapshot, options), "stdout") ? 0 : 1;
}

}  // namespace stepscope
