#include "store/rebuild.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace stepscope {
namespace {

constexpr size_t kRowsPerLook = 64;          // the engine judges after so many
constexpr uint32_t kMaxCollectives = 65536;  // per step and rank
constexpr size_t kMaxLivesPerRank = 64;      // of merged files: one an attempt

int64_t ns(float ms) { return std::isfinite(ms) ? std::llround(static_cast<double>(ms) * 1e6) : 0; }

LedgerNs own_of(const LedgerMs& ms) {
  LedgerNs own{};
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (!is_of_stalls(static_cast<Category>(c))) own[c] = ns(ms[c]);
  return own;
}

int64_t sum(const LedgerNs& ledger) {
  int64_t all = 0;
  for (int64_t part : ledger) all += part;
  return all;
}

// The stalls at the end of the own time.
template <class Timeline>
void fill(Timeline& line, const LedgerMs& ms, const std::vector<CellStall>& stalls, int64_t begin_ns) {
  line.own = own_of(ms);
  line.segments = {line.own};
  int64_t at_ns = begin_ns + sum(line.own);
  for (const CellStall& stall : stalls) {
    line.stalls.push_back({stall.group, stall.sequence, at_ns, ns(stall.stall_ms), stall.phase});
    line.segments.emplace_back();
    at_ns += ns(stall.stall_ms);
  }
}

RankStep step_of(const StepRow& row, const Cell& cell) {
  RankStep step;
  set_facts(step, cell);
  step.step = row.step;
  step.end_ns = cell.end_ns;
  step.begin_ns = cell.end_ns - ns(cell.host_wall_ms);
  const float host_stall_ms = cell.host_ms[index(Category::kCommTransfer)] + cell.host_ms[index(Category::kUnresolved)];
  std::vector<CellStall> host_stalls;
  if (cell.gpu && host_stall_ms > 0) host_stalls.push_back({0, 0, host_stall_ms, 0, Category::kBackward});
  fill(step, cell.gpu ? cell.host_ms : cell.ms, cell.gpu ? host_stalls : cell.stalls, step.begin_ns);
  if (cell.gpu) {
    GpuStep gpu;
    gpu.begin_ns = step.begin_ns;
    gpu.wall_ns = ns(cell.wall_ms);
    gpu.host_bound = cell.host_bound;
    for (Category c : kLaunchPhases) gpu.launching[index(c)] = ns(cell.launching_ms[index(c)]);
    fill(gpu, cell.ms, cell.stalls, gpu.begin_ns);
    step.gpu = std::move(gpu);
  }
  return step;
}

// As many issues as there were, with the bytes spread evenly.
void add_collectives(RankStep& step, const Cell& cell) {
  const uint32_t count = std::min(cell.collectives, kMaxCollectives), small = std::min(cell.small_collectives, count);
  for (uint32_t i = 0; i < count; ++i) {
    CollectiveIssue issue;
    issue.sequence = i;
    if (i >= small) {
      issue.bytes = static_cast<uint64_t>(
          std::clamp(cell.bytes / std::max(1u, count - small), double{kSmallCollectiveBytes} + 1, 1e15));
    }
    step.collectives.push_back(issue);
  }
}

// The rows of a run go through one engine, attempt after attempt, as they did live.
class Replay {
 public:
  Replay(const std::vector<RankLife>& lives, const std::vector<StoredGroup>& groups, EngineOptions options)
      : groups_(groups), engine_(std::move(options)) {
    for (const RankLife& life : lives) attempts_[life.attempt][life.rank] = life;
    attempts_.try_emplace(0);
  }

  void feed(int32_t attempt, const StepRow& row) {
    attempts_.try_emplace(attempt);
    begin_until(attempt);
    // Rows count through the run, lives and what the engine is fed within the attempt.
    if (!base_) base_ = row.step >= before_ ? before_ : 0;
    feed(attempt, row.step - std::min(row.step, *base_), row);
  }

  // `number`: of the step within the attempt.
  void feed(int32_t attempt, uint64_t number, const StepRow& row) {
    attempts_.try_emplace(attempt);
    begin_until(attempt);
    for (const auto& [rank, life] : lives())
      if (life.ended && number >= life.steps && told_.insert(rank).second) engine_.set_life(rank, life);
    for (const Cell& cell : row.cells) {
      RankStep step = rank_step_of(row, cell);
      step.step = number;
      engine_.feed(cell.rank, std::move(step));
    }
    if (++rows_ % kRowsPerLook == 0) engine_.evaluate();
  }

  // Attempts without a step have lives only.
  void finish() {
    begin_until(attempts_.rbegin()->first);
    tell_lives();
    engine_.finish();
  }

  // Called before the rows of every attempt but the first.
  void on_attempt(std::function<void(int32_t)> tell) { on_attempt_ = std::move(tell); }
  Engine& engine() { return engine_; }
  const std::map<int, RankLife>& lives() const { return attempts_.at(attempt_); }

 private:
  void begin_until(int32_t attempt) {
    for (const auto& [number, lives] : attempts_)
      if (number > attempt_ && number <= attempt) begin(number);
  }

  void begin(int32_t attempt) {
    if (attempt_ >= 0) {
      tell_lives();
      PastRanks past{.remark = attempt_remark(attempt_), .first_step = before_};
      for (const auto& [rank, life] : lives()) past.lives.push_back(life);
      engine_.part_with(past);
      int world = 0;
      for (const auto& [rank, life] : attempts_.at(attempt)) world = std::max(world, life.world_size);
      engine_.begin_attempt(world);
      before_ = engine_.closed_steps();
      if (on_attempt_) on_attempt_(attempt);
    }
    attempt_ = attempt;
    base_.reset();
    told_.clear();
    for (const auto& [rank, life] : lives()) engine_.announce(rank, life.world_size);
    for (const StoredGroup& group : groups_)
      if (group.attempt == attempt) engine_.set_group(group.id, group.description, group.ranks);
  }

