// The tables series and sample: what samplers saw, as compressed runs of points. The newest run of a series is written
// again while it grows; when samples take more than their room, the largest series are thinned: pairs of points become
// their mean, and their largest value is kept beside it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/column_codec.h"
#include "store/part.h"
#include "store/run_record.h"

namespace stepscope::store {

struct SampleRun {
  std::vector<SeriesPoint> points;
  uint32_t stride = 1;
};
struct EncodedRun {
  std::string time, value, peak;
};  // sealed; peak is empty at stride 1

EncodedRun encode_run(const SampleRun& run, ColumnCodec& codec);
Result<SampleRun> decode_run(std::string_view time, std::string_view value, std::string_view peak, uint32_t points,
                             uint32_t stride, ColumnCodec& codec);
inline constexpr uint32_t kMaxRunPoints = 4096;

class SampleLog : public Part {
 public:
  static constexpr size_t kMaxSeries = 8192, kRunPoints = 128;

  SampleLog(int64_t start_ns, uint64_t max_bytes) : start_ns_(start_ns), max_bytes_(max_bytes) {}
  Status attach(Database& db);
  bool add(const SeriesKey& key, int64_t time_ns, double value);
  Status write(Database& db) override;
  void committed() override;
  void rolled_back() override;
  uint64_t give_up() override;
  bool waits() const { return waits_; }

 private:
  struct Series {
    int64_t id = 0, run_id = 0;  // run_id: row of the newest run, 0 = not written yet
    bool changed = false;
    int64_t new_run_id = 0;           // as this transaction leaves it
    std::vector<SeriesPoint> points;  // of the newest run
    uint64_t count = 0, unwritten = 0;
    double first_s = 0, last_s = 0, last = 0, sum = 0, min = 0, max = 0;
  };
  Status write_series(const SeriesKey& key, Series& series, Statement& describe, Statement& insert, Database& db);
  Status thin(Database& db);

  int64_t start_ns_;
  uint64_t max_bytes_;
  ColumnCodec codec_;
  std::map<SeriesKey, Series> series_;
  int64_t next_id_ = 1;
  bool waits_ = false;
};

}  // namespace stepscope::store
