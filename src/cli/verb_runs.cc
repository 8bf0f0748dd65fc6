#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text_format.h"
#include "cli/agent_link.h"
#include "cli/run_history.h"
#include "cli/settings_here.h"
#include "cli/verbs.h"
#include "cli/view_loop.h"
#include "report/text_page.h"

namespace stepscope {
namespace {

constexpr size_t kColumns = 120;

size_t columns_here() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumns;
}

// "2026-03-02T10:15:00Z" → "2026-03-02 10:15"
std::string minute_of(std::string iso) {
  if (iso.size() < 16) return std::string(kNotMeasured);
  iso.resize(16);
  iso[10] = ' ';
  return iso;
}

std::string page_of(const std::vector<KnownRun>& runs, bool color) {
  Table table{{{.title = "Run", .right = false},
               {.title = "Started (UTC)", .right = false, .priority = 2},
               {.title = "Took", .priority = 3},
               {.title = "Status", .right = false},
               {.title = "Ranks", .priority = 2},
               {.title = "Steps", .priority = 1},
               {.title = "Costs"},
               {.title = "Finding", .right = false},
               {.title = "Size", .priority = 4}},
              {}};
  for (const KnownRun& run : runs) {
    const bool costs = run.severity != Severity::kInfo;
    table.add({run.name, minute_of(run.started_at),
               run.duration_s > 0 ? format_seconds(run.duration_s) : std::string(kNotMeasured),
               run.live ? "running" : run.status,
               run.ranks > 0 ? formatted("{}", run.ranks) : std::string(kNotMeasured), format_count(run.steps),
               costs && run.cost_share > 0 ? format_percent(run.cost_share) : std::string(kNotMeasured),
               run.finding.empty() ? std::string(kNotMeasured) : run.finding,
               format_bytes(static_cast<double>(run.bytes))});
  }
  TextPage page(std::clamp<size_t>(columns_here(), 40, 400));
  page.table(table);
  return page.text(color);
}

std::string json_of(const std::vector<KnownRun>& runs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KnownRun& run : runs) {
    const auto or_null = [](bool known, auto value) {
      return known ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
    };
    list.push_back({{"name", run.name},
                    {"folder", run.folder},
                    {"started_at", or_null(!run.started_at.empty(), run.started_at)},
                    {"duration_s", or_null(run.duration_s > 0, run.duration_s)},
                    {"status", run.live ? "running" : run.status},
                    {"ranks", or_null(run.ranks > 0, run.ranks)},
                    {"steps", run.steps},
                    {"finding", or_null(!run.finding.empty(), run.finding)},
                    {"severity", std::string(name(run.severity))},
                    {"cost_share", or_null(run.cost_share > 0, run.cost_share)},
                    {"bytes", run.bytes}});
  }
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool agreed(const std::string& question) {
  (void)write_all(STDERR_FILENO, "stepscope: " + question + " [y/N] ", "stderr");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int prune(const std::vector<KnownRun>& runs, const RunsVerb& verb) {
  PruneRules rules;
  if (verb.keep >= 0) rules.keep = static_cast<size_t>(verb.keep);
  if (verb.older_days >= 0) rules.older_days = verb.older_days;
  const std::vector<const KnownRun*> gone = to_prune(runs, rules, ::time(nullptr));
  if (gone.empty()) return say("no run to remove: live ones and those that the rules keep stay"), 0;
  std::vector<KnownRun> shown;
  uint64_t bytes = 0;
  for (const KnownRun* run : gone) shown.push_back(*run), bytes += run->bytes;
  (void)write_all(STDOUT_FILENO, page_of(shown, false), "stdout");
  const std::string what =
      formatted("{} {}, {}", gone.size(), gone.size() == 1 ? "run" : "runs", format_bytes(static_cast<double>(bytes)));
  if (!verb.yes) {
    if (!::isatty(STDIN_FILENO)) return say("nothing is removed without --yes: " + what), kExitUsage;
    if (!agreed("remove " + what + "?")) return say("nothing was removed"), 0;
  }
  int code = 0;
  for (const KnownRun* run : gone) {
    if (Status status = remove_run(*run); !status) say(status.error().message), code = 1;
  }
  if (code == 0) say("removed " + what);
  return code;
}

}  // namespace

int verb_runs(const RunsVerb& verb) {
  const bool ruled = verb.keep >= 0 || verb.older_days >= 0;
  if (verb.prune && !ruled) return say("--prune needs a rule: --keep N, --older-than DAYS, or both"), kExitUsage;
  if (!verb.prune && (ruled || verb.yes)) return say("--keep, --older-than and --yes go with --prune"), kExitUsage;
  std::string logs = verb.logs;
  if (logs.empty()) {
    auto settings = settings_here({});
    if (!settings) return say(settings.error().message), kExitUsage;
    logs = settings->logs_dir;
  }
  auto runs = runs_in(logs, live_runs());
  if (!runs) return say(runs.error().message), kExitUsage;
  if (verb.prune) return prune(*runs, verb);
  if (verb.json) return write_all(STDOUT_FILENO, json_of(*runs), "stdout") ? 0 : 1;
  if (runs->empty()) return say("no runs in " + logs), 0;
  const bool color = ::isatty(STDOUT_FILENO) && color_depth_here() != ColorDepth::kNone;
  return write_all(STDOUT_FILENO, page_of(*runs, color), "stdout") ? 0 : 1;
}

}  // namespace stepscope
