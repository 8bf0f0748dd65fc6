// Writes a run into one SQLite file (docs/formats/run_file.md), while it goes on.
//
// Owned by the agent; one thread. No clock inside: tick() tells the time. Rows gather in memory and are written when 64
// are there or 5 s have passed since the oldest; a crash loses no more than those. Reads of the file by others never
// wait for the writer nor stop it, except on network file systems (rollback journal there: a reader that holds on makes
// the writer keep its rows, and lose them, counted, when too many pile up).
//
// Cost: about 0.5 us per rank and step all in all, in bursts at the flushes; memory: rows that wait (at most about
// 40 MiB, 300 bytes per rank and step) and 2 MiB of page cache. The file stays below `max_bytes`: older steps are
// thinned out, by halving, with sums and peaks kept; findings stay.
//
// Failure: nothing throws, nothing blocks beyond the disk itself. A file that cannot be made or written (read-only
// folder, disk full) is told once by take_error(); from then on every call is cheap, what is given is counted as lost,
// and after 60 s writing is tried again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "align/rank_step.h"
#include "base/result.h"
#include "diagnose/snapshot.h"
#include "store/run_record.h"

namespace stepscope {

enum class RunJournal : uint8_t { kAuto, kWal, kRollback };  // kAuto: rollback on network file systems, else WAL

struct RunWriterOptions {
  std::string run_id;                 // a file of another run is not touched; of the same run: gone on with
  std::string version;                // of stepscope
  int64_t start_ns = 0;               // CLOCK_MONOTONIC at the run's start
  uint64_t max_bytes = 256ull << 20;  // of the file; at least 1 MiB
  uint32_t full_steps = 1'000'000;    // the newest so many are kept one by one, room permitting; older ones thin out
  uint32_t flush_rows = 64;
  uint64_t flush_ns = 5'000'000'000;
  uint64_t sample_flush_ns = 15'000'000'000;
  RunJournal journal = RunJournal::kAuto;
  uint32_t page_bytes = 4096;
  std::string (*finding_json)(const Finding&) = nullptr;  // report/summary_json.h has it; without: no JSON
};

struct RunWriterStats {
  uint64_t rows = 0, cells = 0;  // written, that is committed
  uint64_t file_bytes = 0;       // of the database, without its journal
  uint64_t lost_rows = 0, lost_events = 0, lost_samples = 0, lost_findings = 0, lost_snapshots = 0;
  uint64_t dropped_steps = 0;  // thinned out of the file's far end for want of room
  uint64_t lost() const { return lost_rows + lost_events + lost_samples + lost_findings + lost_snapshots; }
};

class RunWriter {
 public:
  RunWriter(std::string path, RunWriterOptions options);
  ~RunWriter();  // closes
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  // What is known of the run and its ranks; replaces what was known. Written with the next flush.
  void set_run(const RunInfo& run);
  void set_lives(const std::vector<RankLife>& lives);
  void set_group(uint64_t id, const std::string& description, const std::vector<int>& ranks);

  // Rows and events that follow belong to this attempt (0 is the first).
  void begin_attempt(int32_t attempt);
  // A closed row, after attribution. Rows come in the order of their steps; a step that the file already holds (an
  // agent that re-reads its rings) is left out.
  void add_row(const StepRow& row);
  void add_event(RunEvent event);
  // Everything the rules say at `step`: what is new is opened, what is missing is closed.
  void put_findings(const std::vector<Finding>& findings, int64_t step);
  void add_sample(const SeriesKey& key, int64_t time_ns, double value);
  // The newest summary as JSON: what `report` shows of a run that ended without one.
  void put_snapshot(std::string json, int64_t step, int64_t time_ns);

  // Call it often; it writes when something is due.
  void tick(uint64_t now_ns);
  // Writes what waits, now.
  void flush(uint64_t now_ns);
  // Writes everything and leaves a single file without journals. Further calls do nothing.
  void close();

  // Each failure once: what could not be done and why. nullopt: nothing new.
  std::optional<Error> take_error();
  bool failed() const;
  RunWriterStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
