// Reads a run file: of a run that goes on, of one whose writer was killed, or one that came from anywhere.
//
// The file is not trusted: it is opened read-only, no SQL of it is run, memory and time are bounded, and what is
// damaged is an Error or is left out and counted. Nothing throws. One thread per reader; readers never wait for the
// writer. Cost: about 0.2 us per rank and step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "align/rank_step.h"
#include "base/result.h"
#include "store/run_record.h"
#include "store/segment.h"

namespace stepscope {

struct RowQuery {
  int32_t attempt = -1;  // -1 = all
  uint64_t from_step = 0, to_step = INT64_MAX;
};

// A walk through the segments of a file, in the order of attempt and step, up to the step that was the newest when it
// began. It holds no transaction between two segments: the writer goes on, and may meanwhile lay segments together or
// thin them out. No step comes twice, and none that is kept is left out.
struct SegmentWalk {
  int32_t attempt = 0;  // the next row is of this attempt and of this step or a later one
  uint64_t step = 0;
  int32_t last_attempt = -1;
  uint64_t last_step = 0;
  int64_t version = -1;  // of the file, as `heads` has it
  std::vector<store::SegmentHead> heads;
  size_t at = 0;
};

// Of `segment` those rows count whose step lies between the two.
struct SegmentPart {
  store::Segment segment;
  uint64_t from_step = 0, to_step = 0;
};

class RunReader {
 public:
  // Another version, no run file, no such file: one line.
  static Result<RunReader> open(const std::string& path);
  // The bytes of a whole file. `name` stands for it in messages.
  static Result<RunReader> from_bytes(std::string_view image, const std::string& name);
  RunReader(RunReader&&) noexcept;
  RunReader& operator=(RunReader&&) noexcept;
  ~RunReader();

  Result<StoredRun> run();
  Result<std::vector<RankLife>> lives();  // by attempt and rank; life.attempt says which
  Result<std::vector<StoredGroup>> groups();
  Result<std::vector<StoredFinding>> findings();  // in the order of their opening
  Result<std::vector<RunEvent>> events();         // time_ns as CLOCK_MONOTONIC again
  Result<std::vector<SeriesKey>> series();
  Result<std::vector<SeriesPoint>> samples(const SeriesKey& key);
  // The newest summary that the run wrote while it lived; nullopt: none.
  Result<std::optional<std::string>> snapshot();

  // Rows in the order of attempt and step, until `row` returns false. Cells have their categories, wall, tags, caused
  // wait, loss and counters; of their waiting, which rank they waited for most (row.caused). Not kept: segments of own
  // time, bucket times, single stalls (stalls: all in backward as one, all outside as one). Damaged segments are left
  // out. `row` sees one state of the file; while it runs, the writer's journal cannot be emptied: take what is needed,
  // work on it afterwards.
  Status for_each_row(const RowQuery& query, const std::function<bool(const StoredRow&)>& row);
  // The same rows as columns, one segment per call; nullopt at the end. Damaged segments are left out.
  Result<std::optional<SegmentPart>> next_segment(SegmentWalk& walk);
  // That have rows, ascending.
  Result<std::vector<int32_t>> attempts();
  // The most ranks that any row has; 0 without rows.
  Result<uint32_t> ranks();
  // Sums over all steps, thinned ones included. attempt -1 = all.
  Result<StoredSums> sums(int32_t attempt = -1);

  // Of the columns, the largest first.
  Result<std::vector<StoredSize>> sizes();

  // Segments, runs of samples and other pieces that were damaged so far, and what was wrong with the first.
  uint64_t damaged() const;
  const std::string& damage() const;

 private:
  struct Impl;
  explicit RunReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
