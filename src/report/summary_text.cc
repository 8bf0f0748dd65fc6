#include "report/summary_text.h"

#include <algorithm>
#include <array>

#include "base/text_format.h"
#include "report/ledger_bar.h"
#include "report/page.h"
#include "report/text_layout.h"
#include "report/text_page.h"
#include "report/text_table.h"

namespace stepscope {
namespace {

constexpr PageSize kSize = {.ranks = kMaxRankRows, .heat_rows = 8};
constexpr size_t kMargin = 10;  // of the verdict's labels
constexpr size_t kMaxNameWidth = 24;
constexpr size_t kMaxRemarkWidth = 36;  // beside a fact

using Piece = TextPage::Piece;

std::string_view ink_of(Tone tone) {
  return tone == Tone::kSoft ? ink::kDim : tone == Tone::kWarn ? ink::kYellow : ink::kPlain;
}

void write_head(TextPage& page, const Page& p) {
  page.line({{"stepscope  ", ink::kBold}, {p.run_name, ink::kBold}});
  page.phrases("", p.run, 0, p.ended_badly ? ink::kYellow : ink::kDim);
  page.rule();
}

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
    std::vector<LedgerSlice> slices;
    for (const LedgerPart& part : chart.parts) slices.push_back(part.slice);
    const std::vector<int> cells = cells_of(slices, static_cast<int>(page_.columns()) - 4);
    std::vector<std::string> styles;
    for (const LedgerSlice& slice : slices) styles.push_back(style_of(slice.category));
    std::vector<Piece> bar = {{"  "}};
    for (size_t i = 0; i < slices.size(); ++i)
      bar.push_back({repeat(look(slices[i].category).glyph, static_cast<size_t>(cells[i])), styles[i]});
    page_.line(bar);
    legend(chart, styles);
  }

  // The table of ranks below tells the same in figures.
  void operator()(const RankBars&) {}

  void operator()(const StepChart& chart) {
    static constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const size_t columns = columns_for(chart.wall_ms.size());
    std::vector<double> values;
    for (size_t c = 0; c < columns; ++c) values.push_back(most_in(chart.wall_ms, c, columns));
    // One long step must not flatten the rest: the bars end at two medians.
    const double highest = *std::max_element(values.begin(), values.end());
    const double top = chart.median_ms > 0 ? std::min(highest, 2 * chart.median_ms) : highest;
    std::string line;
    for (const double value : values) {
      const double share = top > 0 ? std::min(value / top, 1.0) : 0;
      line += kBars[static_cast<size_t>(share * (kBars.size() - 1) + 0.5)];
    }
    page_.line({{pad_left("wall", kLabel), ink::kDim}, {"  "}, {line, ink::kCyan}});
    page_.line({{std::string(kLabel + 2, ' ') +
                     formatted("median {}, longest {}", format_ms(chart.median_ms), format_ms(highest)),
                 ink::kDim}});
  }

  void operator()(const HeatMap& map) {
    for (const HeatRow& row : map.rows) {
      const size_t columns = columns_for(row.levels.size());
      std::vector<Piece> line = {{pad_left(formatted("rank {}", row.rank), kLabel), ink::kDim}, {"  "}};
      for (size_t c = 0; c < columns; ++c) {
        const signed char level = most_in(row.levels, c, columns);
        if (level < 0)
          line.push_back({" "});
        else
          line.push_back({std::string(shade(level)), level >= 4 ? ink::kYellow : ink::kPlain});
      }
      page_.line(line);
    }
    std::string legend = "own time over that of the ranks' median:";
    for (int level = 0; level < kHeatLevels; ++level) {
      const bool widest = level + 1 == kHeatLevels || shade(level + 1) != shade(level);
      if (!widest) continue;
      legend += level + 1 < kHeatLevels ? formatted("  {} ≤ {}", shade(level), kHeatBounds[level])
                                        : formatted("  {} more", shade(level));
    }
    page_.paragraph("", legend, kLabel + 2, ink::kDim);
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
      const std::string_view style = card.measured ? ink::of(card.severity) : ink::kDim;
      page_.line({{"  "}, {pad_right(card.title, 13)}, {card.word, style}});
      page_.paragraph("", card.text, 15);
      for (const auto& [label, text] : card.lines) page_.paragraph(indent_ + label, text, 15 + width + 2, ink::kDim);
    }
  }

 private:
  static constexpr size_t kLabel = 10;  // columns left of the charts

  static std::string style_of(Category category) { return formatted("38;5;{}", look(category).terminal_colour); }

  static std::string_view shade(int level) {
    static constexpr std::array<std::string_view, kHeatLevels> kShades = {"·", "░", "░", "▒", "▓", "█", "█"};
    return kShades[static_cast<size_t>(level)];
  }

  size_t columns_for(size_t steps) const { return std::min(steps, page_.columns() - kLabel - 4); }

  // Several steps share a column: the most of them is shown.
  template <class T>
  static T most_in(const std::vector<T>& values, size_t column, size_t columns) {
    const auto at = [&](size_t c) { return values.begin() + static_cast<std::ptrdiff_t>(c * values.size() / columns); };
    return *std::max_element(at(column), at(column + 1));
  }

  // Largest first, in columns.
  void legend(const LedgerChart& chart, const std::vector<std::string>& styles) {
    std::vector<size_t> order;
    for (size_t i = 0; i < chart.parts.size(); ++i)
      if (chart.parts[i].slice.share >= 0.0005) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return chart.parts[a].slice.share > chart.parts[b].slice.share; });
    constexpr size_t kEntry = 32;
    std::vector<Piece> line = {{"  "}};
    size_t used = 2;
    for (const size_t at : order) {
      const LedgerPart& part = chart.parts[at];
      const std::string entry = formatted("{} {} ({})", part.label, part.share, part.per_step);
      // A long name takes several columns.
      const size_t width = std::min((display_width(entry) + 3 + kEntry - 1) / kEntry * kEntry, page_.columns() - 2);
      if (used > 2 && used + width > page_.columns()) {
        page_.line(line);
        line = {{"  "}}, used = 2;
      }
      line.push_back({std::string(look(part.slice.category).glyph) + " ", styles[at]});
      line.push_back({pad_right(entry, width - 2)});
      used += width;
    }
    if (used > 2) page_.line(line);
  }

  TextPage& page_;
  const std::string indent_ = std::string(15, ' ');
};

void write_files(TextPage& page, const TextOptions& options) {
  if (options.folder.empty()) return;
  page.blank();
  page.paragraph("  Files", options.folder, kMargin, ink::kCyan);
  page.phrases("", options.files, kMargin, ink::kDim);
}

}  // namespace

std::string summary_text(const Snapshot& s, const TextOptions& options) {
  TextPage out(static_cast<size_t>(std::clamp(options.columns, 60, 400)), options.color);
  const Page page = build_page(s, kSize);
  write_head(out, page);
  write_verdict(out, page.verdict);
  for (const Block& block : page.blocks) {
    out.heading(block.title, block.aside);
    for (const Element& element : block.elements) std::visit(Drawer(out), element);
  }
  write_files(out, options);
  return out.text();
}

}  // namespace stepscope
