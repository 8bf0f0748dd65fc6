#include "serve/page_json.h"

#include <cmath>

namespace stepscope {
namespace {

using Json = nlohmann::ordered_json;

std::string_view tone_name(Tone tone) { return tone == Tone::kSoft ? "soft" : tone == Tone::kWarn ? "warn" : "plain"; }

double rounded(double value, double unit) { return std::isfinite(value) ? std::round(value / unit) * unit : 0; }

Json slice_json(const LedgerSlice& slice) {
  return {{"category", name(slice.category)},
          {"label", category_label(name(slice.category))},
          {"share", rounded(slice.share, 1e-6)}};
}

Json slices_json(const std::vector<LedgerSlice>& slices) {
  Json out = Json::array();
  for (const LedgerSlice& slice : slices) out.push_back(slice_json(slice));
  return out;
}

// One function per kind of element, so that none is forgotten.
struct ElementJson {
  Json operator()(const Phrases& p) const {
    return {{"kind", "phrases"}, {"items", p.items}, {"tone", tone_name(p.tone)}};
  }
  Json operator()(const Lines& l) const { return {{"kind", "lines"}, {"items", l.items}, {"tone", tone_name(l.tone)}}; }
  Json operator()(const Table& table) const { return table_json(table); }
  Json operator()(const LedgerChart& chart) const {
    Json parts = Json::array();
    for (const LedgerPart& part : chart.parts) {
      Json to = slice_json(part.slice);
      to["text"] = part.share, to["per_step"] = part.per_step;
      parts.push_back(std::move(to));
    }
    return {{"kind", "ledger"}, {"parts", std::move(parts)}};
  }
  Json operator()(const RankBars& ranks) const {
    Json bars = Json::array();
    for (const RankBar& bar : ranks.bars)
      bars.push_back({{"label", bar.label},
                      {"value", bar.value},
                      {"length", rounded(bar.length, 1e-4)},
                      {"culprit", bar.culprit},
                      {"slices", slices_json(bar.slices)}});
    return {{"kind", "rank_bars"}, {"bars", std::move(bars)}};
  }
  Json operator()(const StepChart& chart) const {
    Json walls = Json::array();
    for (const double ms : chart.wall_ms) walls.push_back(rounded(ms, 1e-3));
    return {{"kind", "step_chart"},
            {"first_step", chart.first_step},
            {"last_step", chart.last_step},
            {"median_ms", rounded(chart.median_ms, 1e-3)},
            {"wall_ms", std::move(walls)}};
  }
  Json operator()(const HeatMap& map) const {
    Json rows = Json::array();
    for (const HeatRow& row : map.rows) {
      Json levels = Json::array();
      for (const signed char level : row.levels) levels.push_back(static_cast<int>(level));
      rows.push_back({{"rank", row.rank}, {"levels", std::move(levels)}});
    }
    return {{"kind", "heat_map"}, {"bounds", kHeatBounds}, {"rows", std::move(rows)}};
  }
  Json operator()(const FindingList& list) const {
    Json items = Json::array();
    for (const FindingItem& item : list.items)
      items.push_back({{"severity", name(item.severity)},
                       {"name", item.name},
                       {"title", item.title},
                       {"cost", item.cost},
                       {"action", item.action}});
    return {{"kind", "findings"}, {"items", std::move(items)}};
  }
  Json operator()(const Cards& cards) const {
    Json out = Json::array();
    for (const Card& card : cards.cards) {
      Json lines = Json::array();
      for (const auto& [label, text] : card.lines) lines.push_back({{"label", label}, {"text", text}});
      out.push_back({{"title", card.title},
                     {"word", card.word},
                     {"text", card.text},
                     {"severity", name(card.severity)},
                     {"measured", card.measured},
                     {"lines", std::move(lines)}});
    }
    return {{"kind", "cards"}, {"cards", std::move(out)}};
  }
};

}  // namespace

Json verdict_json(const Verdict& v) {
  Json facts = Json::array();
  for (const Fact& f : v.facts)
    facts.push_back({{"label", f.label}, {"who", f.who}, {"value", f.value}, {"others", f.others}});
  return {{"name", v.name},         {"severity", name(v.severity)},
          {"headline", v.headline}, {"facts", std::move(facts)},
          {"context", v.context},   {"cost", v.cost},
          {"saves", v.saves},       {"action", v.action},
          {"explain", v.explain}};
}

Json table_json(const Table& table) {
  Json columns = Json::array(), rows = Json::array();
  for (const Column& c : table.columns)
    columns.push_back({{"title", c.title}, {"unit", c.unit}, {"right", c.right}, {"priority", c.priority}});
  for (const Row& row : table.rows) {
    const char* mark = row.mark == RowMark::kStrong ? "strong" : row.mark == RowMark::kCulprit ? "culprit" : "";
    rows.push_back({{"cells", row.cells}, {"mark", mark}});
  }
  return {{"kind", "table"}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

Json page_json(const Page& page) {
  Json blocks = Json::array();
  for (const Block& block : page.blocks) {
    Json elements = Json::array();
    for (const Element& element : block.elements) elements.push_back(std::visit(ElementJson(), element));
    blocks.push_back({{"title", block.title}, {"aside", block.aside}, {"elements", std::move(elements)}});
  }
  return {{"run_name", page.run_name},       {"run", page.run},
          {"ended_badly", page.ended_badly}, {"verdict", verdict_json(page.verdict)},
          {"blocks", std::move(blocks)},     {"command", page.command},
          {"versions", page.versions}};
}

}  // namespace stepscope
