#include "cli/agent_link.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/clock.h"
#include "base/file.h"

namespace stepscope {
namespace {
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kSummaryWaitNs = 10'000 * kMs;  // usually far below 1 s; an agent may have been frozen meanwhile
constexpr uint64_t kDoneWaitNs = 20'000 * kMs;     // copying black boxes of many ranks to a slow disk
constexpr int kTickMs = 100;
}  // namespace

void say(const std::string& line) { (void)write_all(STDERR_FILENO, "stepscope: " + line + "\n", "stderr"); }

void AgentLink::tell(const std::string& line) {
  if (!taker_ || !taker_(line)) say(line);
}

AgentLink::AgentLink(std::string binary, AgentConfig config, SignalState signals)
    : binary_(std::move(binary)), config_(std::move(config)), signals_(signals) {}

AgentLink::~AgentLink() {
  channel_.reset();
  if (agent_ > 0) ::waitpid(agent_, nullptr, WNOHANG);
}

bool AgentLink::spawn_agent() {
  auto pair = ControlChannel::make_pair();
  if (!pair) return give_up(pair.error().message), false;
  SpawnRequest request;
  request.argv = {binary_, "agent"};
  request.environment = current_environment();
  request.signals = signals_;
  request.daemon = true;
  request.keep_fd = pair->second.fd();
  const SpawnResult result = spawn(request);
  if (result.error) return give_up("cannot start the agent: " + errno_text(result.error)), false;
  agent_ = result.pid;
  channel_.emplace(std::move(pair->first));
  channel_->send(FrameType::kConfig, config_.to_json());
  replay_state();
  return true;
}

void AgentLink::replay_state() {
  if (child_ > 0) channel_->send(FrameType::kChild, std::to_string(child_));
  if (signal_) channel_->send(FrameType::kSignal, std::to_string(signal_));
  if (ended_) channel_->send(FrameType::kEnded, std::to_string(*ended_));
}

void AgentLink::start(pid_t child) {
  child_ = child;
  spawn_agent();
}

void AgentLink::give_up(const std::string& why) {
  given_up_ = true;
  channel_.reset();
  tell(why + "; this run is not observed any more (the training goes on)");
}

void AgentLink::on_agent_death() {
  channel_.reset();
  if (agent_ > 0) ::waitpid(agent_, nullptr, 0);  // its end of the channel is closed: it is gone or about to be
  agent_ = -1;
  if (done_ || given_up_) return;
  if (config_.restarts > 0) return give_up("the agent died twice");
  ++config_.restarts;
  spawn_agent();
}

void AgentLink::handle(const std::vector<Frame>& frames) {
  for (const Frame& frame : frames) {
    if (frame.type == FrameType::kNotice) tell(frame.body);
    if (frame.type == FrameType::kDone) done_ = true;
    if (frame.type == FrameType::kSummary && !summary_printed_) {
      summary_printed_ = true;
      (void)write_all(STDERR_FILENO, frame.body, "stderr");
    }
  }
}

void AgentLink::on_readable() {
  if (dead()) return;
  handle(channel_->receive());
  if (channel_ && !channel_->open()) on_agent_death();
}

void AgentLink::signal_seen(int signal) {
  signal_ = signal;
  if (channel_) channel_->send(FrameType::kSignal, std::to_string(signal));
}

void AgentLink::finish(int wait_status) {
  ended_ = wait_status;
  if (channel_) channel_->send(FrameType::kEnded, std::to_string(wait_status));
  uint64_t deadline_ns = monotonic_ns() + kSummaryWaitNs;
  bool had_summary = false;
  int restarts = config_.restarts;
  while (channel_ && !done_) {
    const uint64_t now_ns = monotonic_ns();
    if (now_ns > deadline_ns) break;
    pollfd wait = {channel_->fd(), POLLIN, 0};
    ::poll(&wait, 1, kTickMs);
    on_readable();
    // A frozen agent (somebody stopped it) would keep the user waiting for nothing.
    if (agent_ > 0 && proc_stat(agent_).state == 'T') ::kill(agent_, SIGCONT);
    if (restarts != config_.restarts) restarts = config_.restarts, deadline_ns = now_ns + kSummaryWaitNs;
    if (summary_printed_ && !had_summary) had_summary = true, deadline_ns = now_ns + kDoneWaitNs;
  }
  if (channel_ && !done_) {
    ::kill(agent_, SIGKILL);
    if (!summary_printed_) say("the agent did not answer in time; no summary for this run");
  } else if (!summary_printed_ && !given_up_) {
    say("the agent ended without a verdict; no summary for this run");
  }
  channel_.reset();
  if (agent_ > 0) ::waitpid(agent_, nullptr, done_ ? 0 : WNOHANG);
  agent_ = -1;
}

}  // namespace stepscope
