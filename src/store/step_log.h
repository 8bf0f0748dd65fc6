// Rows on their way into the file: they gather in groups; each flush writes the new ones as a small segment, and a
// group that is complete as one large segment instead of its small ones.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "store/part.h"
#include "store/retention.h"

namespace stepscope::store {

class StepLog : public Part {
 public:
  StepLog(uint64_t max_bytes, uint32_t full_steps)
      : max_bytes_(max_bytes), full_steps_(full_steps), retention_(max_bytes, full_steps) {}

  // Reads what the file already holds.
  Status attach(Database& db);
  void detach() { store_.reset(); }
  // False: too much waits already, the row is lost.
  bool add(int32_t attempt, FlatRow row);
  bool holds(int32_t attempt, uint64_t step);
  // The groups that are open take no more rows.
  void end_groups();

  size_t waiting_rows() const { return waiting_; }
  bool group_complete() const;
  uint64_t dropped_steps() const { return retention_.dropped_steps(); }
  uint64_t rows_written() const { return rows_; }
  uint64_t cells_written() const { return cells_; }
  // The file met its bound: makes room, in a transaction of its own.
  Status shrink();

  Status write(Database& db) override;
  void committed() override;
  void rolled_back() override;
  uint64_t give_up() override;

 private:
  struct Group {
    int32_t attempt = 0;
    std::vector<FlatRow> rows;
    size_t flushed = 0, flushing = 0;          // rows that are in the file; will be once the transaction is
    std::vector<int64_t> small, small_before;  // ids of its small segments; as the file has them
    bool ended = false, done = false;
    uint32_t target = 0;
    std::vector<int32_t> ranks;  // of its columns: all that its rows may have
  };
  Status write_group(Group& group);
  void pin_small();

  uint64_t max_bytes_;
  uint32_t full_steps_;
  Retention retention_;
  Database* db_ = nullptr;
  std::unique_ptr<SegmentStore> store_;
  ColumnCodec codec_;
  std::deque<Group> groups_;
  std::vector<int32_t> ranks_;  // that rows of the attempt `ranks_attempt_` have had
  int32_t ranks_attempt_ = -1;
  size_t waiting_ = 0, held_cells_ = 0;
  bool stale_ = false;  // the catalogue must be read again
  int32_t last_attempt_ = -1;
  int64_t last_step_ = -1;
  uint64_t rows_ = 0, cells_ = 0;
};

}  // namespace stepscope::store
