#include "diagnose/snapshot_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text_format.h"
#include "analyze/device_memory.h"
#include "analyze/robust.h"
#include "analyze/straggler.h"
#include "diagnose/timed_collectives.h"
#include "diagnose/device_peak.h"

namespace stepscope {

namespace {

constexpr size_t kRecentPoints = 512;
constexpr Category kPhases[] = {
    Category::kInputWait, Category::kH2d,      Category::kForward,     Category::kBackward,   Category::kOptimizer,
    Category::kHostPause, Category::kCompile,  Category::kCheckpoint,  Category::kValidation, Category::kEpochStart,
    Category::kLogging,   Category::kUserCode, Category::kUnattributed};
constexpr Category kAlwaysShown[] = {Category::kInputWait, Category::kForward, Category::kBackward,
                                     Category::kOptimizer};

std::optional<double> value_of(const std::map<int, double>& by_rank, int rank) {
  const auto found = by_rank.find(rank);
  return found != by_rank.end() && std::isfinite(found->second) ? std::optional<double>(found->second) : std::nullopt;
}

// Medians per rank of one figure over the baseline rows.
template <class Figure>
std::map<int, double> rank_medians(const RuleInput& in, Figure figure) {
  const Rows& rows = in.baseline.empty() ? in.with_warmup : in.baseline;
  std::map<int, std::vector<double>> by_rank;
  for (const StepRow* row : rows.rows)
    for (const Cell& cell : row->cells) by_rank[cell.rank].push_back(figure(cell));
  std::map<int, double> out;
  for (auto& [rank, values] : by_rank) out[rank] = median(std::move(values));
  return out;
}

void fill_phases(Snapshot& s, const RuleInput& in, const RunSums& sums) {
  double wall = 0;
  for (const auto& [rank, r] : sums.ranks) wall += r.wall_ms;
  for (Category c : kPhases) {
    double total = 0;
    for (const auto& [rank, r] : sums.ranks) total += r.ms[index(c)];
    const bool always = std::find(std::begin(kAlwaysShown), std::end(kAlwaysShown), c) != std::end(kAlwaysShown);
    if (total <= 0 && !always) continue;
    PhaseStat p;
    p.phase = std::string(name(c));
    const std::map<int, double> medians =
        rank_medians(in, [c](const Cell& cell) { return static_cast<double>(cell.ms[index(c)]); });
    std::vector<double> known;
    for (const auto& [rank, m] : medians)
      if (std::isfinite(m)) known.push_back(m);
    if (!known.empty()) {
      p.median_ms = median(known);
      double worst = -1;
      for (const auto& [rank, m] : medians)
        if (std::isfinite(m) && m > worst) worst = m, p.worst_rank = rank;
      p.worst_ms = worst;
      if (*p.median_ms > 0) p.skew_pct = 100 * (worst - *p.median_ms) / *p.median_ms;
    }
    if (wall > 0) p.share = total / wall;
    s.phases.push_back(std::move(p));
  }
}

// What the rank computed, as the program logged it or as the user told for every step.
double flops_of(const RankSums& sum, const FlopsGiven& given) {
  return sum.flops > 0 ? sum.flops : given.per_step * sum.steps;
}

double peak_of(const RankLife* life, const FlopsGiven& given) {
  if (given.peak > 0 || !life) return given.peak;
  return device_peak_flops(life->device).value_or(0);
}

const RankLife* life_of(const RuleInput& in, int rank) {
  const auto found = in.lives->find(rank);
  return found == in.lives->end() ? nullptr : &found->second;
}

void fill_ranks(Snapshot& s, const RuleInput& in, const RunSums& sums, const FlopsGiven& flops) {
  const std::map<int, double> wall = rank_medians(in, [](const Cell& c) { return static_cast<double>(c.wall_ms); });
  const std::map<int, double> own = rank_medians(in, [](const Cell& c) { return static_cast<double>(c.own_ms()); });
  const std::map<int, double> stall = rank_medians(in, [](const Cell& c) { return static_cast<double>(c.stall_ms); });
  std::map<int, double> caused;
  for (const StepRow* row : in.rows.rows)
    for (const Cell& cell : row->cells) caused[cell.rank] += cell.caused_ms;
  std::map<size_t, std::map<int, double>> phase;
  for (Category c : kPhases)
    phase[index(c)] = rank_medians(in, [c](const Cell& cell) { return static_cast<double>(cell.ms[index(c)]); });
  std::set<int> known;  // the world may be larger
  for (const auto& [rank, sum] : sums.ranks) known.insert(rank);
  for (const auto& [rank, life] : *in.lives) known.insert(rank);
  for (const int r : known) {
    RankStat out;
    out.rank = r;
    out.step_ms = value_of(wall, r);
    out.own_ms = value_of(own, r);
    out.stall_ms = value_of(stall, r);
    if (caused.contains(r) && in.seen.size() > 1) out.caused_wait_ms = caused[r] / static_cast<double>(in.rows.size());
    for (const PhaseStat& p : s.phases)
      for (Category c : kPhases)
        if (p.phase == name(c)) out.phase_ms[p.phase] = value_of(phase[index(c)], r);
    if (const auto found = sums.ranks.find(r); found != sums.ranks.end()) {
      const RankSums& sum = found->second;
      out.steps = sum.steps;
      for (size_t c = 0; c < kCategoryCount; ++c)
        out.ledger[c] = static_cast<int64_t>(std::llround(sum.host_ms[c] * 1e6));
      out.steps_wall_ms = sum.host_wall_ms;
      if (sum.wall_ms > 0 && sum.samples > 0) out.samples_per_s = sum.samples / sum.wall_ms * 1e3;
      if (sum.wall_ms > 0 && sum.tokens > 0) out.tokens_per_s = sum.tokens / sum.wall_ms * 1e3;
      if (const double done = flops_of(sum, flops); sum.wall_ms > 0 && done > 0) {
        out.flops_per_s = done / sum.wall_ms * 1e3;
        if (const double peak = peak_of(life_of(in, r), flops); peak > 0) out.mfu = *out.flops_per_s / peak;
      }
    }
    if (const auto found = in.lives->find(r); found != in.lives->end()) {
      const RankLife& life = found->second;
      out.local_rank = life.local_rank;
      out.node = std::max(0, life.node_rank);
      out.pid = life.pid;
      out.hostname = life.hostname;
      out.state = state_of(life);
      out.last_phase = std::string(name(life.open_phase));
      for (size_t c = 0; c < kCategoryCount; ++c) out.ledger[c] += life.startup[c] + life.teardown[c];
      for (const std::string& u : life.unavailable)
        if (std::find(s.observer.unavailable.begin(), s.observer.unavailable.end(), u) == s.observer.unavailable.end())
          s.observer.unavailable.push_back(u);
    } else {
      out.state = RankState::kNotSeen;  // steps without a process: of an attempt before
    }
    int64_t sum_ns = 0;
    for (int64_t ns : out.ledger) sum_ns += ns;
    out.process_wall_ms = static_cast<double>(sum_ns) * 1e-6;
    s.ranks.push_back(std::move(out));
  }
}

void fill_steps(Snapshot& s, const RuleInput& in) {
  std::vector<double> wall;
  for (const StepRow* row : in.rows.rows) wall.push_back(row->wall_ms);
  s.steps_analyzed = wall.size();
  if (!wall.empty()) s.wall_ms = {quantile(wall, 0.5), quantile(wall, 0.9), quantile(wall, 0.99), mean(wall)};
  const auto& rows = in.with_warmup.rows;
  for (size_t i = rows.size() > kRecentPoints ? rows.size() - kRecentPoints : 0; i < rows.size(); ++i) {
    StepPoint p{rows[i]->step, rows[i]->wall_ms, rows[i]->tags, {}};
    p.rank_ms.assign(s.ranks.size(), std::nanf(""));
    size_t at = 0;
    for (const Cell& cell : rows[i]->cells) {
      while (at < s.ranks.size() && s.ranks[at].rank < cell.rank) ++at;
      if (at < s.ranks.size() && s.ranks[at].rank == cell.rank) p.rank_ms[at] = cell.own_ms();
    }
    s.recent.push_back(std::move(p));
  }
}

bool timed_on_device(const Rows& rows) {
  return std::any_of(rows.rows.begin(), rows.rows.end(), [](const StepRow* row) {
    return std::any_of(row->cells.begin(), row->cells.end(), [](const Cell& cell) { return cell.device_comm_ms >= 0; });
  });
}

// On the host every step tells what was waited for, and only the stamped ones how fast the data went.
void fill_collectives(Snapshot& s, const RuleInput& in) {
  const std::vector<CollectiveStat> timed = timed_collectives(in.rows, *in.groups, in.half_seen());
  if (timed_on_device(in.rows)) {
    s.collectives = timed;
    return;
  }
  struct Sum {
    double transfer = 0, wait = 0, unresolved = 0, stalls = 0;
    std::set<int> ranks;
  };
  std::map<uint64_t, Sum> by_group;
  double cells = 0, bytes = 0, count = 0;
  for (const StepRow* row : in.rows.rows)
    for (const Cell& cell : row->cells) {
      if (!row->detailed) continue;
      ++cells;
      bytes += cell.bytes;
      count += cell.collectives;
      for (const CellStall& stall : cell.stalls) {
        Sum& sum = by_group[stall.group];
        sum.transfer += stall.transfer_ms;
        sum.wait += stall.stall_ms - stall.transfer_ms - stall.unresolved_ms;
        sum.unresolved += stall.unresolved_ms;
        sum.ranks.insert(cell.rank);
        ++sum.stalls;
      }
    }
  if (cells == 0) return;
  for (const auto& [id, sum] : by_group) {
    CollectiveStat c;
    c.ranks.assign(sum.ranks.begin(), sum.ranks.end());
    const auto found = in.groups->find(id);
    if (found != in.groups->end() && !found->second.ranks.empty()) c.ranks = found->second.ranks;
    const bool named =
        found != in.groups->end() && !found->second.description.empty() && found->second.description != "undefined";
    c.group = named ? found->second.description : format_ranks(c.ranks);
    c.op = "all";
    c.per_step = count / cells;
    c.bytes_per_step = bytes / cells;
    if (sum.transfer > 0 || sum.unresolved <= 0) c.transfer_ms = sum.transfer / cells;
    c.wait_ms = sum.wait / cells;
    for (const CollectiveStat& t : timed)
      if (t.group == c.group && t.bus_gb_per_s) c.bus_gb_per_s = std::max(c.bus_gb_per_s.value_or(0), *t.bus_gb_per_s);
    s.collectives.push_back(std::move(c));
  }
}

// Head and tail: medians of the ends of what outlives a step, warm-up left out.
void fill_memory(Snapshot& s, const RuleInput& in) {
  constexpr size_t kEnd = 16;
  for (const RankMemory& m : memory_of_ranks(in)) {
    DeviceMemoryRank out{.rank = m.rank,
                         .allocated_bytes = m.allocated_bytes,
                         .reserved_bytes = m.reserved_bytes,
                         .peak_bytes = m.peak_bytes};
    if (m.capacity_bytes > 0) out.capacity_bytes = m.capacity_bytes;
    const std::vector<double> bytes = growth_track(in.with_warmup, m.rank, in.limits->device_creep_warmup_steps).bytes;
    if (const size_t n = std::min(kEnd, bytes.size() / 2); n > 0) {
      out.head_bytes = median({bytes.begin(), bytes.begin() + static_cast<long>(n)});
      out.tail_bytes = median({bytes.end() - static_cast<long>(n), bytes.end()});
    }
    s.memory.push_back(out);
  }
}

// The fullest rank speaks for all.
void fill_memory_section(Section& section, const Snapshot& s) {
  const DeviceMemoryRank* worst = nullptr;
  const auto share = [](const DeviceMemoryRank& m) { return m.capacity_bytes ? *m.peak_bytes / *m.capacity_bytes : 0; };
  for (const DeviceMemoryRank& m : s.memory)
    if (!worst || *m.peak_bytes > *worst->peak_bytes) worst = &m;
  if (!worst) return;
  section.values = {{"allocated_bytes", worst->allocated_bytes},
                    {"reserved_bytes", worst->reserved_bytes},
                    {"peak_bytes", worst->peak_bytes},
                    {"capacity_bytes", worst->capacity_bytes},
                    {"peak_share", std::nullopt}};
  if (worst->capacity_bytes) section.values["peak_share"] = share(*worst);
  if (!section.diagnosis.empty()) return;
  section.diagnosis = FindingKind::kBalanced;
  section.text = worst->capacity_bytes
                     ? "At most " + format_percent(share(*worst)) + " of a device in use, and no growth"
                     : "No growth";
}

void fill_sections(Snapshot& s, const RuleInput& in, const std::vector<Section>& external) {
  for (const char* section : {"system", "process", "step_time", "step_memory"}) {
    Section out;
    out.name = section;
    for (const Section& e : external)
      if (e.name == section) out = e;
    const Finding* worst = nullptr;
    for (const Finding& f : s.findings)
      if (f.section.text() == section && (!worst || f.severity > worst->severity)) worst = &f;
    if (worst && (out.diagnosis.empty() || worst->severity > out.severity)) {
      out.diagnosis = worst->kind;
      out.severity = worst->severity;
      out.text = worst->title;
    }
    if (out.name == "step_memory") fill_memory_section(out, s);
    if (out.diagnosis.empty()) {
      const bool measured = std::string_view(section) == "process" && !in.lives->empty();
      out.diagnosis = measured ? FindingKind::kBalanced : FindingKind::kNoData;
      out.text = measured ? "All ranks were seen" : "Not measured";
    }
    s.sections.push_back(std::move(out));
  }
}

void fill_throughput(Snapshot& s, const RuleInput& in, const RunSums& sums, const FlopsGiven& given) {
  double samples = 0, tokens = 0, flops = 0, peak = 0;
  bool peaks_known = true;
  for (const auto& [rank, sum] : sums.ranks) {
    samples += sum.samples;
    tokens += sum.tokens;
    flops += flops_of(sum, given);
    const double of_device = peak_of(life_of(in, rank), given);
    peaks_known = peaks_known && of_device > 0;
    peak += of_device;
  }
  // What the seen ranks did is no figure of the run; each of them has its own.
  const auto per_s = [&](double sum) {
    return !in.half_seen() && sum > 0 && sums.wall_ms > 0 ? std::optional(sum / sums.wall_ms * 1e3) : std::nullopt;
  };
  s.throughput["samples_per_s"] = per_s(samples);
  s.throughput["tokens_per_s"] = per_s(tokens);
  s.throughput["flops_per_s"] = per_s(flops);
  const bool rated = flops > 0 && sums.wall_ms > 0 && peaks_known && peak > 0;
  s.throughput["mfu"] = rated ? std::optional(flops / sums.wall_ms * 1e3 / peak) : std::nullopt;
  if (in.half_seen())
    for (EpochStat& e : s.epochs) e.samples_per_s.reset();
}

}  // namespace

void fill_epochs(Snapshot& s, const Epochs& epochs) {
  for (const EpochSums& sums : epochs.told()) {
    EpochStat e;
    e.epoch = sums.epoch;
    e.first_step = sums.first_step, e.last_step = sums.last_step, e.steps = sums.steps;
    e.wall_ms = sums.wall_ms;
    for (size_t c = 0; c < kCategoryCount; ++c) e.ledger[c] = static_cast<int64_t>(std::llround(sums.ms[c] * 1e6));
    if (sums.samples > 0 && sums.wall_ms > 0) e.samples_per_s = sums.samples / sums.wall_ms * 1e3;
    s.epochs.push_back(std::move(e));
  }
  s.epochs_count = s.epochs.empty() ? 0 : epochs.count();
}

void fill_tables(Snapshot& s, const RuleInput& whole, const RunSums& sums, const std::vector<Section>& external,
                 const FlopsGiven& flops) {
  s.job_clock = whole.on_device() ? "gpu" : "cpu";
  fill_phases(s, whole, sums);
  fill_ranks(s, whole, sums, flops);
  s.run.ranks_seen = static_cast<int>(s.ranks.size());
  fill_steps(s, whole);
  fill_collectives(s, whole);
  fill_memory(s, whole);
  fill_sections(s, whole, external);
  const auto ranks = static_cast<double>(sums.ranks.size());
  for (const auto& [rank, r] : sums.ranks)
    for (size_t c = 0; c < kCategoryCount; ++c)
      s.job_ledger[c] += static_cast<int64_t>(std::llround(r.ms[c] * 1e6 / ranks));
  fill_throughput(s, whole, sums, flops);
}

}  // namespace stepscope
