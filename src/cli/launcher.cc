#include "cli/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/random_hex.h"
#include "cli/agent_link.h"
#include "cli/companion.h"
#include "cli/launch_plan.h"
#include "cli/python_env.h"
#include "cli/run_places.h"
#include "cli/signal_relay.h"
#include "sampler/interpreter_flags.h"

namespace stepscope {
namespace {

int exec_failure(const std::string& program, int error) {
  say("cannot run '" + program + "': " + errno_text(error));
  return error == ENOENT ? 127 : 126;  // as a shell tells "not found" from "not executable"
}

// Signals by which a user or a scheduler ends a job; the others are its own affair.
void note_signal(AgentLink& agent, int signal) {
  if (signal != SIGUSR1 && signal != SIGUSR2) agent.signal_seen(signal);
}

// Waits for the command; signals, the agent and what the user looks at are served meanwhile. `agent` and `companion`
// may be null.
int wait_for_command(pid_t child, SignalRelay& relay, AgentLink* agent, Companion* companion) {
  std::vector<pollfd> set;
  for (;;) {
    set = {{relay.fd(), POLLIN, 0}, {agent ? agent->fd() : -1, POLLIN, 0}};
    if (companion) companion->add_to(set);
    ::poll(set.data(), set.size(), relay.fd() < 0 ? 50 : companion ? companion->wait_ms() : -1);
    while (auto signal = relay.next()) {
      if (*signal == SIGCHLD) continue;
      if (agent) note_signal(*agent, *signal);
      if (!relay.whole_group(*signal)) ::kill(child, *signal);
    }
    if (agent && set[1].revents) agent->on_readable();
    if (companion) companion->turn(monotonic_ns());
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return 1 << 8;  // cannot happen: the child is ours and nobody else waits for it
  }
}

struct Places : RunPlaces {
  std::string inject_folder;
};

Places places_of(const LaunchRequest& request) {
  const std::string nonce = random_hex(16);
  Places places{make_places(request.settings, request.version, request.command, nonce, ShmFolder::create(nonce)), ""};
  places.inject_folder = find_inject_folder(request.own_binary, request.inject_hint);
  if (places.inject_folder.empty()) {
    places.config.notes.push_back(
        "the Python part of stepscope was not found; only programs that use stepscope.h are seen");
    say("the Python part of stepscope was not found beside " + request.own_binary + "; Python trainings are not seen");
  }
  const bool pth = is_file(path_join(places.inject_folder, "../../stepscope.pth"));
  if (const std::string word = kept_out_word(hooks_kept_out(request.command), pth); !word.empty()) {
    places.config.notes.push_back(word);
    say(word);
  }
  return places;
}

struct Started {
  SpawnResult child;
  std::vector<int> early_signals;  // the training has them already
};

Started start_training(SignalRelay& relay, const std::vector<std::string>& command,
                       std::vector<std::string> environment, const SignalState& at_start, const Companion* companion) {
  SpawnRequest training;
  training.argv = command;
  training.environment = std::move(environment);
  training.signals = at_start;
  if (companion) std::copy_n(companion->stdio(), 3, training.stdio);
  training.early_signals = relay.early_signals();
  relay.open_window();
  Started started{spawn(training), {}};
  started.early_signals = relay.close_window();
  return started;
}

int run_bare(const LaunchRequest& request, const SignalState& at_start) {
  SignalRelay relay(at_start);
  const std::string inject_folder = find_inject_folder(request.own_binary, request.inject_hint);
  auto environment = bare_environment(current_environment(), inject_folder, request.settings.compat);
  const SpawnResult child = start_training(relay, request.command, std::move(environment), at_start, nullptr).child;
  if (child.error) return exec_failure(request.command.front(), child.error);
  return shell_code(wait_for_command(child.pid, relay, nullptr, nullptr));
}

}  // namespace

int launch(const LaunchRequest& request, const SignalState& at_start) {
  if (request.settings.disable) return run_bare(request, at_start);
  SignalRelay relay(at_start);
  Places places = places_of(request);
  // Without a run folder, recorders leave word in the shared folder why they stayed off.
  const std::string notes_dir = places.config.run_dir.empty() ? places.config.shm_dir : places.config.run_dir;
  std::unique_ptr<Companion> companion =
      make_companion(request.settings.mode, {places.config.run_name, places.config.run_dir, places.config.shm_dir});
  const Started started =
      start_training(relay, request.command,
                     training_environment(current_environment(),
                                          {places.config.shm_dir, notes_dir, places.config.nonce, places.inject_folder,
                                           request.settings.compat, request.settings.stacks}),
                     at_start, companion.get());
  const SpawnResult& child = started.child;
  if (child.error) {
    if (places.folder) ::rmdir(places.folder.path().c_str());
    places.shm.remove();
    return exec_failure(request.command.front(), child.error);
  }
  // The agent comes second: an interpreter needs tens of milliseconds before it opens a ring.
  AgentLink agent(request.own_binary, places.config, at_start);
  if (companion) agent.say_through([&](const std::string& line) { return companion && companion->take_line(line); });
  agent.start(child.pid);
  for (int signal : started.early_signals) note_signal(agent, signal);
  const int status = wait_for_command(child.pid, relay, &agent, companion.get());
  if (companion) companion->end();
  companion.reset();
  agent.finish(status);
  places.shm.remove();
  return shell_code(status);
}

}  // namespace stepscope
