#include "store/run_writer.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <utility>

#include "store/event_log.h"
#include "store/finding_log.h"
#include "store/run_database.h"
#include "store/run_facts.h"
#include "store/sample_log.h"
#include "store/step_log.h"
#include "store/step_walls.h"

namespace stepscope {

using namespace store;

namespace {

constexpr uint64_t kRetryNs = 60'000'000'000, kBusyRetryNs = 200'000'000;

}  // namespace

struct RunWriter::Impl {
  std::string path;
  RunWriterOptions options;
  StepLog steps;
  StepWalls walls;
  EventLog events;
  FindingLog findings;
  SampleLog samples;
  RunFacts facts;
  std::unique_ptr<RunDatabase> file;  // after the parts: their statements must not outlive it, see detach()
  RunWriterStats stats;
  int32_t attempt = 0;
  uint64_t now_ns = 0, since_ns = 0, samples_since_ns = 0, try_again_ns = 0;
  bool failed = false, hopeless = false, closed = false, attached = false;
  std::optional<Error> error;
  uint64_t told_lost = 0;

  Impl(std::string where, RunWriterOptions how)
      : path(std::move(where)),
        options(std::move(how)),
        steps(options.max_bytes, options.full_steps),
        events(options.start_ns),
        findings(options.finding_json),
        samples(options.start_ns, options.max_bytes),
        facts(options.run_id, options.start_ns) {
    open();
  }

  std::array<Part*, 6> parts() { return {&steps, &walls, &events, &findings, &samples, &facts}; }

  void open() {
    auto opened = RunDatabase::open(path, options);
    if (!opened) return fall(opened.error());
    file = std::move(*opened);
    Status status = steps.attach(file->db());
    if (status) status = samples.attach(file->db());
    if (!status) return fall(status.error());
    if (file->resumed()) facts.resumed();
    attached = true;
  }

  // Writing does not work: told once, what waits is lost.
  void fall(Error why) {
    if (!failed) error = std::move(why);
    failed = true;
    if (file && file->beyond_repair()) hopeless = true;
    try_again_ns = now_ns + kRetryNs;
    give_up();
  }

  void give_up() {
    stats.lost_rows += steps.give_up();
    walls.give_up();
    stats.lost_events += events.give_up();
    stats.lost_samples += samples.give_up();
    findings.give_up();
    stats.lost_snapshots += facts.give_up();
    since_ns = samples_since_ns = 0;
  }

  bool anything_waits() const {
    return steps.waiting_rows() > 0 || events.waits() || findings.waits() || facts.waits();
  }

  Status write_losses() {
    stats.dropped_steps = steps.dropped_steps();
    const uint64_t lost = stats.lost() + stats.dropped_steps;
    if (lost == told_lost) return {};
    auto meta = file->db().prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)");
    if (!meta) return std::unexpected(meta.error());
    const std::pair<const char*, uint64_t> all[] = {
        {"lost_rows", stats.lost_rows},           {"lost_events", stats.lost_events},
        {"lost_samples", stats.lost_samples},     {"lost_findings", stats.lost_findings},
        {"lost_snapshots", stats.lost_snapshots}, {"dropped_steps", stats.dropped_steps}};
    for (const auto& [key, count] : all)
      if (!meta->bind(key, count).run()) return std::unexpected(file->db().last_error());
    told_lost = lost;
    return {};
  }

  Status write_parts(bool with_samples) {
    Status status;
    for (Part* part : parts())
      if (status && (part != &samples || with_samples)) status = part->write(file->db());
    return status ? write_losses() : status;
  }

  void roll_back() {
    file->roll_back();
    for (Part* part : parts()) part->rolled_back();
    told_lost = ~0ull;
  }

  // Once more with less room for steps, when the bound on the file's size was met.
  bool made_room() {
    if (file->begin() != RunDatabase::Begin::kBegun) return false;
    if (!steps.shrink()) {
      roll_back();
      return false;
    }
    return file->commit() == RunDatabase::Begin::kBegun;
  }

  void write(bool with_samples) {
    for (unsigned attempt_left = 3; attempt_left > 0; --attempt_left) {
      const auto begun = file->begin();
      if (begun == RunDatabase::Begin::kBusy) return wait_for_others();
      if (begun == RunDatabase::Begin::kError) return fall(file->db().last_error());
      if (Status status = write_parts(with_samples); !status) {
        const bool full = file->db().last_code() == SQLITE_FULL && file->at_bound();
        roll_back();
        if (full && attempt_left > 1 && made_room()) continue;
        return fall(status.error());
      }
      const auto committed = file->commit();
      if (committed == RunDatabase::Begin::kBegun) return written(with_samples);
      const Error why = file->db().last_error();
      roll_back();
      return committed == RunDatabase::Begin::kBusy ? wait_for_others() : fall(why);
    }
  }

