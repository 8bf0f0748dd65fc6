#include <algorithm>

#include "base/text_format.h"
#include "report/page_text.h"
#include "report/text_layout.h"
#include "tui/panes.h"

namespace stepscope::tui {
namespace {

constexpr size_t kMostName = 22, kCost = 8;

}  // namespace

Lines finding_lines(const Told& told, const ViewState& state, const Room& room, bool chosen, bool others) {
  const std::vector<Finding>& findings = told.snapshot.findings;
  std::vector<int> shown;
  for (int i = 0; i < static_cast<int>(findings.size()); ++i)
    if (!others || i != told.snapshot.primary) shown.push_back(i);
  if (shown.empty() || room.rows < 2) return {};
  const int count = static_cast<int>(shown.size()), rows = std::min(count, room.rows - 1);
  const auto at = static_cast<int>(std::ranges::find(shown, state.finding) - shown.begin());  // behind the last: none
  const int first = at == count ? 0 : std::clamp(at - rows + 1, 0, count - rows);
  size_t width = 0;
  for (const int i : shown) width = std::max(width, display_width(display_name(findings[static_cast<size_t>(i)].kind)));
  width = std::min(width, kMostName);
  const std::string which = rows < count ? formatted("{} of {}", rows, count) : formatted("{}", count);
  Lines lines = {heading(others ? "Also found" : "Findings", which + ", those that cost most first", chosen)};
  for (int i = first; i < first + rows; ++i) {
    const Finding& f = findings[static_cast<size_t>(shown[static_cast<size_t>(i)])];
    const std::string cost = f.cost_share > 0 ? format_percent(f.cost_share) : std::string(kNotMeasured);
    const bool here = chosen && i == at;
    const size_t used = 2 + 5 + width + 2 + kCost + 2;
    Line line = {{here ? "› " : "  ", {.bold = here}},
                 {pad_right(name(f.severity), 5), ink::of(f.severity)},
                 {pad_right(display_name(f.kind), width + 2), {.bold = here}},
                 {pad_left(cost, kCost) + "  "}};
    if (static_cast<size_t>(room.columns) > used + 8)
      line.push_back({clip(printable(f.title), static_cast<size_t>(room.columns) - used)});
    lines.push_back(std::move(line));
  }
  return lines;
}

Lines detail_lines(const Told& told, const ViewState& state, int columns) {
  const std::vector<Finding>& findings = told.snapshot.findings;
  if (findings.empty()) return {};
  const auto at = static_cast<size_t>(std::clamp(state.finding, 0, static_cast<int>(findings.size()) - 1));
  TextPage page(static_cast<size_t>(std::max(columns, 40)));
  write_verdict(page, verdict_of(told.snapshot, findings[at]));
  Lines lines = {heading(formatted("Finding {} of {}", at + 1, findings.size()), "", true)};
  lines.insert(lines.end(), page.lines().begin(), page.lines().end());
  return lines;
}

}  // namespace stepscope::tui
