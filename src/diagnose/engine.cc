#include "diagnose/engine.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "align/step_table.h"
#include "analyze/attribution.h"
#include "analyze/epochs.h"
#include "analyze/late_leaving.h"
#include "analyze/run_sums.h"
#include "analyze/stopped.h"
#include "diagnose/finding_book.h"
#include "diagnose/hang.h"
#include "diagnose/health.h"
#include "diagnose/input_queue.h"
#include "diagnose/logging_line.h"
#include "diagnose/rule.h"
#include "diagnose/snapshot_tables.h"

namespace stepscope {

namespace {

constexpr uint32_t kNoBaseline =
    kTagCompile | kTagCheckpoint | kTagValidation | kTagEpochStart | kTagProvisional | kTagLossy;
constexpr size_t kHistoryRows = 384;  // of the whole run: enough for the shape of a growth
constexpr uint32_t kRarelyStride = 4;
// Of recorded time between two evaluations, at least: one costs some 0.2 ms per rank, and short steps would ask for
// many.
constexpr int64_t kPauseNs = 100'000'000, kPausePerRankNs = 20'000'000;
constexpr int64_t kFewRanks = 64, kPausePerMoreNs = 2'000'000;
constexpr size_t kMaxStoppedMoments = 64;
constexpr int64_t kLookNs = 1'000'000'000;
constexpr int kMostRanks = 1 << 20;
constexpr uint32_t kWideEvery = 2;  // evaluations; what shows in the newest steps alone is seen in each
constexpr size_t kLiveRows = 96;    // the newest steps that live rules about shares and pauses look at

}  // namespace

struct Engine::Impl {
  Thresholds limits;
  Numerics numerics;
  LateLeaving late_leaving;
  StepTable table;
  RunSums sums;
  Epochs epochs;
  std::map<int, RankLife> lives;
  std::map<int, DeviceRoom> rooms;
  std::map<std::string, HostLoad> loads;
  std::map<int, std::deque<int64_t>> stopped;  // by rank: when it was seen so, the newest
  Groups groups;
  FindingBook book;
  std::vector<Finding> findings, external;
  std::optional<Finding> hang, fallen;
  CodeSamples code;
  std::vector<Section> sections;
  std::vector<Finding> wide_said, rarely_said;  // newest, asked for more rarely than the rest
  uint32_t evaluations = 0;
  uint64_t judged_steps = 0, looked_at_steps = 0, rarely_due = 0, offset = 0;
  int64_t now_ns = 0, looked_ns = 0;  // as tick() told; when it last looked for steps that do not end
  bool still = false;                 // there was one
  int64_t interrupted_ns = 0,
          judged_end_ns = std::numeric_limits<int64_t>::min() / 2;  // end of the newest row that was judged
  bool over = false;
  double flops_per_step = 0, peak_flops = 0;
  std::optional<UnhookedProcess> unhooked;
  std::optional<RankLife> failed_command;
  std::set<std::string> silenced;
  std::vector<std::string> notes;
  std::vector<ChangedThreshold> changed;
  std::function<void(const StepRow&)> row_sink;

  static Numerics::Limits numeric_limits(const Thresholds& t) {
    const auto count = [](double number) { return static_cast<size_t>(number); };
    return {.skipped_share = t.skipped_steps_share,
            .skipped_after = count(t.skipped_first_steps),
            .spikes = {.least_blocks = count(t.spike_min_steps) / SpikeTrack::kBlock,
                       .spreads = t.spike_min_spreads,
                       .over_highest = t.spike_over_highest,
                       .least_factor = t.spike_min_factor},
            .replicas = {.learned_steps = count(t.replica_learned_steps),
                         .equal_share = t.replica_equal_share,
                         .different_share = t.replica_different_share,
                         .lasting_steps = count(t.replica_lasting_steps)}};
  }

