#include "base/text_format.h"
#include "report/compare.h"
#include "report/figures.h"
#include "report/json_write.h"
#include "report/text_options.h"
#include "report/text_page.h"

#include <algorithm>

namespace stepscope {
namespace {

std::string change_text(const ComparedFigure& f) {
  return f.change ? formatted("{:+.1f} %", *f.change * 100) : std::string(kNotMeasured);
}
std::string noise_text(const ComparedFigure& f) { return f.noise ? formatted("±{:.1f} %", *f.noise * 100) : ""; }
std::string verdict_text(const ComparedFigure& f) { return f.noise ? std::string(name(f.outcome)) : ""; }

Ink style_of(Outcome outcome) {
  return outcome == Outcome::kRegression ? ink::kRed : outcome == Outcome::kInconclusive ? ink::kYellow : ink::kGreen;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

void write_list(TextPage& page, std::string_view title, const std::vector<std::string>& items, Ink style) {
  if (items.empty()) return;
  page.heading(title);
  for (const std::string& item : items) page.paragraph("", item, 2, style);
}

void write_side(TextPage& page, std::string_view label, const ComparedSide& side) {
  for (const ComparedRun& run : side.runs) {
    std::string text = run.name;
    if (side.runs.size() > 1) text += "  ·  " + format_ms(run.step_p50_ms);
    if (!run.primary.empty()) text += "  ·  " + display_name(run.primary);
    page.paragraph(&run == &side.runs.front() ? label : "", text, 6);
  }
}

std::string runs_text(const Comparison& c) {
  if (!c.run_noise) return "";
  return formatted("{} and {} runs; runs of one side differ by {:.1f} %", c.a.runs.size(), c.b.runs.size(),
                   *c.run_noise * 100);
}

// As text in a cell or a line of Markdown: no mark-up of a name's own.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      out += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|#&!").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void write_row(std::string& out, const std::vector<std::string>& cells, size_t columns) {
  for (size_t i = 0; i < columns; ++i) out += formatted("| {} ", i < cells.size() ? plain(cells[i]) : "");
  out += "|\n";
}

void write_markdown_list(std::string& out, std::string_view title, const std::vector<std::string>& items) {
  if (items.empty()) return;
  out += formatted("\n{}:\n\n", title);
  for (const std::string& item : items) out += formatted("* {}\n", plain(item));
}

OrderedJson side_json(const ComparedSide& side) {
  OrderedJson runs = OrderedJson::array();
  for (const ComparedRun& run : side.runs)
    runs.push_back({{"name", run.name},
                    {"primary", json_text_or_null(run.primary.str())},
                    {"step_p50_ms", json_named_number("step_p50_ms", run.step_p50_ms)}});
  return {{"name", side.name()}, {"primary", json_text_or_null(side.primary().str())}, {"runs", std::move(runs)}};
}

}  // namespace

Table compare_table(const Comparison& c) {
  Table table{{{.title = "", .right = false, .least_width = 20},
               {.title = "A", .least_width = 11},
               {.title = "B", .least_width = 11},
               {.title = "Change", .least_width = 9},
               {.title = "Noise", .priority = 1},
               {.title = "", .right = false, .priority = 2}},
              {}};
  for (const ComparedFigure& f : c.figures) {
    table.add({value_label(f.name), format_value(f.name, f.a), format_value(f.name, f.b), change_text(f), noise_text(f),
               verdict_text(f)},
              &f == &c.figures.front() ? RowMark::kStrong : RowMark::kNone);
  }
  return table;
}

std::string compare_text(const Comparison& c, const TextOptions& options) {
  TextPage page(static_cast<size_t>(std::clamp(options.columns, 60, 400)));
  page.line({{"stepscope compare", ink::kBold}});
  write_side(page, "  A", c.a);
  write_side(page, "  B", c.b);
  page.rule();
  page.blank();
  page.line({{"  " + upper(name(c.outcome)), style_of(c.outcome)}});
  page.paragraph("", c.reason, 2, ink::kBold);
  page.paragraph("", runs_text(c), 2);
  page.blank();
  page.table(compare_table(c));
  write_list(page, "New findings in B", c.opened, ink::kRed);
  write_list(page, "Gone in B", c.closed, ink::kGreen);
  write_list(page, "Caveats", c.warnings, ink::kYellow);
  return page.text(options.color);
}

std::string compare_markdown(const Comparison& c) {
  std::string out = "### " + upper(name(c.outcome)) + "\n\n**" + plain(c.reason) + "**";
  if (const std::string runs = runs_text(c); !runs.empty()) out += " (" + plain(runs) + ")";
  out += "\n\nA: " + plain(c.a.name()) + "  \nB: " + plain(c.b.name()) + "\n\n";
  const Table table = compare_table(c);
  std::vector<std::string> titles;
  std::string line;
  for (const Column& column : table.columns) {
    titles.push_back(column.title);
    line += column.right ? "|---:" : "|---";
  }
  write_row(out, titles, table.columns.size());
  out += line + "|\n";
  for (const Row& row : table.rows) write_row(out, row.cells, table.columns.size());
  write_markdown_list(out, "New findings in B", c.opened);
  write_markdown_list(out, "Gone in B", c.closed);
  write_markdown_list(out, "Caveats", c.warnings);
  return out;
}

std::string compare_json(const Comparison& c) {
  OrderedJson figures = OrderedJson::array();
  for (const ComparedFigure& f : c.figures) {
    figures.push_back({{"name", f.name},
                       {"a", json_named_number(f.name, f.a)},
                       {"b", json_named_number(f.name, f.b)},
                       {"change", json_number(f.change)},
                       {"noise", json_number(f.noise)},
                       {"outcome", f.noise ? OrderedJson(std::string(name(f.outcome))) : OrderedJson(nullptr)}});
  }
  OrderedJson out;
  out["schema_version"] = "1.1";
  out["outcome"] = std::string(name(c.outcome));
  out["exit_code"] = exit_code(c.outcome);
  out["reason"] = c.reason;
  out["a"] = side_json(c.a);
  out["b"] = side_json(c.b);
  out["run_noise"] = json_number(c.run_noise);
  out["figures"] = std::move(figures);
  out["opened"] = c.opened;
  out["closed"] = c.closed;
  out["warnings"] = c.warnings;
  return json_layout(out);
}

}  // namespace stepscope
