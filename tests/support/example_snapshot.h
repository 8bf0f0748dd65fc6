// Snapshots for tests of the views: one believable run with a straggler, and variations of it. Built from numbers that
// are consistent with each other (ledgers add up, medians follow from them).
#pragma once

#include <cmath>
#include <string>

#include "diagnose/snapshot.h"

namespace stepscope::examples {

inline constexpr uint32_t kSteps = 240;

inline void set_ms(LedgerNs& ledger, Category c, double ms) { ledger[index(c)] = static_cast<int64_t>(std::llround(ms * 1e6)); }

inline void set_process_wall(RankStat& r) {
  int64_t sum = 0;
  for (int64_t ns : r.ledger) sum += ns;
  r.process_wall_ms = static_cast<double>(sum) / 1e6;
}

// Rank 1 of `world` needs 48.8 ms more in backward; the others wait for it.
inline RankStat rank_of_straggler_run(int rank, bool culprit) {
  RankStat r;
  r.rank = r.local_rank = rank;
  r.pid = 4100 + rank;
  r.hostname = "node-a";
  r.state = RankState::kFinished;
  r.steps = kSteps;
  r.step_ms = 79.4;
  r.own_ms = culprit ? 76.3 : 27.5;
  r.stall_ms = culprit ? 3.1 : 51.9;
  r.caused_wait_ms = culprit ? 48.8 : 0.4;
  r.phase_ms = {{"input_wait", 0.3}, {"forward", 9.6}, {"backward", culprit ? 63.0 : 14.2}, {"optimizer", 2.6}};
  r.cpu_share = 0.93;
  r.rss_peak_bytes = 412.0 * 1024 * 1024;
  r.samples_per_s = 402.0;
  set_ms(r.ledger, Category::kInputWait, 0.3 * kSteps);
  set_ms(r.ledger, Category::kForward, 9.6 * kSteps);
  set_ms(r.ledger, Category::kBackward, (culprit ? 63.0 : 14.2) * kSteps);
  set_ms(r.ledger, Category::kOptimizer, 2.6 * kSteps);
  set_ms(r.ledger, Category::kCommTransfer, 3.1 * kSteps);
  set_ms(r.ledger, Category::kStragglerWait, culprit ? 0 : 48.8 * kSteps);
  set_ms(r.ledger, Category::kUnattributed, 0.8 * kSteps);
  r.steps_wall_ms = 79.4 * kSteps;
  set_ms(r.ledger, Category::kStartup, 2310.25);
  set_ms(r.ledger, Category::kTeardown, 412.000123);
  set_process_wall(r);
  return r;
}

inline Finding straggler_finding(int world) {
  Finding f;
  f.id = "f1";
  f.kind = FindingKind::kComputeStraggler;
  f.severity = Severity::kCrit;
  f.ranks = {1};
  for (int r = 0; r < world; ++r) {
    if (r != 1) f.victims.push_back(r);
  }
  f.phase = "backward";
  f.cause = Cause::kSameWorkSlower;
  f.pattern = "chronic";
  f.first_step = 0;
  f.last_step = kSteps - 1;
  f.detected_step = 19;
  f.cost_share = 0.6146;
  f.cost_seconds = 11.71;
  f.saves = {.share = 0.6146, .low = 0.5283, .high = 0.6251, .caveat = "other programs use cores of the host"};
  f.confidence = 0.97;
  f.coverage = 1;
  f.section = SectionName::kStepTime;
  f.title = "Rank 1 is late in backward; " + std::string(world == 2 ? "rank 0 waits" : std::to_string(world - 1) + " ranks wait") + " 48.8 ms per step";
  f.action = "Look at what rank 1 does in backward that the others do not: its data, its CPU or GPU, code under `if rank == 1`.";
  f.evidence = {{.name = "backward_own_ms", .rank = 1, .value = 63.0, .others_median = 14.2},
                {.name = "stall_ms", .rank = 1, .value = 3.1, .others_median = 51.9}};
  return f;
}

inline std::vector<Section> straggler_sections() {
  return {{"system", FindingKind::kBalanced, Severity::kInfo, "The host has room: CPU 48 % busy.",
           {{"cpu_share", 0.48}, {"cpu_peak_share", 0.81}, {"cores", 8}, {"load1", 3.9}, {"memory_total_bytes", 33.7e9},
            {"memory_available_min_bytes", 30.6e9}, {"memory_used_peak_share", 0.092}, {"swap_used_peak_bytes", 0}, {"cpu_pressure_share", 0.012},
            {"memory_pressure_share", 0}, {"io_pressure_share", 0.004}, {"gpus", 0}}},
          {"process", FindingKind::kBalanced, Severity::kInfo, "Every rank computes and none grows.",
           {{"cpu_cores", 0.93}, {"run_delay_share", 0.004}, {"run_delay_worst_share", 0.006}, {"rss_peak_bytes", 432e6}, {"uss_peak_bytes", 288e6},
            {"read_bytes_per_s", 2288600}, {"threads_max", 4}, {"workers_max", 2}, {"worker_cpu_cores", 0.4}}},
          {"step_time", FindingKind::kComputeStraggler, Severity::kCrit, "Rank 1 is late in backward.", {}},
          {"step_memory", FindingKind::kNoData, Severity::kInfo, "No GPU in this run.", {}}};
}

inline void add_recent(Snapshot& s, int world) {
  for (uint32_t step = 0; step < kSteps; ++step) {
    StepPoint p{.step = step, .wall_ms = 79.4 + (step % 7) * 0.3 + (step < 3 ? 40.0 - 10.0 * step : 0.0)};
    if (step < 3) p.tags = 1;
    for (int r = 0; r < world; ++r) {  // own time: the culprit's is nearly the whole step
      const double own_ms = p.wall_ms - (r == 1 ? 3.1 : 51.9);
      p.rank_ms.push_back(static_cast<float>(own_ms - 0.05 * ((step + static_cast<uint32_t>(r)) % 5)));
    }
    s.recent.push_back(std::move(p));
  }
}

inline Snapshot straggler(int world = 2) {
  Snapshot s;
  s.run = {.name = "ddp_demo", .started_at = "2026-03-02T10:15:00Z", .duration_s = 22.4, .world_size = world, .nodes = 1, .status = "completed",
           .exit_code = 0, .command = {"torchrun", "--nproc-per-node", std::to_string(world), "train.py"},
           .versions = {{"stepscope", "0.1.0"}, {"torch", "2.15.0"}, {"python", "3.11.7"}}};
  s.findings = {straggler_finding(world)};
  s.primary = 0;
  Finding warmup{.id = "f2", .kind = FindingKind::kWarmup, .severity = Severity::kInfo, .job_scope = true, .first_step = 0, .last_step = 2, .detected_step = 2,
                 .cost_share = 0.003, .cost_seconds = 0.09, .confidence = 1, .coverage = 1, .section = SectionName::kStepTime,
                 .title = "The first 3 steps took 30 ms longer than the rest", .action = "Nothing to do."};
  s.findings.push_back(warmup);
  s.sections = straggler_sections();
  for (int r = 0; r < world; ++r) s.ranks.push_back(rank_of_straggler_run(r, r == 1));
  for (size_t c = 0; c < kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    if (category == Category::kStartup || category == Category::kTeardown) continue;
    for (const RankStat& r : s.ranks) s.job_ledger[c] += r.ledger[c] / world;
  }
  s.steps = kSteps;
  s.steps_analyzed = kSteps - 3;
  s.wall_ms = {79.4, 81.2, 84.9, 79.6};
  const double others = world == 2 ? (63.0 + 14.2) / 2 : 14.2;
  s.phases = {{"input_wait", 0.3, 0.3, 0.0, 0.0038, 0}, {"forward", 9.6, 9.6, 0.0, 0.121, 0},
              {"backward", others, 63.0, (63.0 - others) / others * 100, others / 79.4, 1}, {"optimizer", 2.6, 2.6, 0.0, 0.033, 0}};
  s.throughput = {{"samples_per_s", 402.0 * world}, {"tokens_per_s", std::nullopt}};
  s.system = {{"cpu_share", 0.48}, {"memory_used_bytes", 3.1e9}};
  s.process = {{"cpu_share", 0.93}};
  s.observer = {.records = 33120, .overhead_us_per_step = 14.2, .coverage = 1, .unavailable = {"gpu_time: no CUDA device"}};
  add_recent(s, world);
  return s;
}

// Ranks that keep pace; nothing to say but BALANCED.
inline Snapshot balanced(int world = 2) {
  Snapshot s = straggler(world);
  s.run.name = "healthy";
  s.ranks.clear();
  s.job_ledger = {};
  for (int r = 0; r < world; ++r) {
    RankStat rank = rank_of_straggler_run(r, false);
    set_ms(rank.ledger, Category::kStragglerWait, 0.2 * kSteps);
    rank.step_ms = 30.8;
    rank.stall_ms = 3.3;
    rank.caused_wait_ms = 0.2;
    rank.steps_wall_ms = 30.8 * kSteps;
    set_process_wall(rank);
    for (size_t c = 0; c < kCategoryCount; ++c) {
      const auto category = static_cast<Category>(c);
      if (category != Category::kStartup && category != Category::kTeardown) s.job_ledger[c] += rank.ledger[c] / world;
    }
    s.ranks.push_back(rank);
  }
  s.findings = {{.id = "f1", .kind = FindingKind::kBalanced, .severity = Severity::kInfo, .job_scope = true, .first_step = 0, .last_step = kSteps - 1,
                 .detected_step = 19, .confidence = 0.9, .coverage = 1, .section = SectionName::kStepTime, .title = "The ranks keep pace and no phase dominates",
                 .action = "Nothing to fix here."}};
  s.primary = 0;
  s.sections[2] = {"step_time", FindingKind::kBalanced, Severity::kInfo, "The ranks keep pace.", {}};
  s.wall_ms = {30.8, 31.6, 33.0, 31.0};
  s.phases[2] = {"backward", 14.2, 14.3, 0.7, 14.2 / 30.8, 0};
  for (StepPoint& p : s.recent) {
    p.wall_ms -= 48.6;
    if (world > 1) p.rank_ms[1] -= 48.8f;
  }
  return s;
}

// A rank was killed in backward; records were lost; one step is missing on it.
inline Snapshot rank_lost() {
  Snapshot s = straggler(4);
  s.run.name = "lost";
  s.run.status = "crashed";
  s.run.exit_code = 137;
  s.findings.insert(s.findings.begin(), Finding{.id = "f3", .kind = FindingKind::kRankLost, .severity = Severity::kCrit, .ranks = {2}, .victims = {0, 1, 3},
                    .phase = "backward", .last_step = 120, .detected_step = 121, .confidence = 1, .coverage = 1, .section = SectionName::kProcess,
                    .title = "Rank 2 is gone: killed by SIGKILL in backward of step 121",
                    .action = "Look for the kernel's out-of-memory killer (dmesg) and for who sent the signal.",
                    .evidence = {{.name = "signal", .rank = 2, .text = "SIGKILL"}}});
  s.primary = 0;
  s.ranks[2].state = RankState::kLost;
  s.ranks[2].last_phase = "backward";
  s.ranks[2].steps = 121;
  s.observer.lost = 812;
  s.observer.torn = 1;
  s.observer.coverage = 0.87;
  for (StepPoint& p : s.recent) {
    if (p.step > 120) p.rank_ms[2] = std::nanf("");
  }
  return s;
}

// Two nodes, GPUs, groups: what later stages fill in.
inline Snapshot gpu_job(int world = 32) {
  Snapshot s = straggler(world);
  s.run.name = "gpt-fsdp";
  s.run.nodes = 2;
  for (RankStat& r : s.ranks) {
    r.node = r.rank / (world / 2);
    r.hostname = r.node == 0 ? "node-a" : "node-b";
    const double gib = 1024.0 * 1024 * 1024;
    s.memory.push_back({r.rank, 41.0 * gib, 52.0 * gib, (44.0 + r.rank % 3) * gib, 79.1 * gib, 40.5 * gib, 41.5 * gib});
  }
  s.collectives = {{"dp (ranks 0-31)", "all_reduce", {0, 1, 2}, 6, 1.2e8, 3.1, 48.8, 91.5}, {"tp", "all_gather", {0, 1}, 24, 3.4e7, 0.8, std::nullopt, std::nullopt}};
  s.findings[0].clock = "gpu";
  return s;
}

// Ranks 0 and 1 of a job of four: the others run on a node without an observer.
inline Snapshot half_seen() {
  Snapshot s = straggler(2);
  s.run.name = "one_node_of_two";
  s.run.world_size = 4;
  s.run.ranks_seen = 2;
  Finding incomplete{.id = "f1", .kind = FindingKind::kIncompleteData, .severity = Severity::kWarn, .job_scope = true, .of_seen = true,
                     .first_step = 0, .last_step = kSteps - 1, .detected_step = 19, .cost_share = 0.31, .cost_seconds = 5.9,
                     .confidence = 0.9, .coverage = 0.5, .section = SectionName::kStepTime,
                     .title = "2 of 4 ranks were seen; 31 % of the time of those seen goes into waiting for the others, or into the link: "
                              "which of them cannot be told",
                     .action = "Observe the job's other nodes too; a verdict about the whole job needs every rank"};
  s.findings = {incomplete};
  for (RankStat& r : s.ranks) {
    set_ms(r.ledger, Category::kUnresolved, 24.6 * kSteps);
    set_ms(r.ledger, Category::kStragglerWait, 0);
    set_process_wall(r);
  }
  s.job_ledger[index(Category::kUnresolved)] = s.job_ledger[index(Category::kStragglerWait)];
  s.job_ledger[index(Category::kStragglerWait)] = 0;
  s.checks = {{"data_complete", false, 0.5, 0.98, "INCOMPLETE_DATA"},
              {"no_costed_finding", false, 0.31, 0.05, "INCOMPLETE_DATA"},
              {"other_time", true, 0.12, 0.3, "input_wait"},
              {"ranks_keep_pace", true, 0.02, 0.1, ""},
              {"steady_step_time", true, std::nullopt, std::nullopt, ""}};
  s.throughput.clear();
  s.observer.coverage = 0.5;
  return s;
}

// Rank 1 (or several ranks together, without one) grows towards the limit of its control group.
inline Snapshot creeping(Severity severity = Severity::kWarn, std::optional<int> rank = 1) {
  Snapshot s = balanced();
  s.run.name = "creeping";
  s.run.status = "running";
  s.run.exit_code.reset();
  Finding f{.id = "f9", .kind = FindingKind::kHostMemoryCreep, .severity = severity, .ranks = rank ? std::vector{*rank} : std::vector{0, 1},
            .pattern = "drifting", .first_step = 0, .last_step = kSteps - 1, .detected_step = 180, .confidence = 0.95, .coverage = 1,
            .section = SectionName::kProcess,
            .title = "Rank 1: host memory grows by 8.00 MiB per step (1.50 GiB so far), memory is full in 12 min 00 s to 15 min 00 s",
            .action = "Look for what is kept every step: lists of tensors or outputs, losses with their graph, caches without a bound"};
  const auto add = [&](const char* name, double value, const char* text = "") {
    f.evidence.push_back({.name = name, .rank = rank, .value = value, .others_median = {}, .text = text});
  };
  add("bytes_per_step", 8.0 * (1 << 20));
  add("seconds_to_limit", 780);
  add("seconds_to_limit_low", 720);
  add("seconds_to_limit_high", 900);
  add("steps_to_limit", 1350);
  add("steps_to_limit_low", 1240.7);
  add("steps_to_limit_high", 1500);
  add("limit_bytes", 64.0 * (1 << 30), "of the control group");
  s.findings.insert(s.findings.begin(), std::move(f));
  return s;
}

// Nothing was seen.
inline Snapshot empty() {
  Snapshot s;
  s.run = {.name = "empty", .status = "completed", .exit_code = 0};
  return s;
}

}  // namespace stepscope::examples