  explicit Impl(const EngineOptions& options)
      : limits(Thresholds::with(options.thresholds)),
        numerics(numeric_limits(limits)),
        table([this](StepRow& row) { on_close(row); }, [this](StepRow& row, Cell& cell) { on_late(row, cell); }) {
    for (const auto& [name, value] : options.thresholds) {
      const auto known = check_threshold(name, value);
      if (!known)
        notes.push_back(known.error().message);
      else if (value != (*known)->standard)
        changed.push_back({std::string((*known)->name), value, (*known)->standard});
    }
    flops_per_step = options.flops_per_step;
    peak_flops = options.peak_flops;
    for (const std::string& cause : options.silence) {
      if (cause != "all" && !allows(FindingKind::kAdvice, CauseWord::parsed(cause).id()))
        notes.push_back("no advice is called '" + cause + "' (docs/findings/advice.md lists them)");
      silenced.insert(cause);
    }
    for (int rank = 0; rank < options.world_size; ++rank) table.await(rank);
  }

  static bool stood_still(const StepRow& row, int rank, const std::deque<int64_t>& moments) {
    const Cell* found = row.find(rank);
    if (!found) return false;
    const Cell& cell = *found;
    const int64_t begin_ns = cell.end_ns - static_cast<int64_t>(1e6 * cell.wall_ms);
    return std::any_of(moments.begin(), moments.end(), [&](int64_t at) { return at > begin_ns && at <= cell.end_ns; });
  }

  // Ranks of the job, as its processes say.
  static int world_of(const std::map<int, RankLife>& lives) {
    int most = 0;
    for (const auto& [rank, life] : lives) most = std::max({most, std::min(life.world_size, kMostRanks), rank + 1});
    return most;
  }
  int world() const {
    const int most = world_of(lives);
    return most > 0 ? most : table.ranks();
  }

  void look_who_was_seen(RuleInput& in) const {
    in.seen = in.with_warmup.seen();
    std::set<int> ever(in.seen.begin(), in.seen.end());
    for (const auto& [rank, life] : lives)
      if (life.steps > 0) ever.insert(rank);
    in.ever_seen = static_cast<int>(ever.size());
    in.world = world();
  }

  void on_close(StepRow& row) {
    late_leaving.settle(row);
    attribute(row, groups, world());
    for (const auto& [rank, moments] : stopped)
      if (stood_still(row, rank, moments)) charge_stopped(row, rank);
    sums.add(row);
    epochs.add(row);
    numerics.add(row);
    if (row_sink) row_sink(row);
  }

  // What a late rank waited for is not worked out again, and nobody is charged with it.
  void on_late(StepRow& row, Cell& cell) {
    cell.ms[index(Category::kUnresolved)] += cell.stall_ms;
    for (CellStall& stall : cell.stalls) stall.unresolved_ms = stall.stall_ms;
    sums.add_late(row, cell);
  }

  RuleInput input(const Rows& scope) const {
    RuleInput in;
    in.limits = &limits;
    in.over = over;
    in.now_ns = now_ns;
    in.interrupted_ns = interrupted_ns;
    in.ranks = table.ranks();
    in.with_warmup = without(scope, kTagProvisional);
    const auto warmup = static_cast<uint32_t>(limits.warmup_steps);
    for (size_t i = 0; i < in.with_warmup.size(); ++i)
      if (in.with_warmup.rows[i]->step >= warmup) in.rows.add(*in.with_warmup.rows[i], in.with_warmup.weights[i]);
    in.baseline = without(in.rows, kNoBaseline);
    in.steps_closed = table.closed();
    in.run_wall_ms = sums.wall_ms;
    in.coverage = table.cells_expected()
                      ? static_cast<double>(table.cells_seen()) / static_cast<double>(table.cells_expected())
                      : 0;
    for (const auto& [rank, life] : lives) {
      in.records += life.records;
      in.lost += life.lost;
      in.torn += life.torn;
    }
    look_who_was_seen(in);
    in.lives = &lives;
    in.groups = &groups;
    in.numerics = &numerics;
    in.silenced = &silenced;
    in.rooms = &rooms;
    in.loads = &loads;
    in.code = &code;
    if (unhooked) in.unhooked = &*unhooked;
    if (failed_command) in.failed_command = &*failed_command;
    return in;
  }

