#include "cli/view_loop.h"

#include "base/clock.h"
#include "cli/settings_here.h"
#include "report/text_layout.h"
#include "tui/terminal_kind.h"

namespace stepscope {
namespace {

constexpr uint64_t kLeastBetweenNs = 50'000'000;  // of two frames
constexpr uint64_t kNoticeNs = 8 * kSecondNs;

std::optional<std::string> variable_here(const char* name) { return from_environment(name); }

}  // namespace

std::string no_view_reason_here() { return tui::no_view_reason(variable_here); }
ColorDepth color_depth_here() { return tui::color_depth(variable_here); }

ViewLoop::ViewLoop(std::unique_ptr<tui::Terminal> terminal, tui::ScreenInput input)
    : terminal_(std::move(terminal)), input_(std::move(input)) {
  newest_ = input_.told;
  input_.memory = &memory_;
  if (newest_) memory_.add(newest_->snapshot);
}

pollfd ViewLoop::poll_set() const {
  const int events = !tui::Terminal::ours() ? 0 : terminal_->pending() ? POLLIN | POLLOUT : POLLIN;
  return {terminal_->fd(), static_cast<short>(events), 0};
}

void ViewLoop::show(std::shared_ptr<const tui::Told> told) {
  newest_ = std::move(told);
  memory_.add(newest_->snapshot);
  changed_ = true;
}

void ViewLoop::say(std::string notice) {
  input_.notice = printable(notice.substr(0, notice.find('\n')));
  notice_ns_ = monotonic_ns();
  changed_ = true;
}

void ViewLoop::keys() {
  std::vector<tui::Key> pressed = decoder_.feed(terminal_->read());
  if (pressed.empty()) pressed = decoder_.flush();
  for (const tui::Key& key : pressed) {
    const tui::Action action = tui::apply_key(state_, key, limits_);
    over_ = over_ || action == tui::Action::kQuit;
    if (action == tui::Action::kDraw) draw();
  }
}

void ViewLoop::draw() {
  if (!state_.paused) input_.told = newest_;
  tui::Screen screen = tui::draw_screen(input_, state_, terminal_->size());
  limits_ = std::move(screen.limits);
  terminal_->draw(screen.grid);
}

void ViewLoop::turn(uint64_t now_ns) {
  const bool ours = terminal_->take();
  if (!ours) return;
  changed_ = tui::Terminal::take_resized() || !ours_ || changed_;
  ours_ = ours;
  terminal_->flush();
  keys();
  if (!input_.notice.empty() && now_ns - notice_ns_ > kNoticeNs) input_.notice.clear(), changed_ = true;
  const uint64_t since_ns = now_ns - drawn_ns_;
  if ((changed_ && since_ns >= kLeastBetweenNs) || since_ns >= kSecondNs) {
    draw();
    changed_ = terminal_->pending();  // a terminal that was not ready gets the newest, once it is
    drawn_ns_ = now_ns;
  }
}

}  // namespace stepscope