  void wait_for_others() { try_again_ns = now_ns + kBusyRetryNs; }

  void written(bool with_samples) {
    for (Part* part : parts())
      if (part != &samples || with_samples) part->committed();
    since_ns = 0;
    if (with_samples) samples_since_ns = 0;
    stats.rows = steps.rows_written();
    stats.cells = steps.cells_written();
    stats.file_bytes = file->file_bytes();
    if (!failed) return;
    failed = false;
    events.add({.time_ns = static_cast<int64_t>(now_ns),
                .attempt = attempt,
                .kind = "run_file",
                .text = "writing works again; " + std::to_string(stats.lost_rows) + " rows were lost so far"});
  }

  void flush(bool with_samples) {
    if (closed) return;
    if (failed && (hopeless || now_ns < try_again_ns)) return give_up();
    if (!failed && now_ns < try_again_ns) return;  // somebody holds the file
    if (!attached) {
      file.reset();
      open();
      if (!attached) return;
    }
    write(with_samples);
  }
};

RunWriter::RunWriter(std::string path, RunWriterOptions options)
    : impl_(std::make_unique<Impl>(std::move(path), std::move(options))) {}
RunWriter::~RunWriter() { close(); }

void RunWriter::set_run(const RunInfo& run) { impl_->facts.set_run(run); }
void RunWriter::set_lives(const std::vector<RankLife>& lives) { impl_->facts.set_lives(impl_->attempt, lives); }
void RunWriter::set_group(uint64_t id, const std::string& description, const std::vector<int>& ranks) {
  impl_->facts.set_group(impl_->attempt, id, description, ranks);
}

void RunWriter::begin_attempt(int32_t attempt) {
  impl_->steps.end_groups();
  impl_->attempt = std::max(0, attempt);
}

void RunWriter::add_row(const StepRow& row) {
  Impl& m = *impl_;
  if (m.closed || m.steps.holds(m.attempt, row.step)) return;
  if (m.failed && (m.hopeless || m.now_ns < m.try_again_ns)) {
    ++m.stats.lost_rows;
    return;
  }
  if (!m.steps.add(m.attempt, to_flat(row))) {
    ++m.stats.lost_rows;
    return;
  }
  m.walls.add(wall_of(m.attempt, row, m.options.start_ns));
  if (m.steps.waiting_rows() >= m.options.flush_rows || m.steps.group_complete()) m.flush(false);
}

void RunWriter::add_event(RunEvent event) {
  if (event.attempt < 0) event.attempt = impl_->attempt;
  if (impl_->closed || !impl_->events.add(std::move(event))) ++impl_->stats.lost_events;
}

void RunWriter::put_findings(const std::vector<Finding>& findings, int64_t step) {
  if (impl_->closed) return;
  impl_->stats.lost_findings += impl_->findings.put(impl_->attempt, findings, step);
}

void RunWriter::add_sample(const SeriesKey& key, int64_t time_ns, double value) {
  if (impl_->closed || !impl_->samples.add(key, time_ns, value)) ++impl_->stats.lost_samples;
}

void RunWriter::put_snapshot(std::string json, int64_t step, int64_t time_ns) {
  if (impl_->closed || !impl_->facts.set_snapshot(std::move(json), step, time_ns)) ++impl_->stats.lost_snapshots;
}

void RunWriter::tick(uint64_t now_ns) {
  Impl& m = *impl_;
  m.now_ns = now_ns;
  if (m.closed) return;
  const bool waits = m.anything_waits();
  if (waits && m.since_ns == 0) m.since_ns = now_ns;
  if (m.samples.waits() && m.samples_since_ns == 0) m.samples_since_ns = now_ns;
  const bool samples_due = m.samples_since_ns != 0 && now_ns - m.samples_since_ns >= m.options.sample_flush_ns;
  const bool due = waits && (now_ns - m.since_ns >= m.options.flush_ns ||
                             m.steps.waiting_rows() >= m.options.flush_rows || m.steps.group_complete());
  if (due || samples_due) m.flush(samples_due);
}

void RunWriter::flush(uint64_t now_ns) {
  impl_->now_ns = now_ns;
  impl_->flush(true);
}

void RunWriter::close() {
  Impl& m = *impl_;
  if (m.closed) return;
  m.steps.end_groups();
  if (!m.failed) m.try_again_ns = 0;
  m.flush(true);
  if (m.file && !m.failed) m.file->finish();
  m.closed = true;
  // Statements go before their database does.
  m.steps.detach();
  m.file.reset();
}

std::optional<Error> RunWriter::take_error() { return std::exchange(impl_->error, std::nullopt); }
bool RunWriter::failed() const { return impl_->failed; }
RunWriterStats RunWriter::stats() const { return impl_->stats; }

}  // namespace stepscope