  RuleInput history() const {
    RuleInput in = input(thinned(all_rows(table), kHistoryRows));
    in.memory = memory_of_ranks(in);
    return in;
  }

  int64_t newest_end_ns() const {
    int64_t end_ns = 0;
    if (!table.recent().empty())
      for (const Cell& cell : table.recent().back().cells) end_ns = std::max(end_ns, cell.end_ns);
    return end_ns;
  }

  // Live evaluation is dense at first and sparser later; always by step counts and recorded times, so that a replay
  // says the same.
  uint32_t stride() const { return static_cast<uint32_t>(std::clamp<uint64_t>(table.closed() / 64, 1, 4)); }
  // What an evaluation costs grows with the ranks; so does the recorded time between two of them.
  int64_t pause_ns() const {
    const auto ranks = static_cast<int64_t>(table.seen().size());
    return kPauseNs + kPausePerRankNs * std::min(ranks, kFewRanks) +
           kPausePerMoreNs * std::max<int64_t>(0, ranks - kFewRanks);
  }

  // What one window says and a narrower one does not.
  static void add_missing(std::vector<Finding>& said, const std::vector<Finding>& more) {
    for (const Finding& f : more) {
      const bool twice = std::any_of(said.begin(), said.end(),
                                     [&](const Finding& s) { return s.kind == f.kind && s.ranks == f.ranks; });
      if (!twice) said.push_back(f);
    }
  }

  void evaluate_rows() {
    const uint64_t closed = table.closed();
    if (closed == 0 || closed == looked_at_steps || closed < judged_steps + stride()) return;
    looked_at_steps = closed;  // the newest row's end takes a look at all its cells
    const int64_t since_ns = newest_end_ns() - judged_end_ns;
    if (since_ns >= 0 && since_ns < pause_ns()) return;
    judged_end_ns += since_ns;
    still = false;
    judge_newest();
  }

  void judge_newest() {
    const uint64_t closed = table.closed();
    judged_steps = closed;
    const auto newest = static_cast<size_t>(limits.straggler_live_steps + limits.warmup_steps);
    std::vector<Finding> said = ask(kNewest, input(newest_rows(table, newest)));
    if (evaluations++ % kWideEvery == 0) wide_said = ask(kWide, input(newest_rows(table, kLiveRows)));
    add_missing(said, wide_said);
    if (closed >= rarely_due) {
      rarely_said = ask(kHistory, history());
      for (Finding& f : ask(kRecent, input(newest_rows(table, StepTable::kRecentRows))))
        rarely_said.push_back(std::move(f));
      rarely_due = closed + kRarelyStride * stride() * std::max<size_t>(1, table.seen().size() / kFewRanks);
    }
    add_missing(said, rarely_said);
    book.note(said, closed - 1);
    findings = std::move(said);
  }

  // Who was asked to stop is not lost.
  void forget_interrupted(std::map<int, RankLife>& of) const {
    for (auto& [rank, life] : of)
      if (life.ended_by_stop(interrupted_ns)) life.stopped = life.clean_exit = true, life.exception.clear();
  }

