#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/clock.h"
#include "base/file.h"
#include "base/text_format.h"
#include "cli/agent_link.h"
#include "cli/find_run.h"
#include "cli/live_source.h"
#include "cli/load_run.h"
#include "cli/settings_here.h"
#include "cli/verbs.h"
#include "cli/view_loop.h"
#include "report/page_text.h"

namespace stepscope {
namespace {

constexpr uint64_t kAskForTopNs = kSecondNs;
constexpr uint64_t kFirstAnswerNs = 5 * kSecondNs;   // printed once: how long an agent may take
constexpr uint64_t kSummaryWaitNs = 10 * kSecondNs;  // from the end of an agent to its summary
constexpr int kPrintedColumns = 100, kPrintedRows = 60;

// A signal that asks us to end: the loop leaves the terminal, then the signal goes its way.
volatile sig_atomic_t g_ended_by = 0;
void note_end(int signal) { g_ended_by = signal; }

int end_by(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  return 128 + signal;
}

tui::Size printed_size() {
  const auto number = [](const char* name) { return std::atoi(from_environment(name).value_or("").c_str()); };
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return {size.ws_col, kPrintedRows};
  return {number("COLUMNS") > 0 ? std::min(number("COLUMNS"), 1000) : kPrintedColumns, kPrintedRows};
}

// The overview as text; what is empty at its end is left out, and so are the keys.
int print_once(const tui::ScreenInput& input) {
  const tui::Size size = printed_size();
  const tui::Grid grid = tui::draw_screen(input, {}, size).grid;
  std::string text = ::isatty(STDOUT_FILENO) ? tui::printed(grid, color_depth_here()) : grid.text();
  text.erase(text.find_last_not_of('\n', text.rfind('\n', text.size() - 2)) + 1);
  return write_all(STDOUT_FILENO, text + "\n", "stdout") ? 0 : 1;
}

void pause_ms(int ms) { ::usleep(static_cast<useconds_t>(ms) * 1000); }

// The summary of a run whose agent has gone; it may still be writing it.
std::shared_ptr<const tui::Told> final_word(const LiveRun& run) {
  if (run.run_dir.empty()) return nullptr;
  const std::string path = path_join(run.run_dir, "final_summary.json");
  for (const uint64_t until_ns = monotonic_ns() + kSummaryWaitNs; !is_file(path) && monotonic_ns() < until_ns;)
    pause_ms(50);
  auto loaded = load_run(is_file(path) ? path : run.run_dir);
  if (!loaded) return nullptr;
  return std::make_shared<const tui::Told>(std::move(loaded->snapshot));
}

// What stays on the terminal when a run has ended under a view.
int print_verdict(const LiveRun& run, std::shared_ptr<const tui::Told> told) {
  if (auto last = final_word(run)) told = std::move(last);
  if (!told) return say(run.name + " has ended"), 0;
  TextPage page(static_cast<size_t>(std::clamp(printed_size().columns, 60, 120)));
  page.phrases(
      "stepscope",
      [&] {
        std::vector<std::string> phrases = {run.name};
        phrases.insert(phrases.end(), told->page.run.begin(), told->page.run.end());
        return phrases;
      }(),
      11, ink::kBold);
  write_verdict(page, told->page.verdict);
  if (!run.run_dir.empty()) page.paragraph("  Files", run.run_dir, 10, ink::kCyan);
  return write_all(STDOUT_FILENO, page.text(::isatty(STDOUT_FILENO) && color_depth_here() != ColorDepth::kNone),
                   "stdout")
             ? 0
             : 1;
}

// The agent is gone: the run has ended, or its launcher starts another agent.
std::optional<LiveRun> with_another_agent(const LiveRun& run) {
  for (const uint64_t until_ns = monotonic_ns() + 2 * kSecondNs; is_dir(run.shm_dir) && monotonic_ns() < until_ns;) {
    for (const LiveRun& other : live_runs())
      if (other.nonce == run.nonce) return other;
    pause_ms(50);
  }
  return std::nullopt;
}

int watch_live(LiveRun run, std::unique_ptr<tui::Terminal> terminal) {
  LiveSource source(run.shm_dir, kAskForTopNs);
  ViewLoop view(std::move(terminal), {.run_name = run.name, .live = true});
  while (!view.over() && g_ended_by == 0) {
    pollfd set = view.poll_set();
    ::poll(&set, 1, view.wait_ms());
    const uint64_t now_ns = monotonic_ns();
    if (source.turn(now_ns)) view.show(source.told());
    view.silent(source.silent_s(now_ns));
    view.turn(now_ns);
    if (!is_live(run)) {
      if (auto other = with_another_agent(run)) {
        run = std::move(*other);
        continue;
      }
      view.leave();
      return print_verdict(run, source.told());
    }
  }
  view.leave();
  return g_ended_by != 0 ? end_by(g_ended_by) : 0;
}

int show_kept(LoadedRun run, std::unique_ptr<tui::Terminal> terminal) {
  ViewLoop view(std::move(terminal), {.told = std::make_shared<const tui::Told>(std::move(run.snapshot))});
  if (!run.note.empty()) view.say(run.note);
  while (!view.over() && g_ended_by == 0) {
    pollfd set = view.poll_set();
    ::poll(&set, 1, view.wait_ms());
    view.turn(monotonic_ns());
  }
  view.leave();
  return g_ended_by != 0 ? end_by(g_ended_by) : 0;
}

int print_live(const LiveRun& run) {
  LiveSource source(run.shm_dir, kAskForTopNs);
  for (const uint64_t until_ns = monotonic_ns() + kFirstAnswerNs; monotonic_ns() < until_ns && is_live(run);) {
    if (source.turn(monotonic_ns())) return print_once({.run_name = run.name, .told = source.told(), .live = true});
    pause_ms(20);
  }
  if (!is_live(run)) return print_verdict(run, nullptr);
  return say(run.name + ": its agent did not answer"), 1;
}

}  // namespace

int verb_top(const TopVerb& verb) {
  auto settings = settings_here({});
  if (!settings) return say(settings.error().message), kExitUsage;
  auto found = find_run(verb.run, settings->logs_dir, live_runs());
  if (!found) return say(found.error().message), kExitUsage;
  std::optional<LoadedRun> kept;
  if (!found->live) {
    if (verb.live_only) return say(found->path + " is no live run (stepscope top shows kept ones)"), kExitUsage;
    auto loaded = load_run(found->path);
    if (!loaded) return say(loaded.error().message), kExitUsage;
    kept = std::move(*loaded);
  }
  const std::string why_not = no_view_reason_here();
  std::unique_ptr<tui::Terminal> terminal;
  if (!verb.once && ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
    if (!why_not.empty()) say("no terminal view, printed once: " + why_not);
    if (auto opened = why_not.empty() ? tui::Terminal::open(STDOUT_FILENO, color_depth_here()) : fail(why_not))
      terminal = std::move(*opened);
  }
  if (!terminal) {
    if (!kept) return print_live(*found->live);
    if (!kept->note.empty()) say(kept->note);
    return print_once({.told = std::make_shared<const tui::Told>(std::move(kept->snapshot))});
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, note_end);
  return kept ? show_kept(std::move(*kept), std::move(terminal)) : watch_live(*found->live, std::move(terminal));
}

}  // namespace stepscope
