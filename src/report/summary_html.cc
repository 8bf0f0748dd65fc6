#include "report/summary_html.h"

#include <algorithm>

#include "base/text_format.h"
#include "report/html_charts.h"
#include "report/html_text.h"
#include "report/page.h"

namespace stepscope {
namespace {

constexpr PageSize kHtmlPage = {
    .ranks = 64, .bars = 16, .heat_rows = 64, .epochs = 24, .findings = 200, .collectives = 64};

std::string esc(std::string_view text) { return html_escaped(text); }

std::string_view class_of(Tone tone) { return tone == Tone::kSoft ? "soft" : tone == Tone::kWarn ? "alert" : "plain"; }

std::string phrases(const std::vector<std::string>& items, std::string_view tone = "soft") {
  std::string out = formatted("<div class=\"phrases {}\">", tone);
  for (const std::string& item : items)
    if (!item.empty()) out += "<span>" + esc(item) + "</span>";
  return out + "</div>";
}

std::string verdict_html(const Verdict& v) {
  std::string facts, numbers;
  for (const Fact& f : v.facts) {
    facts += formatted(
        "<tr><td class=\"left soft\">{}</td><td class=\"left\">{}</td><td>{}</td><td class=\"left\">{}</td></tr>",
        esc(f.label), esc(f.who), esc(f.value), esc(f.others));
  }
  if (!v.cost.empty()) numbers += "<div><span>Costs</span><b>" + esc(v.cost) + "</b></div>";
  if (!v.saves.empty()) numbers += "<div><span>Saves</span><b>" + esc(v.saves) + "</b></div>";
  std::string out = formatted(
      "<section class=\"card verdict {0}\"><div class=\"badge\">{1}{2}</div><h2>{3}</h2>", name(v.severity),
      esc(v.name), v.severity == Severity::kInfo ? "" : "<small>" + std::string(name(v.severity)) + "</small>",
      esc(v.headline));
  if (!numbers.empty()) out += "<div class=\"numbers\">" + numbers + "</div>";
  if (!v.action.empty()) out += "<div class=\"next\"><b>Next</b>" + esc(v.action) + "</div>";
  if (!facts.empty()) out += "<h4>Why</h4><table class=\"facts\">" + facts + "</table>";
  out += phrases(v.context);
  if (!v.explain.empty()) out += "<p class=\"soft\">More: <code>" + esc(v.explain) + "</code></p>";
  return out + "</section>\n";
}

std::string row_html(std::string_view tag, const Table& table, const std::vector<std::string>& cells,
                     std::string_view row_class) {
  std::string out = row_class.empty() ? "<tr>" : formatted("<tr class=\"{}\">", row_class);
  for (size_t i = 0; i < table.columns.size(); ++i)
    out += formatted("<{0}{1}>{2}</{0}>", tag, table.columns[i].right ? "" : " class=\"left\"",
                     i < cells.size() ? cells[i] : std::string());
  return out + "</tr>\n";
}

// Draws the elements of a block; one function per kind of element, so that none is forgotten.
struct Drawer {
  std::string operator()(const Phrases& p) const { return phrases(p.items, class_of(p.tone)); }

  std::string operator()(const Lines& l) const {
    std::string out;
    for (const std::string& item : l.items) out += formatted("<p class=\"{}\">{}</p>", class_of(l.tone), esc(item));
    return out;
  }

  std::string operator()(const Table& table) const {
    std::vector<std::string> titles;
    for (const Column& c : table.columns)
      titles.push_back(esc(c.title) + (c.unit.empty() ? "" : " <small>" + esc(c.unit) + "</small>"));
    std::string rows = row_html("th", table, titles, "");
    for (const Row& row : table.rows) {
      std::vector<std::string> cells;
      for (const std::string& cell : row.cells) cells.push_back(esc(cell));
      rows += row_html("td", table, cells,
                       row.mark == RowMark::kCulprit  ? "mark"
                       : row.mark == RowMark::kStrong ? "strong"
                                                      : "");
    }
    return "<div class=\"scroll\"><table>" + rows + "</table></div>";
  }

