#include "cli/run_view.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/file.h"
#include "cli/agent_link.h"

namespace stepscope {
namespace {

constexpr uint64_t kAskForViewNs = 1'000'000'000;
constexpr int kMostReads = 64;  // per turn: a training that writes without end must not keep the launcher from its work

constexpr int kMostRounds = 256;

std::string output_path(const std::string& run_dir) { return run_dir.empty() ? "" : path_join(run_dir, "output.log"); }

}  // namespace

std::unique_ptr<RunView> RunView::open(const CompanionPlace& place) {
  const int like = ::isatty(STDERR_FILENO) ? STDERR_FILENO : STDOUT_FILENO;
  auto terminal = tui::Terminal::open(like, color_depth_here());
  if (!terminal || ::tcgetpgrp((*terminal)->fd()) != ::getpgrp()) return nullptr;
  std::unique_ptr<RunView> view(new RunView(place, std::move(*terminal)));
  if (!view->open_output(like)) return nullptr;
  return view;
}

RunView::RunView(const CompanionPlace& place, std::unique_ptr<tui::Terminal> terminal)
    : source_(place.shm_dir, kAskForViewNs), kept_(output_path(place.run_dir)), terminal_(terminal.get()) {
  view_ = std::make_unique<ViewLoop>(std::move(terminal), tui::ScreenInput{.run_name = place.run_name, .live = true});
  view_->output(&tail_);
}

RunView::~RunView() { end(); }

bool RunView::open_output(int like_fd) {
  null_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  master_.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[256];
  if (!null_ || !master_ || ::grantpt(master_.get()) != 0 || ::unlockpt(master_.get()) != 0 ||
      ::ptsname_r(master_.get(), name, sizeof name) != 0)
    return false;
  slave_.reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes;
  if (!slave_ || ::tcgetattr(like_fd, &modes) != 0) return false;
  // As the terminal is, but every byte as it was written: line ends are the real terminal's affair.
  modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  modes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
  if (::tcsetattr(slave_.get(), TCSANOW, &modes) != 0) return false;
  ::fcntl(master_.get(), F_SETFL, ::fcntl(master_.get(), F_GETFL) | O_NONBLOCK);
  follow_size();
  stdio_[0] = null_.get();
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO})
    if (::isatty(fd)) stdio_[fd] = slave_.get(), shown_on_ = fd;
  return true;
}

// SIGWINCH reaches the training from the real terminal; the size it then asks for is this one.
void RunView::follow_size() {
  const tui::Size size = terminal_->size();
  if (size.columns == columns_ && size.rows == rows_) return;
  columns_ = size.columns;
  rows_ = size.rows;
  const winsize now = {.ws_row = static_cast<unsigned short>(rows_),
                       .ws_col = static_cast<unsigned short>(columns_),
                       .ws_xpixel = 0,
                       .ws_ypixel = 0};
  ::ioctl(master_.get(), TIOCSWINSZ, &now);
}

void RunView::add_to(std::vector<pollfd>& set) const {
  set.push_back({master_.get(), POLLIN, 0});
  if (view_) set.push_back(view_->poll_set());
}

bool RunView::read_output() {
  char buffer[16384];
  bool any = false;
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t n = ::read(master_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return any;
    const std::string_view bytes(buffer, static_cast<size_t>(n));
    any = true;
    if (!view_) {
      (void)write_all(shown_on_, bytes, "output");
      continue;
    }
    kept_.add(bytes);
    tail_.feed(bytes);
  }
  return any;
}

void RunView::turn(uint64_t now_ns) {
  const bool wrote = read_output();
  if (!view_) return;
  follow_size();
  if (wrote) view_->output_changed();
  if (source_.turn(now_ns)) view_->show(source_.told());
  view_->silent(source_.silent_s(now_ns));
  view_->turn(now_ns);
  if (view_->over()) close_view();
}

bool RunView::take_line(const std::string& line) {
  if (!view_) return false;
  view_->say(line);
  lines_.push_back(line);
  return true;
}

void RunView::close_view() {
  if (!view_) return;
  view_.reset();  // gives the terminal back
  terminal_ = nullptr;
  const std::string rest = kept_.show(shown_on_);
  if (!rest.empty()) say(rest);
  for (const std::string& line : lines_) say(line);
  lines_.clear();
}

void RunView::end() {
  for (int i = 0; i < kMostRounds && read_output(); ++i) {  // what outlives the training may write for ever
  }
  close_view();
}

}  // namespace stepscope
