#include "cli/companion.h"

#include <unistd.h>

#include "cli/agent_link.h"
#include "cli/progress_lines.h"
#include "cli/run_view.h"

namespace stepscope {

std::unique_ptr<Companion> make_companion(const std::string& mode, const CompanionPlace& place) {
  if (mode != "cli" || place.shm_dir.empty()) return nullptr;
  const bool screen = ::isatty(STDIN_FILENO) && (::isatty(STDERR_FILENO) || ::isatty(STDOUT_FILENO));
  if (screen) {
    const std::string why_not = no_view_reason_here();
    if (why_not.empty()) {
      if (auto view = RunView::open(place)) return view;
    } else {
      say("no terminal view, lines of progress instead: " + why_not);
    }
  }
  return std::make_unique<ProgressLines>(place);
}

}  // namespace stepscope