  std::string operator()(const LedgerChart& chart) const {
    std::vector<LedgerSlice> slices;
    std::vector<const LedgerPart*> parts;
    for (const LedgerPart& part : chart.parts) slices.push_back(part.slice), parts.push_back(&part);
    std::stable_sort(parts.begin(), parts.end(),
                     [](const LedgerPart* a, const LedgerPart* b) { return a->slice.share > b->slice.share; });
    std::string legend = "<div class=\"legend\">";
    for (const LedgerPart* part : parts) {
      legend += formatted("<span><i class=\"c-{}\"></i>{}<b>{}</b> <span class=\"soft\">{}</span></span>",
                          name(part->slice.category), esc(part->label), esc(part->share), esc(part->per_step));
    }
    return svg_ledger_bar(slices, 30) + legend + "</div>";
  }

  std::string operator()(const RankBars& ranks) const {
    std::string out = "<div class=\"bars\">";
    for (const RankBar& bar : ranks.bars)
      out += formatted("<span{}>{}</span>{}<span class=\"soft\">{}</span>", bar.culprit ? " class=\"mark\"" : "",
                       esc(bar.label), svg_ledger_bar(bar.slices, 14, bar.length), esc(bar.value));
    return out + "</div>";
  }

  std::string operator()(const StepChart& chart) const {
    const double longest = *std::max_element(chart.wall_ms.begin(), chart.wall_ms.end());
    return formatted(
        "<div class=\"heat\"><div class=\"labels\"><span>wall</span></div>{0}<span></span><div "
        "class=\"axis\"><span>step "
        "{1}</span><span>median {2} (dashed), longest {3}</span><span>step {4}</span></div></div>",
        svg_step_series(chart), chart.first_step, esc(format_ms(chart.median_ms)), esc(format_ms(longest)),
        chart.last_step);
  }

  std::string operator()(const HeatMap& map) const {
    std::string legend = "<div class=\"legend soft\"><span>own time over that of the ranks' median:</span>";
    for (int level = 0; level < kHeatLevels; ++level) {
      const std::string text =
          level + 1 < kHeatLevels ? formatted("≤ {}", kHeatBounds[level]) : formatted("> {}", kHeatBounds[level - 1]);
      legend += formatted("<span><i class=\"h{}\"></i>{}</span>", level, text);
    }
    return "<div class=\"heat\">" + svg_heat_strip(map) + "</div>" + legend + "</div>";
  }

  std::string operator()(const FindingList& list) const {
    std::string out = "<div class=\"findings\">";
    for (const FindingItem& item : list.items) {
      out += formatted("<div class=\"{0}\"><span class=\"badge\">{1}<small>{0}</small></span><p>{2}{3}</p>",
                       name(item.severity), esc(item.name), esc(item.title),
                       item.cost.empty() ? "" : " <small>costs " + esc(item.cost) + "</small>");
      if (!item.action.empty()) out += "<p class=\"soft\">" + esc(item.action) + "</p>";
      out += "</div>";
    }
    return out + "</div>";
  }

  std::string operator()(const Cards& cards) const {
    std::string out = "<div class=\"sections\">";
    for (const Card& card : cards.cards) {
      out += formatted("<section class=\"{}\"><h4>{}</h4><div class=\"badge\">{}</div><p>{}</p>",
                       card.measured ? name(card.severity) : "none", esc(card.title), esc(card.word), esc(card.text));
      std::string lines;
      for (const auto& [label, text] : card.lines) lines += formatted("<dt>{}</dt><dd>{}</dd>", esc(label), esc(text));
      if (!lines.empty()) out += "<dl>" + lines + "</dl>";
      out += "</section>";
    }
    return out + "</div>";
  }
};

std::string block_html(const Block& block) {
  std::string out = formatted("<section class=\"card\"><h3>{}{}</h3>", esc(block.title),
                              block.aside.empty() ? "" : "<small>" + esc(block.aside) + "</small>");
  for (const Element& element : block.elements) out += std::visit(Drawer(), element);
  return out + "</section>\n";
}

}  // namespace

std::string summary_html(const Snapshot& s, const TextOptions&) {
  const Page page = build_page(s, kHtmlPage);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
  out += "<title>" + esc(page.verdict.name + " · " + page.run_name) + "</title><style>" + html_style() +
         "</style></head>\n<body><main>\n";
  out += "<header><span class=\"brand\">stepscope</span><h1>" + esc(page.run_name) + "</h1>" +
         phrases(page.run, page.ended_badly ? "alert" : "soft") + "</header>\n";
  out += verdict_html(page.verdict);
  for (const Block& block : page.blocks) out += block_html(block);
  out += "<footer>";
  if (!page.command.empty()) out += "<p><code>" + esc(page.command) + "</code></p>";
  return out + phrases(page.versions) + "</footer>\n</main></body></html>\n";
}

}  // namespace stepscope
