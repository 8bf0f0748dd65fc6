#include "cli/signal_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/clock.h"

namespace stepscope {
namespace {

constexpr int kRelayed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr int kWitnessWaitMs = 20;
constexpr uint64_t kSameSignalNs = 200'000'000;

struct Witnessed {
  uint64_t signal, time_ns;
};

volatile sig_atomic_t g_early[65];
void note_early(int signal) { g_early[signal] = 1; }

// Lives until its parent is gone. Everything is blocked, so nothing short of SIGKILL ends it and nothing is lost.
[[noreturn]] void witness(int report, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "stepscope-sig");
  if (::getppid() != parent) ::_exit(0);
  const int low = ::dup2(report, 3);  // let go of the user's files, terminal included
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  ::syscall(SYS_close_range, 4u, ~0u, 0u);
  sigset_t all;
  ::sigfillset(&all);
  for (;;) {
    siginfo_t info;
    const int signal = ::sigwaitinfo(&all, &info);
    if (signal <= 0) continue;
    const Witnessed seen{static_cast<uint64_t>(signal), monotonic_ns()};
    if (::write(low, &seen, sizeof seen) < 0 && errno == EPIPE) ::_exit(0);
  }
}

}  // namespace

SignalRelay::SignalRelay(const SignalState& at_start) {
  sigset_t ours, all, before;
  ::sigemptyset(&relayed_);
  for (int signal : kRelayed) {
    if (!at_start.ignored[signal]) ::sigaddset(&relayed_, signal);
  }
  ours = relayed_;
  ::sigaddset(&ours, SIGCHLD);
  ::signal(SIGCHLD, SIG_DFL);  // inherited SIG_IGN would make the training's exit code unknowable
  ::signal(SIGPIPE, SIG_IGN);
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);  // the witness must not miss one between fork and its own first line
  signals_.reset(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    witness_.reset(ends[0]);
    const pid_t parent = ::getpid();
    witness_pid_ = ::fork();
    if (witness_pid_ == 0) witness(ends[1], parent);
    ::close(ends[1]);
    if (witness_pid_ < 0) witness_.reset();
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::sigprocmask(SIG_BLOCK, &ours, nullptr);
}

SignalRelay::~SignalRelay() {
  if (witness_pid_ > 0) {
    ::kill(witness_pid_, SIGKILL);
    ::waitpid(witness_pid_, nullptr, 0);
  }
}

void SignalRelay::open_window() {
  struct sigaction action = {};
  action.sa_handler = note_early;
  for (int signal : kRelayed) {
    if (::sigismember(&relayed_, signal)) ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_UNBLOCK, &relayed_, nullptr);
}

const volatile sig_atomic_t* SignalRelay::early_signals() const { return g_early; }

std::vector<int> SignalRelay::close_window() {
  ::sigprocmask(SIG_BLOCK, &relayed_, nullptr);
  std::vector<int> caught;
  for (int signal : kRelayed) {
    if (::sigismember(&relayed_, signal)) ::signal(signal, SIG_DFL);
    if (g_early[signal]) caught.push_back(signal);
    g_early[signal] = 0;
  }
  return caught;
}

bool SignalRelay::whole_group(int signal) {
  const uint64_t start_ns = monotonic_ns();
  for (;;) {
    Witnessed seen[16];
    const ssize_t n = ::read(witness_.get(), seen, sizeof seen);
    if (n == 0) witness_.reset();
    if (!witness_) return signal == SIGINT || signal == SIGQUIT;
    const uint64_t now_ns = monotonic_ns();
    for (ssize_t i = 0; i < n / static_cast<ssize_t>(sizeof(Witnessed)); ++i) {
      if (seen[i].signal <= 64) witnessed_ns_[seen[i].signal] = seen[i].time_ns;
    }
    if (witnessed_ns_[signal] && now_ns - witnessed_ns_[signal] < kSameSignalNs) {
      witnessed_ns_[signal] = 0;
      return true;
    }
    const int64_t left_ms = kWitnessWaitMs - static_cast<int64_t>((now_ns - start_ns) / 1'000'000);
    if (left_ms <= 0) return false;
    pollfd wait = {witness_.get(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(left_ms));
  }
}

std::optional<int> SignalRelay::next() {
  signalfd_siginfo info;
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace stepscope
