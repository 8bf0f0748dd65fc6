#include "report/summary_text.h"

#include <algorithm>

#include "report/page_text.h"

namespace stepscope {
namespace {

constexpr PageSize kTextPage = {.ranks = kMaxRankRows, .heat_rows = 8};
constexpr size_t kMargin = 10;

void write_head(TextPage& page, const Page& p) {
  page.line({{"stepscope  ", ink::kBold}, {p.run_name, ink::kBold}});
  page.phrases("", p.run, 0, p.ended_badly ? ink::kYellow : ink::kDim);
}

void write_files(TextPage& page, const TextOptions& options) {
  if (options.folder.empty()) return;
  page.blank();
  page.paragraph("  Files", options.folder, kMargin, ink::kCyan);
  page.phrases("", options.files, kMargin, ink::kDim);
}

}  // namespace

std::string summary_text(const Snapshot& s, const TextOptions& options) {
  TextPage out(static_cast<size_t>(std::clamp(options.columns, 60, 400)));
  const Page page = build_page(s, kTextPage);
  write_head(out, page);
  out.rule();
  write_verdict(out, page.verdict);
  for (const Block& block : page.blocks) {
    out.heading(block.title, block.aside);
    for (const Element& element : block.elements) write_element(out, element);
  }
  write_files(out, options);
  return out.text(options.color);
}

std::string node_text(const Snapshot& s, const std::string& verdict_place, const TextOptions& options) {
  TextPage out(static_cast<size_t>(std::clamp(options.columns, 60, 400)));
  const Page page = build_page(s, kTextPage);
  write_head(out, page);
  out.paragraph("  Verdict", "of the whole job: " + verdict_place, kMargin);
  if (!options.folder.empty()) out.paragraph("  Here", "stepscope report " + options.folder, kMargin, ink::kCyan);
  return out.text(options.color);
}

}  // namespace stepscope
