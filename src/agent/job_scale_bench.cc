// One aggregator and the frames of a whole job, without the wire: ranks in nodes of eight, ten steps a second each, one
// frame a second per node. Told per case: the share of one core that taking frames in and judging needs (cpu_share), a
// snapshot with its summary, bytes per rank and step, memory, and after how many steps a straggler is named. Each case
// runs in a process of its own. Figures: docs/scale.md.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "agent/node_frame.h"
#include "agent/node_inbox.h"
#include "agent/pipeline.h"
#include "base/clock.h"
#include "report/summary_json.h"

namespace stepscope {
namespace {

constexpr int kRanksPerNode = 8, kStepsPerSecond = 10, kSeconds = 60, kLateFrom = 20;  // seconds
constexpr int64_t kTraceSecondNs = kSecondNs;
constexpr uint64_t kGroup = 77;

double status_mib(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::strtod(line.c_str() + std::char_traits<char>::length(key), nullptr) / 1024;
  return 0;
}

double cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Figures {
  double cpu_share = 0, snapshot_ms = 0, summary_mb = 0, bytes_per_step = 0, mib = 0, named_after_steps = -1;
};

class Job {
 public:
  explicit Job(int ranks) : ranks_(ranks), late_(ranks - 3), pipeline_(EngineOptions{}), inbox_("job", pipeline_) {}

  Figures run() {
    const double before_mib = status_mib("VmRSS:");
    for (int second = 0; second < kSeconds; ++second) {
      std::vector<std::string> frames;
      for (int node = 0; node * kRanksPerNode < ranks_; ++node) frames.push_back(frame_of(node, second));
      const double began_s = cpu_s();
      const auto now_ns = static_cast<uint64_t>((second + 2) * kTraceSecondNs);
      for (const std::string& frame : frames) {
        if (inbox_.take(frame, now_ns).outcome != NodeInbox::Outcome::kTaken) std::abort();
        bytes_ += static_cast<double>(frame.size());
      }
      pipeline_.pump(now_ns);
      judging_s_ += cpu_s() - began_s;
      look(second);
    }
    figures_.mib = status_mib("VmRSS:") - before_mib;
    figures_.cpu_share = judging_s_ / kSeconds;
    figures_.bytes_per_step = bytes_ / (static_cast<double>(ranks_) * kSeconds * kStepsPerSecond);
    const double began_s = cpu_s();
    const std::string summary = summary_json(pipeline_.snapshot());
    figures_.snapshot_ms = (cpu_s() - began_s) * 1e3;
    figures_.summary_mb = static_cast<double>(summary.size()) * 1e-6;
    return figures_;
  }

 private:
  int64_t noisy(double ms) {
    return static_cast<int64_t>(ms * 1e6 * std::lognormal_distribution<double>(0, 0.03)(bits_));
  }

  // DDP: gradients meet once at the end of backward; a rank that is late there makes all others wait.
  RankStep step_of(int rank, uint64_t number) {
    const bool late = rank == late_ && number >= kLateFrom * kStepsPerSecond;
    RankStep step;
    step.step = number;
    step.begin_ns = static_cast<int64_t>(number) * kTraceSecondNs / kStepsPerSecond + kTraceSecondNs;
    LedgerNs before{}, after{};
    before[index(Category::kForward)] = noisy(late ? 45 : 20);
    before[index(Category::kBackward)] = noisy(35);
    before[index(Category::kInputWait)] = noisy(1);
    after[index(Category::kOptimizer)] = noisy(4);
    Stall stall{kGroup, number, 0, 0, Category::kBackward};
    int64_t own_ns = 0;
    for (size_t c = 0; c < kCategoryCount; ++c) own_ns += before[c] + after[c], step.own[c] = before[c] + after[c];
    stall.duration_ns = std::max<int64_t>(500'000, kTraceSecondNs / kStepsPerSecond - own_ns);
    step.segments = {before, after};
    step.stalls = {stall};
    step.end_ns = step.begin_ns + own_ns + stall.duration_ns;
    step.samples = 32, step.backwards = 1, step.optimizer_steps = 1, step.cpu_ns = noisy(60);
    for (uint64_t k = 0; k < 6; ++k)
      step.collectives.push_back({.group = kGroup, .sequence = number * 6 + k, .bytes = 25u << 20, .op = 1});
    return step;
  }

  std::string frame_of(int node, int second) {
    NodeFrame frame{
        .run = "job", .node = static_cast<uint64_t>(node) + 1, .sequence = static_cast<uint64_t>(second) + 1};
    frame.hostname = "node" + std::to_string(node);
    frame.sent_ns = (second + 2) * kTraceSecondNs;
    for (int rank = node * kRanksPerNode; rank < std::min(ranks_, (node + 1) * kRanksPerNode); ++rank) {
      ProcessNews& news = frame.processes.emplace_back();
      news.number = static_cast<uint64_t>(rank % kRanksPerNode);
      for (int i = 0; i < kStepsPerSecond; ++i)
        news.steps.push_back(step_of(rank, static_cast<uint64_t>(second * kStepsPerSecond + i)));
      news.now.steps = news.steps.back().step + 1, news.now.records = 40 * news.now.steps;
      news.now.active_ns = news.now.last_step_ns = news.steps.back().end_ns;
      if (second > 0) continue;
      blackbox::Identity& who = news.identity.emplace();
      who.rank = rank, who.local_rank = rank % kRanksPerNode, who.node_rank = node, who.world_size = ranks_;
      who.pid = 100 + rank % kRanksPerNode, who.evidence = 1, who.hostname = frame.hostname;
      who.process_start_ns = who.anchor_monotonic_ns = 1;
      RankLife& life = news.life.emplace();
      life.init_begin_ns = 2, life.init_end_ns = 3, life.first_step_ns = kTraceSecondNs;
      ProcessGroup& group = news.groups[kGroup];
      group.description = "default_pg";
      for (int member = 0; member < ranks_; ++member) group.ranks.push_back(member);
    }
    return encode(frame);
  }

  void look(int second) {
    if (figures_.named_after_steps >= 0) return;
    for (const Finding& f : pipeline_.engine().said())
      if (f.kind == FindingKind::kComputeStraggler && f.severity != Severity::kInfo &&
          f.ranks == std::vector<int>{late_})
        figures_.named_after_steps = (second + 1 - kLateFrom) * kStepsPerSecond;
  }

  const int ranks_, late_;
  Pipeline pipeline_;
  NodeInbox inbox_;
  std::mt19937_64 bits_{3};
  double judging_s_ = 0, bytes_ = 0;
  Figures figures_;
};

void BM_JobScale(benchmark::State& state) {
  Figures figures;
  for (auto _ : state) {
    int ends[2];
    if (::pipe(ends) != 0) return state.SkipWithError("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      const Figures made = Job(static_cast<int>(state.range(0))).run();
      ::_exit(::write(ends[1], &made, sizeof made) == sizeof made ? 0 : 1);
    }
    ::close(ends[1]);
    const bool told = ::read(ends[0], &figures, sizeof figures) == sizeof figures;
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    if (!told) return state.SkipWithError("the case died");
  }
  state.counters["cpu_share"] = figures.cpu_share;
  state.counters["snapshot_ms"] = figures.snapshot_ms;
  state.counters["summary_MB"] = figures.summary_mb;
  state.counters["bytes_per_step"] = figures.bytes_per_step;
  state.counters["MiB"] = figures.mib;
  state.counters["named_after_steps"] = figures.named_after_steps;
}
BENCHMARK(BM_JobScale)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->Arg(4096)
    ->Arg(10000)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace stepscope
