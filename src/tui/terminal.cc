#include "tui/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/file.h"

namespace stepscope::tui {
namespace {

// Alternate screen, no cursor, no wrapping at the edge; and back.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char kLeave[] = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
constexpr int kLeaveWaitMs = 300;  // for a terminal that is slow to take the last bytes

// What a signal handler needs. One terminal in a process.
volatile sig_atomic_t g_fd = -1, g_ours = 0, g_resized = 0, g_continued = 0;
termios g_before;

// Async-signal-safe.
void give_back() {
  if (!g_ours) return;
  g_ours = 0;
  const int saved = errno;
  const char* at = kLeave;
  size_t left = sizeof kLeave - 1;
  while (left > 0) {
    const ssize_t n = ::write(g_fd, at, left);
    if (n > 0) {
      at += n, left -= static_cast<size_t>(n);
      continue;
    }
    pollfd wait = {g_fd, POLLOUT, 0};
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && ::poll(&wait, 1, kLeaveWaitMs) > 0 && !(wait.revents & (POLLERR | POLLHUP)))
      continue;
    break;
  }
  ::tcsetattr(g_fd, TCSANOW, &g_before);
  errno = saved;
}

void on_fatal(int signal) {
  give_back();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void on_resize(int) { g_resized = 1; }
void on_continue(int) { g_continued = 1; }
void on_stop(int);

void catch_signal(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  ::sigaction(number, &action, nullptr);
}

void on_stop(int signal) {
  const int saved = errno;
  give_back();
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // blocked until here; the process stops when it is let through
  sigset_t this_one, before;
  ::sigemptyset(&this_one);
  ::sigaddset(&this_one, signal);
  ::sigprocmask(SIG_UNBLOCK, &this_one, &before);
  // Continued.
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  catch_signal(signal, on_stop);
  g_resized = 1;  // the screen is taken again and drawn anew by the next take()
  errno = saved;
}

}  // namespace

Result<std::unique_ptr<Terminal>> Terminal::open(int like_fd, ColorDepth depth) {
  char name[256];
  if (const int error = ::ttyname_r(like_fd, name, sizeof name)) return fail("no terminal: " + errno_text(error));
  Fd fd(::open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return fail(std::string(name) + ": " + errno_text(errno));
  if (::tcgetattr(fd.get(), &g_before) != 0) return fail(std::string(name) + ": " + errno_text(errno));
  return std::unique_ptr<Terminal>(new Terminal(std::move(fd), depth));
}

Terminal::Terminal(Fd fd, ColorDepth depth) : fd_(std::move(fd)), depth_(depth) {
  g_fd = fd_.get();
  for (const int signal : kFatal) catch_signal(signal, on_fatal);
  catch_signal(SIGWINCH, on_resize);
  catch_signal(SIGTSTP, on_stop);
  catch_signal(SIGCONT, on_continue);
}

Terminal::~Terminal() {
  leave();
  for (const int signal : kFatal) ::signal(signal, SIG_DFL);
  ::signal(SIGWINCH, SIG_DFL);
  ::signal(SIGTSTP, SIG_DFL);
  ::signal(SIGCONT, SIG_DFL);
  g_fd = -1;
}

Size Terminal::size() const {
  winsize size = {};
  if (::ioctl(fd_.get(), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

bool Terminal::take() {
  if (gone_) return false;
  const bool stopped = g_continued != 0;  // after SIGSTOP the screen is no more what we left there
  if (g_ours && !stopped) return true;
  const pid_t foreground = ::tcgetpgrp(fd_.get());
  gone_ = foreground < 0;
  if (foreground != ::getpgrp()) return false;
  g_continued = 0;
  if (!g_ours && ::tcgetattr(fd_.get(), &g_before) != 0) return false;  // as it is now: a shell may have set it
  termios quiet = g_before;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ECHONL);
  quiet.c_cc[VMIN] = 0;
  quiet.c_cc[VTIME] = 0;
  if (::tcsetattr(fd_.get(), TCSANOW, &quiet) != 0) return false;
  g_ours = 1;
  fresh_ = true;
  unwritten_ = kEnter;
  flush();
  return true;
}

void Terminal::leave() {
  unwritten_.clear();
  give_back();
}

std::string Terminal::read() {
  std::string typed;
  char buffer[256];
  for (;;) {
    const ssize_t n = ::read(fd_.get(), buffer, sizeof buffer);
    if (n > 0) {
      typed.append(buffer, static_cast<size_t>(n));
      if (n == static_cast<ssize_t>(sizeof buffer)) continue;
    }
    // VMIN 0: no byte yet looks like an end. Only an error says that the line is gone.
    if (n < 0 && errno == EIO && ::tcgetpgrp(fd_.get()) == ::getpgrp()) gone_ = true;
    pollfd hangup = {fd_.get(), 0, 0};
    if (n <= 0 && ::poll(&hangup, 1, 0) > 0 && (hangup.revents & (POLLHUP | POLLERR))) gone_ = true;
    return typed;
  }
}

void Terminal::draw(const Grid& grid) {
  if (!g_ours || pending()) return;  // the next frame will say it
  unwritten_ = frame_bytes(fresh_ ? nullptr : &shown_, grid, depth_);
  shown_ = grid;
  fresh_ = false;
  flush();
}

void Terminal::flush() {
  while (!unwritten_.empty()) {
    const ssize_t n = ::write(fd_.get(), unwritten_.data(), unwritten_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) gone_ = errno == EIO || gone_, unwritten_.clear();
    if (n <= 0) return;
    unwritten_.erase(0, static_cast<size_t>(n));
  }
}

bool Terminal::ours() { return g_ours != 0; }

bool Terminal::take_resized() {
  const bool was = g_resized != 0;
  g_resized = 0;
  return was;
}

}  // namespace stepscope::tui
