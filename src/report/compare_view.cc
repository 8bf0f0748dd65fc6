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
  page.paragraph("  A", c.name_a + (c.primary_a.empty() ? "" : "  ·  " + display_name(c.primary_a)), 6);
  page.paragraph("  B", c.name_b + (c.primary_b.empty() ? "" : "  ·  " + display_name(c.primary_b)), 6);
  page.rule();
  page.blank();
  page.line({{"  " + upper(name(c.outcome)), style_of(c.outcome)}});
  page.paragraph("", c.reason, 2, ink::kBold);
  page.blank();
  page.table(compare_table(c));
  write_list(page, "New findings in B", c.opened, ink::kRed);
  write_list(page, "Gone in B", c.closed, ink::kGreen);
  write_list(page, "Caveats", c.warnings, ink::kYellow);
  return page.text(options.color);
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
  out["schema_version"] = "1.0";
  out["outcome"] = std::string(name(c.outcome));
  out["exit_code"] = exit_code(c.outcome);
  out["reason"] = c.reason;
  out["a"] = OrderedJson{{"name", c.name_a}, {"primary", json_text_or_null(c.primary_a.str())}};
  out["b"] = OrderedJson{{"name", c.name_b}, {"primary", json_text_or_null(c.primary_b.str())}};
  out["figures"] = std::move(figures);
  out["opened"] = c.opened;
  out["closed"] = c.closed;
  out["warnings"] = c.warnings;
  return json_layout(out);
}

}  // namespace stepscope
