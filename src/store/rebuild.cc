#include "store/rebuild.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace stepscope {
namespace {

constexpr size_t kRowsPerLook = 64;          // the engine judges after so many
constexpr uint32_t kMaxCollectives = 65536;  // per step and rank

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

bool outlives_attempt(const Finding& f) { return has(f.kind.id(), kOutlivesAttempt); }

class AttemptReplay {
 public:
  AttemptReplay(int32_t attempt, const std::vector<RankLife>& lives, const std::vector<StoredGroup>& groups,
                EngineOptions options)
      : attempt_(attempt), engine_(std::move(options)) {
    for (const RankLife& life : lives)
      if (life.attempt == attempt) lives_[life.rank] = life, engine_.announce(life.rank, life.world_size);
    for (const StoredGroup& group : groups)
      if (group.attempt == attempt) engine_.set_group(group.id, group.description, group.ranks);
  }

  void feed(const StepRow& row) {
    for (const auto& [rank, life] : lives_) {
      if (life.ended && row.step >= life.steps && told_.insert(rank).second) engine_.set_life(rank, life);
    }
    for (const Cell& cell : row.cells) engine_.feed(cell.rank, rank_step_of(row, cell));
    if (++rows_ % kRowsPerLook == 0) engine_.evaluate();
  }

  Snapshot finish(const std::vector<Finding>& earlier) {
    for (const Finding& finding : earlier) engine_.add_external(finding);
    for (const auto& [rank, life] : lives_) engine_.set_life(rank, life);
    engine_.finish();
    return engine_.snapshot();
  }

  int32_t attempt() const { return attempt_; }

 private:
  int32_t attempt_;
  Engine engine_;
  std::map<int, RankLife> lives_;
  std::set<int> told_;
  size_t rows_ = 0;
};

// Ledgers over all steps, where the engine has seen only those that were kept.
void use_exact_sums(Snapshot& snapshot, const StoredSums& sums, const std::vector<RankLife>& lives, int32_t attempt) {
  LedgerNs job{};
  double seen = 0;
  for (const StoredSums::Rank& rank : sums.ranks) seen += rank.steps > 0;
  for (RankStat& stat : snapshot.ranks) {
    if (stat.rank < 0 || static_cast<size_t>(stat.rank) >= sums.ranks.size()) continue;
    const StoredSums::Rank& rank = sums.ranks[static_cast<size_t>(stat.rank)];
    int64_t wall_ns = 0;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      stat.ledger[c] = std::llround(rank.host_ms[c] * 1e6);
      if (rank.steps > 0) job[c] += std::llround(rank.ms[c] * 1e6 / seen);
    }
    for (const RankLife& life : lives)
      if (life.attempt == attempt && life.rank == stat.rank)
        for (size_t c = 0; c < kCategoryCount; ++c) stat.ledger[c] += life.startup[c] + life.teardown[c];
    for (int64_t part : stat.ledger) wall_ns += part;
    stat.process_wall_ms = static_cast<double>(wall_ns) * 1e-6;
    stat.steps_wall_ms = rank.host_wall_ms;
    stat.steps = rank.steps;
  }
  snapshot.job_ledger = job;
  snapshot.observer.notes.push_back("older steps were thinned out: medians rest on a sample of them, ledgers on all");
}

void fill_run(Snapshot& snapshot, const StoredRun& run, const std::vector<RankLife>& lives) {
  RunInfo& info = snapshot.run;
  info.name = run.name, info.started_at = run.started_at, info.status = run.status;
  info.command = run.command;
  info.duration_s = run.duration_s;
  info.nodes = run.nodes, info.attempts = std::max(1, run.attempts);
  info.world_size = std::max(run.world_size, snapshot.ranks.empty() ? 0 : snapshot.ranks.back().rank + 1);
  if (run.exit_code >= 0) info.exit_code = run.exit_code;
  for (const auto& [key, text] : run.versions) info.versions[key] = text;
  int64_t last_ns = 0;
  for (const RankLife& life : lives) last_ns = std::max({last_ns, life.end_ns, life.last_step_ns});
  if (info.duration_s <= 0 && last_ns > run.start_ns)
    info.duration_s = static_cast<double>(last_ns - run.start_ns) * 1e-9;
}

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
  std::unique_ptr<AttemptReplay> now;
  std::vector<Finding> earlier;
  bool thinned = false;
  const auto begin = [&](int32_t attempt) {
    if (now && now->attempt() == attempt) return;
    if (now) {
      const Snapshot past = now->finish(earlier);
      earlier.clear();
      for (Finding finding : past.findings) {
        if (!outlives_attempt(finding)) continue;
        if (finding.title.find("(attempt ") == std::string::npos)
          finding.title += " (attempt " + std::to_string(now->attempt() + 1) + ")";
        earlier.push_back(std::move(finding));
      }
    }
    now = std::make_unique<AttemptReplay>(attempt, *lives, *groups, options.engine);
    thinned = false;
  };
  // Attempts without a step have lives only.
  std::set<int32_t> attempts{0};
  for (const RankLife& life : *lives) attempts.insert(life.attempt);
  const Status status = reader.for_each_row({}, [&](const StoredRow& row) {
    for (int32_t attempt : attempts)
      if (attempt < row.attempt && (!now || now->attempt() < attempt)) begin(attempt);
    begin(row.attempt);
    thinned = thinned || row.stride > 1;
    now->feed(row.row);
    return true;
  });
  if (!status) return std::unexpected(status.error());
  for (int32_t attempt : attempts)
    if (!now || now->attempt() < attempt) begin(attempt);
  Snapshot snapshot = now->finish(earlier);
  if (thinned) {
    const auto sums = reader.sums(now->attempt());
    if (!sums) return std::unexpected(sums.error());
    use_exact_sums(snapshot, *sums, *lives, now->attempt());
  }
  fill_run(snapshot, *run, *lives);
  snapshot.observer.notes.push_back("worked out again from the run file");
  if (reader.damaged())
    snapshot.observer.notes.push_back(std::to_string(reader.damaged()) +
                                      " pieces of the run file are damaged: " + reader.damage());
  return snapshot;
}

}  // namespace stepscope
