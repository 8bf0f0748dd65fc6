#include "agent/run_store.h"

#include "align/host_series.h"
#include "base/clock.h"
#include "base/file.h"
#include "report/summary_json.h"

namespace stepscope {
namespace {

constexpr uint64_t kStateNs = 10'000'000'000;     // lives, groups, findings
constexpr uint64_t kSnapshotNs = 30'000'000'000;  // the whole summary

void put_series(RunWriter& writer, const char* scope, int idx, const char* name, const SampledSeries& series) {
  for (const SamplePoint& point : series.points) writer.add_sample({scope, idx, name}, point.time_ns, point.value);
}

}  // namespace

RunStore::RunStore(const AgentConfig& config, Pipeline& pipeline) : config_(config), pipeline_(pipeline) {
  if (config.run_dir.empty()) return;
  RunWriterOptions options;
  options.run_id = config.nonce;
  options.version = config.version;
  options.start_ns = static_cast<int64_t>(config.started_ns);
  options.finding_json = finding_json;
  writer_ = std::make_unique<RunWriter>(path_join(config.run_dir, "run.db"), options);
  RunInfo run;
  run.name = config.run_name;
  run.started_at = config.started_at;
  run.status = "running";
  run.command = config.command;
  run.versions["stepscope"] = config.version;
  writer_->set_run(run);
  pipeline.engine().set_row_sink([this](const StepRow& row) { writer_->add_row(row); });
  pipeline.on_attempt([this](int attempt) {
    writer_->begin_attempt(attempt);
    if (attempt > 0)
      event("attempt", "attempt " + std::to_string(attempt + 1) + " begins", -1, static_cast<int64_t>(monotonic_ns()));
  });
}

RunStore::~RunStore() {
  pipeline_.engine().set_row_sink(nullptr);
  pipeline_.on_attempt(nullptr);
}

void RunStore::event(const std::string& kind, const std::string& text, int rank, int64_t time_ns) {
  if (!writer_) return;
  RunEvent event;
  event.time_ns = time_ns;
  event.rank = rank;
  event.kind = kind;
  event.text = text;
  writer_->add_event(std::move(event));
}

void RunStore::put_state(const Snapshot& snapshot) {
  std::vector<RankLife> lives;
  for (const Pipeline::TailId id : pipeline_.tails()) {
    if (!pipeline_.counts_as_rank(id)) continue;
    lives.push_back(pipeline_.tail(id).life());
    for (const auto& [group, members] : pipeline_.tail(id).groups()) {
      writer_->set_group(group, members.description, members.ranks);
    }
  }
  writer_->set_lives(lives);
  writer_->put_findings(snapshot.findings, static_cast<int64_t>(snapshot.steps) - 1);
}

void RunStore::tick(uint64_t now_ns) {
  if (!writer_) return;
  if (next_state_ns_ == 0) {
    next_state_ns_ = now_ns + kStateNs;
    next_snapshot_ns_ = now_ns + kSnapshotNs;
  }
  const uint64_t steps = pipeline_.engine().closed_steps();
  if (now_ns >= next_state_ns_ && steps != steps_then_) {
    next_state_ns_ = now_ns + kStateNs;
    steps_then_ = steps;
    RunContext context = pipeline_.context();
    context.run.name = config_.run_name;
    context.run.started_at = config_.started_at;
    context.run.command = config_.command;
    context.run.status = "running";
    context.run.duration_s = static_cast<double>(now_ns - config_.started_ns) * 1e-9;
    const Snapshot snapshot = assemble(pipeline_.engine(), context);
    put_state(snapshot);
    if (now_ns >= next_snapshot_ns_) {
      next_snapshot_ns_ = now_ns + kSnapshotNs;
      writer_->put_snapshot(summary_json(snapshot), static_cast<int64_t>(steps) - 1, static_cast<int64_t>(now_ns));
    }
  }
  writer_->tick(now_ns);
}

void RunStore::put_samples(const HostFacts& facts) {
  for_each_series(facts, [&](const char* scope, int idx, const char* name, const SampledSeries& series) {
    put_series(*writer_, scope, idx, name, series);
  });
}

void RunStore::finish(const Snapshot& snapshot, const HostFacts& facts, uint64_t now_ns) {
  if (!writer_) return;
  writer_->set_run(snapshot.run);
  put_state(snapshot);
  put_samples(facts);
  writer_->put_snapshot(summary_json(snapshot), static_cast<int64_t>(snapshot.steps) - 1, static_cast<int64_t>(now_ns));
  writer_->flush(now_ns);
  writer_->close();
}

std::optional<Error> RunStore::take_error() { return writer_ ? writer_->take_error() : std::nullopt; }

}  // namespace stepscope
