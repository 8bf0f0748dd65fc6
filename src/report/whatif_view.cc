#include "report/whatif_view.h"

#include <algorithm>

#include "base/text_format.h"
#include "replay/cause.h"
#include "report/figures.h"
#include "report/json_write.h"
#include "report/text_page.h"

namespace stepscope {
namespace {

using replay::Cause;
using replay::Slowdown;
using replay::Straggling;

constexpr size_t kWorkersShown = 5;
constexpr double kClockDoubtS = 1e-3;  // self-test and splits: what float32 seconds cannot explain

std::string title(Straggling straggling) {
  return straggling == Straggling::kClear    ? "STRAGGLING"
         : straggling == Straggling::kSlight ? "SLIGHT STRAGGLING"
                                             : "NO STRAGGLING";
}

Ink style_of(Straggling straggling) {
  return straggling == Straggling::kClear ? ink::kRed : straggling == Straggling::kSlight ? ink::kYellow : ink::kGreen;
}

std::vector<int> ranks_of(const std::vector<replay::WorkerFigure>& workers) {
  std::vector<int> ranks;
  for (const auto& worker : workers) ranks.push_back(worker.rank);
  std::ranges::sort(ranks);
  return ranks;
}

std::string cause_sentence(const replay::Verdict& verdict, const replay::Verdict::Named& named, int stages) {
  const std::string gain = named.share >= 0.995 ? "would give back all of the loss"
                                                : formatted("would give back {:.0f} % of the loss", named.share * 100);
  switch (named.cause) {
    case Cause::kSlowWorkers: {
      const auto& worker = verdict.slow_workers.front();
      const std::string place =
          verdict.slow_workers.size() == 1 ? formatted(" (stage {}, dp rank {})", worker.stage, worker.dp_rank) : "";
      return formatted("Slow {}{}: average speed there {}.", format_ranks(ranks_of(verdict.slow_workers)), place, gain);
    }
    case Cause::kLongLastStage:
      return formatted("The last stage ({}) is too long: average work there {}.", stages - 1, gain);
    case Cause::kUnevenMicrobatches:
      return formatted("Microbatches differ on the same worker: equal ones {}. Look at sequence lengths.", gain);
    case Cause::kSlowCommunication: return formatted("Communication: average transfers everywhere {}.", gain);
  }
  return "";
}

std::vector<std::string> sentences(const Slowdown& s, const replay::Verdict& verdict) {
  std::vector<std::string> out;
  if (verdict.straggling == Straggling::kNone) {
    return {formatted("Steps take {} and would take {} without stragglers ({:+.1f} %).", format_seconds(s.replayed_s),
                      format_seconds(s.ideal_s), (s.slowdown - 1) * 100)};
  }
  out.push_back(formatted("Steps take {:.2f} times as long as without stragglers: {} instead of {}.", s.slowdown,
                          format_seconds(s.replayed_s), format_seconds(s.ideal_s)));
  for (const replay::Verdict::Named& named : verdict.causes)
    out.push_back(cause_sentence(verdict, named, static_cast<int>(s.by_stage.size())));
  if (verdict.worker_or_stage)
    out.push_back("With one dp rank a slow worker and a stage that is too long look the same.");
  if (verdict.causes.empty()) {
    out.push_back(
        "Cause unknown: neither a few workers, the last stage, uneven microbatches nor communication give back half of "
        "it. "
        "The figures below say where the delay is.");
  }
  std::string carriers = formatted("The delay is carried by {} ({:.2f})", s.by_type[0].name, s.by_type[0].slowdown);
  if (s.by_type.size() > 1 && s.by_type[1].slowdown >= 1.03)
    carriers += formatted(", then {} ({:.2f})", s.by_type[1].name, s.by_type[1].slowdown);
  out.push_back(carriers + ".");
  return out;
}

std::vector<std::string> warnings(const Slowdown& s) {
  std::vector<std::string> out;
  if (s.impossible_splits > 0) {
    out.push_back(
        formatted("{} of {} operations end before their peers have begun ({} by {:.1f} ms): their work was set to 0. "
                  "The clocks of the "
                  "ranks disagree, or the log is wrong.",
                  s.impossible_splits, s.operations, s.worst_split, -s.least_split_s * 1e3));
  } else if (s.least_split_s < -kClockDoubtS) {
    out.push_back(
        formatted("The clocks of the ranks disagree by up to {:.1f} ms ({}).", -s.least_split_s * 1e3, s.worst_split));
  }
  if (s.closure_error_s > kClockDoubtS) {
    out.push_back(
        formatted("Replaying the recorded gaps misses the recorded times by up to {:.1f} ms: operations begin before "
                  "what they wait for.",
                  s.closure_error_s * 1e3));
  }
  return out;
}

RowMark first_strong(const Table& table) { return table.rows.empty() ? RowMark::kStrong : RowMark::kNone; }

std::string slowdown_cell(double slowdown) { return formatted("{:.4f}", slowdown); }

void group_table(TextPage& page, const std::string& heading, const std::vector<replay::GroupFigure>& groups) {
  page.heading(heading, "everything else ideal");
  Table table{{{.title = "", .right = false, .least_width = 28}, {.title = "Slowdown", .least_width = 9}}, {}};
  for (const auto& group : groups) table.add({group.name, slowdown_cell(group.slowdown)}, first_strong(table));
  page.table(table);
}

void worker_table(TextPage& page, const Slowdown& s) {
  page.heading("Slowest workers", formatted("{} of {}", std::min(kWorkersShown, s.workers.size()), s.workers.size()));
  Table table{{{.title = "Rank", .least_width = 6},
               {.title = "Stage"},
               {.title = "dp rank"},
               {.title = "Slowdown", .least_width = 9}},
              {}};
  for (size_t i = 0; i < std::min(kWorkersShown, s.workers.size()); ++i) {
    const auto& worker = s.workers[i];
    table.add({std::to_string(worker.rank), std::to_string(worker.stage), std::to_string(worker.dp_rank),
               slowdown_cell(worker.slowdown)},
              first_strong(table));
  }
  page.table(table);
}

void share_table(TextPage& page, const Slowdown& s) {
  page.heading("Given back by", "share of the loss");
  Table table{{{.title = "", .right = false, .least_width = 28}, {.title = "Share", .least_width = 9}}, {}};
  const std::pair<std::string, std::optional<double>> shares[] = {
      {formatted("slowest workers ({})", s.slowest_count), s.shares.slowest_workers},
      {"last stage", s.shares.last_stage},
      {"even microbatches", s.shares.microbatches},
      {"communication", s.shares.communication}};
  for (const auto& [what, share] : shares)
    table.add({what, share ? formatted("{:.4f}", *share) : std::string(kNotMeasured)}, first_strong(table));
  page.table(table);
}

OrderedJson groups_json(const std::vector<replay::GroupFigure>& groups) {
  OrderedJson out = OrderedJson::array();
  for (const auto& group : groups) {
    OrderedJson by_step = OrderedJson::array();
    for (const double slowdown : group.by_step) by_step.push_back(json_number(slowdown));
    out.push_back({{"name", group.name}, {"slowdown", json_number(group.slowdown)}, {"by_step", std::move(by_step)}});
  }
  return out;
}

OrderedJson verdict_json(const Slowdown& s, const replay::Verdict& verdict) {
  OrderedJson causes = OrderedJson::array();
  for (const auto& [cause, share] : verdict.causes) {
    OrderedJson entry = {{"cause", std::string(name(cause))}, {"share", json_number(share)}};
    if (cause == Cause::kSlowWorkers) entry["ranks"] = ranks_of(verdict.slow_workers);
    if (cause == Cause::kLongLastStage) entry["stage"] = s.by_stage.size() - 1;
    causes.push_back(std::move(entry));
  }
  return {{"straggling", std::string(name(verdict.straggling))},
          {"causes", std::move(causes)},
          {"worker_or_stage", verdict.worker_or_stage},
          {"sentences", sentences(s, verdict)},
          {"warnings", warnings(s)}};
}

}  // namespace

std::string whatif_text(const Slowdown& s, const std::string& trace, const TextOptions& options) {
  const replay::Verdict verdict = replay::judge_cause(s);
  TextPage page(static_cast<size_t>(std::clamp(options.columns, 60, 400)));
  page.line({{"stepscope whatif", ink::kBold}, {"  " + trace}});
  page.rule();
  page.blank();
  page.line({{"  " + title(verdict.straggling), style_of(verdict.straggling)}});
  for (const std::string& sentence : sentences(s, verdict)) page.paragraph("", sentence, 2);
  const auto [least, most] = std::ranges::minmax(s.steps, {}, &replay::StepFigure::slowdown);
  page.paragraph(
      "",
      formatted("{} step{}, {} operations; single steps {:.2f} to {:.2f}. Gaps between operations add {:.1f} %.",
                s.steps.size(), s.steps.size() == 1 ? "" : "s", format_count(s.operations), least.slowdown,
                most.slowdown, (s.launch - 1) * 100),
      2, ink::kDim);
  for (const std::string& warning : warnings(s)) page.paragraph("", warning, 2, ink::kYellow);
  share_table(page, s);
  group_table(page, "By type of operation", s.by_type);
  group_table(page, "By stage", s.by_stage);
  group_table(page, "By data-parallel rank", s.by_dp_rank);
  worker_table(page, s);
  return page.text(options.color);
}

std::string whatif_json(const Slowdown& s, const std::string& trace) {
  OrderedJson workers = OrderedJson::array(), steps = OrderedJson::array(), ideal = OrderedJson::object();
  for (const auto& worker : s.workers) {
    workers.push_back({{"rank", worker.rank},
                       {"stage", worker.stage},
                       {"dp_rank", worker.dp_rank},
                       {"slowdown", json_number(worker.slowdown)}});
  }
  for (const auto& step : s.steps) {
    steps.push_back({{"step", step.step},
                     {"recorded_s", json_number(step.recorded_s)},
                     {"replayed_s", json_number(step.replayed_s)},
                     {"slowdown", json_number(step.slowdown)}});
  }
  for (size_t type = 0; type < replay::kOpTypes; ++type) {
    if (const auto value = s.ideal_s_by_type[type])
      ideal[std::string(name(static_cast<replay::OpType>(type)))] = json_number(*value * 1e3);
  }
  OrderedJson out;
  out["schema_version"] = "1.0";
  out["trace"] = trace;
  out["verdict"] = verdict_json(s, replay::judge_cause(s));
  out["recorded_step_s"] = json_number(s.recorded_s);
  out["replayed_step_s"] = json_number(s.replayed_s);
  out["ideal_step_s"] = json_number(s.ideal_s);
  out["slowdown"] = json_number(s.slowdown);
  out["launch_slowdown"] = json_number(s.launch);
  out["shares"] = OrderedJson{{"slowest_workers", json_number(s.shares.slowest_workers)},
                              {"last_stage", json_number(s.shares.last_stage)},
                              {"microbatches", json_number(s.shares.microbatches)},
                              {"communication", json_number(s.shares.communication)}};
  out["by_type"] = groups_json(s.by_type);
  out["by_stage"] = groups_json(s.by_stage);
  out["by_dp_rank"] = groups_json(s.by_dp_rank);
  out["workers"] = std::move(workers);
  out["steps"] = std::move(steps);
  out["ideal_ms"] = std::move(ideal);
  out["operations"] = s.operations;
  out["impossible_splits"] = s.impossible_splits;
  out["least_split_ms"] = json_number(s.least_split_s * 1e3);
  out["closure_error_ms"] = json_number(s.closure_error_s * 1e3);
  return json_layout(out);
}

}  // namespace stepscope
