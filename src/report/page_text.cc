#include "report/page_text.h"

#include <algorithm>

#include "base/text_format.h"
#include "report/text_charts.h"
#include "report/text_layout.h"
#include "report/text_table.h"

namespace stepscope {
namespace {

constexpr size_t kMargin = 10;  // of the verdict's labels
constexpr size_t kMaxNameWidth = 24;
constexpr size_t kMaxRemarkWidth = 36;  // beside a fact

using Piece = TextPage::Piece;

Ink ink_of(Tone tone) { return tone == Tone::kSoft ? ink::kDim : tone == Tone::kWarn ? ink::kYellow : ink::kPlain; }

void write_facts(TextPage& page, const Verdict& v) {
  Table table{{{.title = "", .right = false},
               {.title = "", .right = false},
               {.title = ""},
               {.title = "", .right = false, .priority = 1}},
              {}};
  // A long remark has lines of its own: the column goes as a whole where one of its cells finds no room.
  const auto apart = [](const Fact& f) { return display_width(f.others) > kMaxRemarkWidth; };
  for (const Fact& f : v.facts) table.add({f.label, f.who, f.value, apart(f) ? "" : f.others});
  std::string label = "  Why";
  const std::vector<std::string> rows = text_table(table, page.columns() - kMargin).rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    page.line({{pad_right(label, kMargin), ink::kDim}, {rows[i]}});
    label.clear();
    if (i < v.facts.size() && apart(v.facts[i])) page.paragraph("", v.facts[i].others, kMargin + 2);
  }
  page.phrases(label, v.context, kMargin);
}

// Draws the elements of a block; one function per kind of element, so that none is forgotten.
class Drawer {
 public:
  explicit Drawer(TextPage& page) : page_(page) {}

  void operator()(const Phrases& p) { page_.phrases("", p.items, 2, ink_of(p.tone)); }

  void operator()(const Lines& l) {
    for (const std::string& item : l.items) page_.paragraph("", item, 2, ink_of(l.tone));
  }

  void operator()(const Table& table) { page_.table(table); }

  void operator()(const LedgerChart& chart) {
    indented(ledger_bar(chart, page_.columns() - 4));
    for (TextPage::Line& line : ledger_legend(chart, page_.columns() - 2)) indented(std::move(line));
  }

  // The table of ranks below tells the same in figures.
  void operator()(const RankBars&) {}

  void operator()(const StepChart& chart) {
    const std::string bars = bars_of(chart.wall_ms, chart_columns(), 0, top_of(chart.wall_ms, chart.median_ms));
    page_.line({{pad_left("wall", kLabel), ink::kDim}, {"  "}, {bars, ink::kCyan}});
    page_.line({{std::string(kLabel + 2, ' ') + formatted("median {}, longest {}", format_ms(chart.median_ms),
                                                          format_ms(std::ranges::max(chart.wall_ms))),
                 ink::kDim}});
  }

  void operator()(const HeatMap& map) {
    for (const HeatRow& row : map.rows) {
      TextPage::Line line = {{pad_left(formatted("rank {}", row.rank), kLabel), ink::kDim}, {"  "}};
      for (Piece& cells : heat_cells(row, chart_columns())) line.push_back(std::move(cells));
      page_.line(line);
    }
    page_.paragraph("", heat_legend(), kLabel + 2, ink::kDim);
  }

  void operator()(const FindingList& list) {
    size_t width = 0;
    for (const FindingItem& item : list.items) width = std::max(width, display_width(printable(item.name)));
    width = std::min(width, kMaxNameWidth);
    const size_t margin = 2 + 6 + width + 2;
    for (const FindingItem& item : list.items) {
      const std::string cost = item.cost.empty() ? "" : " (costs " + item.cost + ")";
      std::vector<std::string> lines = wrap(printable(item.title + cost), page_.columns() - margin);
      if (lines.empty()) lines.emplace_back();
      page_.line({{"  "},
                  {pad_right(name(item.severity), 6), ink::of(item.severity)},
                  {pad_right(printable(item.name), width + 2)},
                  {lines.front()}});
      for (size_t i = 1; i < lines.size(); ++i) page_.line({{std::string(margin, ' ')}, {lines[i]}});
      page_.paragraph("", item.action, margin, ink::kDim);
    }
  }

  void operator()(const Cards& cards) {
    size_t width = 0;
    for (const Card& card : cards.cards)
      for (const auto& [label, text] : card.lines) width = std::max(width, display_width(label));
    for (const Card& card : cards.cards) {
      const Ink style = card.measured ? ink::of(card.severity) : ink::kDim;
      page_.line({{"  "}, {pad_right(card.title, 13)}, {card.word, style}});
      page_.paragraph("", card.text, 15);
      for (const auto& [label, text] : card.lines) page_.paragraph(indent_ + label, text, 15 + width + 2, ink::kDim);
    }
  }

 private:
  static constexpr size_t kLabel = 10;  // columns left of the charts

  size_t chart_columns() const { return page_.columns() - kLabel - 4; }

  void indented(TextPage::Line line) {
    line.insert(line.begin(), Piece{"  "});
    page_.line(line);
  }

  TextPage& page_;
  const std::string indent_ = std::string(15, ' ');
};

}  // namespace

void write_verdict(TextPage& page, const Verdict& v) {
  page.blank();
  const bool graded = v.severity != Severity::kInfo;
  page.line({{"  " + v.name, ink::of(v.severity)}, {graded ? "  " + std::string(name(v.severity)) : "", ink::kDim}});
  page.paragraph("", v.headline, 2, ink::kBold);
  page.blank();
  page.paragraph("  Costs", v.cost, kMargin);
  page.paragraph("  Saves", v.saves, kMargin);
  page.paragraph("  Next", v.action, kMargin);
  write_facts(page, v);
  page.paragraph("", v.explain, kMargin, ink::kCyan);
}

void write_element(TextPage& page, const Element& element) { std::visit(Drawer(page), element); }

}  // namespace stepscope