  void tell_lives() {
    for (const auto& [rank, life] : lives()) engine_.set_life(rank, life);
  }

  const std::vector<StoredGroup>& groups_;
  std::map<int32_t, std::map<int, RankLife>> attempts_;  // lives by attempt and rank
  Engine engine_;
  int32_t attempt_ = -1;
  uint64_t before_ = 0;           // steps of the run that were closed before the attempt
  std::optional<uint64_t> base_;  // what its rows count from
  std::set<int> told_;
  std::function<void(int32_t)> on_attempt_;
  size_t rows_ = 0;
};

// Of all steps, where the engine has seen only those that were kept.
std::vector<RankTotals> totals_of(const StoredSums& sums, const std::map<int, RankLife>& lives) {
  std::vector<RankTotals> out;
  for (size_t r = 0; r < sums.ranks.size(); ++r) {
    const StoredSums::Rank& sum = sums.ranks[r];
    RankTotals rank{.rank = static_cast<int>(r), .steps = sum.steps, .ms = sum.ms, .steps_wall_ms = sum.host_wall_ms};
    const auto life = lives.find(rank.rank);
    for (size_t c = 0; c < kCategoryCount; ++c) {
      rank.ledger[c] = std::llround(sum.host_ms[c] * 1e6);
      if (life != lives.end()) rank.ledger[c] += life->second.startup[c] + life->second.teardown[c];
    }
    out.push_back(rank);
  }
  return out;
}

RunContext context_of(const StoredRun& run, const std::vector<RankLife>& lives, const std::map<int, RankLife>& newest) {
  RunContext context;
  RunInfo& info = context.run;
  info.name = run.name, info.started_at = run.started_at, info.status = run.status;
  info.command = run.command;
  info.duration_s = run.duration_s;
  info.nodes = run.nodes, info.attempts = std::max(1, run.attempts);
  info.world_size = run.world_size;
  if (run.exit_code >= 0) info.exit_code = run.exit_code;
  info.versions.insert(run.versions.begin(), run.versions.end());
  int64_t last_ns = 0;
  for (const RankLife& life : lives) last_ns = std::max({last_ns, life.end_ns, life.last_step_ns});
  if (info.duration_s <= 0 && last_ns > run.start_ns)
    info.duration_s = static_cast<double>(last_ns - run.start_ns) * 1e-9;
  for (const auto& [rank, life] : newest) {
    context.observer.records += life.records;
    context.observer.lost += life.lost;
    context.observer.torn += life.torn;
  }
  return context;
}

constexpr const char* kThinned = "older steps were thinned out: medians rest on a sample of them, ledgers on all";

}  // namespace

RankStep rank_step_of(const StepRow& row, const Cell& cell) {
  RankStep step = step_of(row, cell);
  add_collectives(step, cell);
  return step;
}

Result<Snapshot> rebuild_snapshot(RunReader& reader, const RebuildOptions& options) {
  const auto run = reader.run();
  auto lives = reader.lives();
  const auto groups = reader.groups();
  const auto ranks = reader.ranks();
  if (!run) return std::unexpected(run.error());
  if (!lives) return std::unexpected(lives.error());
  if (!groups) return std::unexpected(groups.error());
  if (!ranks) return std::unexpected(ranks.error());
  if (*ranks > options.max_ranks) return fail("run file: too many ranks to be judged again: " + std::to_string(*ranks));
  if (lives->size() > options.max_ranks) lives->resize(options.max_ranks);
  Replay replay(*lives, *groups, options.engine);
  bool thinned = false;
  const Status status = reader.for_each_row({}, [&](const StoredRow& row) {
    thinned = thinned || row.stride > 1;
    replay.feed(row.attempt, row.row);
    return true;
  });
  if (!status) return std::unexpected(status.error());
  replay.finish();
  RunContext context = context_of(*run, *lives, replay.lives());
  if (thinned) {
    const auto sums = reader.sums();
    if (!sums) return std::unexpected(sums.error());
    context.totals = totals_of(*sums, replay.lives());
    context.note(kThinned);
  }
  context.note("worked out again from the run file");
  if (reader.damaged())
    context.note(std::to_string(reader.damaged()) + " pieces of the run file are damaged: " + reader.damage());
  return assemble(replay.engine(), context);
}

Result<Snapshot> rebuild_merged(RunMerge& merge, const RebuildOptions& options, const MergedSink& sink) {
  if (merge.ranks() > options.max_ranks || merge.lives().size() > size_t{options.max_ranks} * kMaxLivesPerRank)
    return fail("too many ranks to be judged together: " + std::to_string(merge.ranks()));
  Replay replay(merge.lives(), merge.groups(), options.engine);
  replay.on_attempt(sink.attempt);
  if (sink.row) replay.engine().set_row_sink(sink.row);
  const Status status = merge.for_each_row([&](const MergedRow& row) {
    replay.feed(row.stored.attempt, row.number, row.stored.row);
    return true;
  });
  if (!status) return std::unexpected(status.error());
  replay.finish();
  RunContext context = context_of(merge.run(), merge.lives(), replay.lives());
  if (merge.thinned()) {
    const auto sums = merge.sums();
    if (!sums) return std::unexpected(sums.error());
    context.totals = totals_of(*sums, replay.lives());
    context.note(kThinned);
  }
  for (const std::string& note : merge.notes()) context.note(note);
  return assemble(replay.engine(), context);
}

}  // namespace stepscope
