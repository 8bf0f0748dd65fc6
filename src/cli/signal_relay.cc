#include "cli/signal_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"

namespace stepscope {
namespace {

constexpr int kRelayed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr int kSenderWaitMs = 20, kWitnessWaitMs = 200;

volatile sig_atomic_t g_early[65];
void note_early(int signal) { g_early[signal] = 1; }

// Lives until its parent is gone. Everything is blocked: nothing short of SIGKILL ends it, and what comes stays pending
// until the parent has seen it.
[[noreturn]] void witness(int parents_end, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "stepscope-sig");
  if (::getppid() != parent) ::_exit(0);
  const int line = ::dup2(parents_end, 3);  // let go of the user's files, terminal included
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  ::syscall(SYS_close_range, 4u, ~0u, 0u);
  for (uint8_t signal = 0; ::read(line, &signal, 1) == 1;) {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, signal);
    constexpr timespec kAtOnce = {};
    ::sigtimedwait(&one, nullptr, &kAtOnce);
    if (::write(line, &signal, 1) != 1) break;
  }
  ::_exit(0);
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
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
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
    if (g_early[signal]) caught.push_back(signal), take_off(signal);
    g_early[signal] = 0;
  }
  return caught;
}

bool SignalRelay::pending_at_witness(int signal) const {
  const auto status = read_file("/proc/" + std::to_string(witness_pid_) + "/status");
  if (!status) return false;
  constexpr std::string_view kLine = "\nShdPnd:\t";
  const size_t at = status->find(kLine);
  if (at == std::string::npos) return false;
  const uint64_t pending = std::strtoull(status->c_str() + at + kLine.size(), nullptr, 16);
  return pending >> (signal - 1) & 1;
}

void SignalRelay::take_off(int signal) {
  const auto byte = static_cast<uint8_t>(signal);
  if (witness_ && ::send(witness_.get(), &byte, 1, MSG_NOSIGNAL) == 1) ++owed_;
}

bool SignalRelay::witness_is_clear() {
  const uint64_t start_ns = monotonic_ns();
  while (owed_ > 0) {
    const int64_t left_ms = kWitnessWaitMs - static_cast<int64_t>((monotonic_ns() - start_ns) / 1'000'000);
    pollfd wait = {witness_.get(), POLLIN, 0};
    if (left_ms <= 0 || ::poll(&wait, 1, static_cast<int>(left_ms)) <= 0) return false;
    uint8_t done[16];
    const ssize_t n = ::read(witness_.get(), done, sizeof done);
    if (n <= 0) return witness_.reset(), false;
    owed_ -= static_cast<int>(n);
  }
  return true;
}

bool SignalRelay::whole_group(int signal) {
  if (!witness_ || !witness_is_clear()) return signal == SIGINT || signal == SIGQUIT;
  const uint64_t start_ns = monotonic_ns();
  while (!pending_at_witness(signal)) {
    if (monotonic_ns() - start_ns > kSenderWaitMs * 1'000'000ull) return false;
    ::poll(nullptr, 0, 1);
  }
  take_off(signal);
  return true;
}

std::optional<int> SignalRelay::next() {
  signalfd_siginfo info;
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace stepscope