  // Judged from their lives alone: their steps are the run's, and their groups are gone.
  std::vector<Finding> lost_of(const PastRanks& past) const {
    std::map<int, RankLife> theirs;
    for (const RankLife& life : past.lives)
      if (life.rank >= 0 && life.rank < kMostRanks) theirs[life.rank] = life;
    forget_interrupted(theirs);
    const Groups no_groups;
    const std::map<int, DeviceRoom> no_rooms;
    RuleInput j;
    j.limits = &limits;
    j.over = true;
    j.now_ns = now_ns;
    j.interrupted_ns = interrupted_ns;
    j.lives = &theirs;
    j.groups = &no_groups;
    j.rooms = &no_rooms;
    j.silenced = &silenced;
    j.ranks = j.world = world_of(theirs);
    j.ever_seen = static_cast<int>(
        std::count_if(theirs.begin(), theirs.end(), [](const auto& entry) { return entry.second.steps > 0; }));
    std::vector<Finding> said = ask(kWhole, j);
    std::erase_if(said, [](const Finding& f) { return !has(f.kind.id(), kOutlivesAttempt); });
    for (Finding& f : said) {
      for (int64_t* step : {&f.first_step, &f.last_step, &f.detected_step})
        if (*step >= 0) *step += static_cast<int64_t>(past.first_step);
      f.title += past.remark;
      f.severity = std::min(f.severity, past.at_most);
    }
    return said;
  }
};

Engine::Engine(EngineOptions options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() = default;

void Engine::feed(int rank, RankStep step) {
  step.step += impl_->offset;
  impl_->table.add(rank, step);
  // One row may close many (a slow rank arrived): judge each as it closes, as if it had come alone.
  impl_->table.close_ready();
  impl_->evaluate_rows();
}

void Engine::announce(int rank, int world_size) {
  if (rank < 0 || rank >= kMostRanks) return;
  impl_->table.expect_ranks(std::min(world_size, kMostRanks));
  impl_->table.await(rank);
}

void Engine::set_life(int rank, const RankLife& life) {
  if (rank < 0 || rank >= kMostRanks) return;
  impl_->lives[rank] = life;
  if (!life.ended) return announce(rank, life.world_size);
  impl_->table.expect_ranks(std::min(life.world_size, kMostRanks));
  impl_->table.set_gone(rank);
}

void Engine::set_device_room(int rank, DeviceRoom room) { impl_->rooms[rank] = std::move(room); }

void Engine::set_host_load(const std::string& hostname, HostLoad load) { impl_->loads[hostname] = load; }

void Engine::note_stopped(int rank, int64_t at_ns) {
  auto& moments = impl_->stopped[rank];
  moments.push_back(at_ns);
  if (moments.size() > kMaxStoppedMoments) moments.pop_front();
}

void Engine::set_group(uint64_t id, const std::string& description, const std::vector<int>& ranks) {
  GroupInfo& group = impl_->groups[id];
  group.description = description, group.ranks = ranks;
}

void Engine::set_group_size(uint64_t id, size_t size) { impl_->groups[id].size = size; }

std::string attempt_remark(int number) { return " (attempt " + std::to_string(number + 1) + ")"; }

void Engine::part_with(const PastRanks& past) {
  for (Finding& finding : impl_->lost_of(past)) add_external(std::move(finding));
}

void Engine::begin_attempt(int world_size) {
  impl_->table.close_ready(true);
  impl_->offset = impl_->table.closed();
  impl_->lives.clear();
  impl_->table.begin_attempt(world_size);
  impl_->fallen.reset();
  impl_->numerics.begin_attempt();
  impl_->late_leaving = {};
}

void Engine::set_unhooked(UnhookedProcess process) { impl_->unhooked = std::move(process); }

void Engine::set_failed_command(RankLife command) { impl_->failed_command = std::move(command); }

void Engine::tick(int64_t now_ns) {
  Impl& m = *impl_;
  m.now_ns = std::max(m.now_ns, now_ns);
  if (m.over || m.table.closed() == 0 || m.now_ns - m.looked_ns < kLookNs) return;
  m.looked_ns = m.now_ns;
  const bool still = !m.input(newest_rows(m.table, kLiveRows)).overdue_steps().empty();
  if (still == std::exchange(m.still, still)) return;
  m.judge_newest();
}

void Engine::set_interrupted(int64_t at_ns) { impl_->interrupted_ns = at_ns; }

void Engine::add_external(Finding finding) {
  auto& list = impl_->external;
  const auto same = std::find_if(list.begin(), list.end(), [&](const Finding& f) {
    return f.kind == finding.kind && f.ranks == finding.ranks && f.phase == finding.phase;
  });
  if (same != list.end())
    *same = std::move(finding);
  else
    list.push_back(std::move(finding));
}

void Engine::set_section(Section section) {
  for (Section& s : impl_->sections)
    if (s.name == section.name) {
      s = std::move(section);
      return;
    }
  impl_->sections.push_back(std::move(section));
}

void Engine::set_row_sink(std::function<void(const StepRow&)> sink) { impl_->row_sink = std::move(sink); }

void Engine::evaluate() {
  impl_->table.close_ready();
  impl_->evaluate_rows();
}

void Engine::finish() {
  Impl& m = *impl_;
  if (m.over) return;
  m.over = true;
  m.table.close_ready(true);
  m.forget_interrupted(m.lives);
  m.findings = ask(kWhole, m.input(all_rows(m.table)));
  for (Finding& f : ask(kHistory, m.history())) m.findings.push_back(std::move(f));
  m.book.date(m.findings, static_cast<int64_t>(m.table.closed()) - 1);
}

void Engine::set_fallen(Finding finding) { impl_->fallen = std::move(finding); }
bool Engine::told_fallen() const { return impl_->fallen.has_value(); }
void Engine::set_hang(std::optional<Finding> finding) { impl_->hang = std::move(finding); }

void Engine::note_code(int rank, CodeSample sample) {
  if (rank < 0 || rank >= kMostRanks) return;
  auto& kept = impl_->code[rank];
  if (kept.size() >= kMostCodeSamples) kept.erase(kept.begin());
  kept.push_back(std::move(sample));
}

const CodeSamples& Engine::code() const { return impl_->code; }
const std::vector<Finding>& Engine::said() const { return impl_->findings; }

Snapshot Engine::snapshot() const {
  const Impl& m = *impl_;
  Snapshot s;
  s.run.thresholds = m.changed;
  s.findings = m.findings;
  if (!m.over) m.book.date(s.findings, static_cast<int64_t>(m.table.closed()) - 1);
  for (Finding f : m.external) {
    if (f.detected_step < 0 && m.table.closed()) f.detected_step = m.table.closed() - 1;
    s.findings.push_back(std::move(f));
  }
  if (m.fallen && !m.hang) tell_fallen(*m.fallen, s.findings);
  if (m.hang) add_hang(*m.hang, s.findings);
  const RuleInput whole = m.input(all_rows(m.table));
  Health health = health_of(whole, s.findings);
  s.checks = std::move(health.checks);
  if (health.word) {
    health.word->detected_step = static_cast<int64_t>(m.table.closed()) - 1;
    s.findings.push_back(std::move(*health.word));
  }
  settle_findings(s.findings);
  for (Finding& f : s.findings) {
    name_input_queue(f, m.code, m.lives);
    name_logging(f, m.code);
    add_line(f, m.code);
  }
  s.primary = primary_of(s.findings);
  s.steps = m.table.closed();
  s.observer.coverage = m.table.cells_expected()
                            ? static_cast<double>(m.table.cells_seen()) / static_cast<double>(m.table.cells_expected())
                            : 0;
  s.observer.notes = m.notes;
  fill_epochs(s, m.epochs);
  fill_tables(s, whole, m.sums, m.sections, {m.flops_per_step, m.peak_flops});
  return s;
}

uint64_t Engine::closed_steps() const { return impl_->table.closed(); }

bool Engine::suspects_communication() const {
  return std::any_of(impl_->findings.begin(), impl_->findings.end(), [](const Finding& f) {
    return f.severity != Severity::kInfo &&
           (f.phase == name(Category::kCommTransfer) || has(f.kind.id(), kDelaysOthers));
  });
}

}  // namespace stepscope
