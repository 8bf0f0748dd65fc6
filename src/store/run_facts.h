// The tables run, rank, rank_group and snapshot: small facts that are replaced as a whole.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/rank_step.h"
#include "diagnose/snapshot.h"
#include "store/part.h"
#include "store/run_record.h"

namespace stepscope::store {

inline constexpr size_t kMaxSnapshotBytes = 64u << 20;
// What of a RankLife has no column of its own, as JSON; and back.
std::string life_detail(const RankLife& life);
void read_life_detail(std::string_view json, RankLife& life);

class RunFacts : public Part {
 public:
  RunFacts(std::string run_id, int64_t start_ns) : run_id_(std::move(run_id)), start_ns_(start_ns) {}

  // The file already says what the run is.
  void resumed() { run_changed_ = false; }
  void set_run(const RunInfo& run);
  void set_lives(int32_t attempt, const std::vector<RankLife>& lives);
  void set_group(int32_t attempt, uint64_t id, const std::string& description, const std::vector<int>& ranks);
  // False: larger than kMaxSnapshotBytes.
  bool set_snapshot(std::string json, int64_t step, int64_t time_ns);
  bool waits() const { return run_changed_ || !lives_.empty() || !groups_.empty() || snapshot_; }

  Status write(Database& db) override;
  void committed() override;
  void rolled_back() override {}
  // Facts stay in memory; a snapshot is lost.
  uint64_t give_up() override;

 private:
  struct SnapshotText {
    std::string json;
    int64_t step = -1, time_ns = 0;
  };
  Status write_run(Database& db);
  Status write_lives(Database& db);
  Status write_groups(Database& db);
  Status write_snapshot(Database& db);

  std::string run_id_;
  int64_t start_ns_;
  RunInfo run_;
  bool run_changed_ = true;
  std::map<std::pair<int32_t, int>, RankLife> lives_;  // that wait
  std::map<std::pair<int32_t, uint64_t>, StoredGroup> groups_;
  std::optional<SnapshotText> snapshot_;
};

}  // namespace stepscope::store
