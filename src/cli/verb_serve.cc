#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "base/fd.h"
#include "base/file.h"
#include "base/host_name.h"
#include "base/random_hex.h"
#include "cli/agent_link.h"
#include "cli/load_run.h"
#include "cli/serve_runs.h"
#include "cli/settings_here.h"
#include "cli/verbs.h"
#include "report/summary_read.h"
#include "serve/openapi.h"
#include "serve/server.h"
#include "store/run_reader.h"

namespace stepscope {
namespace {

// The shelf of a logs folder, or of one run.
Result<ShelfOptions> shelf_of(const std::string& path) {
  ShelfOptions shelf;
  shelf.load = load_for_server;
  if (!is_dir(path)) {
    if (!is_file(path)) return fail("no such folder: " + path);
    if (auto run = load_run(path); !run) return std::unexpected(run.error());
    shelf.only = path;
  } else if (is_run_folder(path)) {
    shelf.only = path;
  } else {
    shelf.logs = path;
  }
  return shelf;
}

// The newest summary that a run without a final one wrote while it lived. Working its steps out again costs about 2 us
// per rank and step, at 10 bytes each: where that is more than a few seconds, what it told last serves a browser
// better.
std::optional<LoadedSnapshot> told_by_large_run(const std::string& path) {
  constexpr off_t kLarge = 16 << 20;
  const std::string file = path_join(path, "run.db");
  struct stat info;
  if (is_file(path_join(path, "final_summary.json")) || ::stat(file.c_str(), &info) != 0 || info.st_size < kLarge)
    return std::nullopt;
  auto reader = RunReader::open(file);
  if (!reader) return std::nullopt;
  const auto json = reader->snapshot();
  if (!json || !*json) return std::nullopt;
  auto snapshot = read_summary(**json, file);
  if (!snapshot) return std::nullopt;
  return LoadedSnapshot{std::move(*snapshot),
                        "the newest summary that the run wrote while it lived; stepscope report --rebuild works its "
                        "last steps in"};
}

}  // namespace

Result<LoadedSnapshot> load_for_server(const std::string& path) {
  if (auto told = told_by_large_run(path)) return std::move(*told);
  auto run = load_run(path);
  if (!run) return std::unexpected(run.error());
  return LoadedSnapshot{std::move(run->snapshot), std::move(run->note)};
}

int verb_serve(const ServeVerb& verb) {
  if (verb.openapi) return write_all(STDOUT_FILENO, openapi_json(), "stdout") ? 0 : 1;
  auto settings = settings_here({});
  if (!settings) return say(settings.error().message), kExitUsage;
  const std::string logs = verb.path.empty() ? settings->logs_dir : verb.path;
  auto shelf = shelf_of(logs);
  if (!shelf) return say(shelf.error().message), kExitUsage;
  // Blocked before any thread begins, so that all of them leave these to us.
  sigset_t ends;
  sigemptyset(&ends);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  ServerOptions options;
  options.address = verb.host;
  options.port = static_cast<uint16_t>(verb.port);
  options.token = settings->token.empty() ? random_hex(16) : settings->token;
  options.event_interval_ms = 1000;
  options.hosts = {verb.allow_hosts.begin(), verb.allow_hosts.end()};
  options.hosts.insert(verb.host);
  if (verb.host != "127.0.0.1" && verb.host != "::1") options.hosts.insert(host_name());
  options.shelf = std::move(*shelf);
  auto server = Server::start(std::move(options));
  if (!server) return say(server.error().message), kExitUsage;
  say("browser view of " + logs + ": " + (*server)->url() + " (Ctrl-C ends it)");
  int signal = 0;
  ::sigwait(&ends, &signal);
  (*server)->stop();
  std::_Exit(0);  // a run file that is being read must not hold us up
}

}  // namespace stepscope
