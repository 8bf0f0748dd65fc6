// Completed steps × ranks. A row closes when every rank that is awaited, alive and not suspected has completed the
// step, or when the ranks that have are too far ahead; a rank that comes later is still filled in while the row is kept
// (coverage). A rank that counts a step less than the others from somewhere on is moved to where its operations meet
// theirs (align/step_alignment.h); in the row that it left out nothing is awaited of it. Awaited is a rank that was
// seen or announced; the world may be larger, and what was not seen has no cell: never a 0.
//
// Bounded memory, in bytes and whatever the world's size: the newest rows are kept whole; older rows lose their detail
// (stalls, segments, single operations) first and are then kept as a uniform sample of the run that is thinned by
// halving (every row then stands for `stride` rows). Exact sums over all rows live in RunSums.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "align/rank_step.h"
#include "align/step_alignment.h"

namespace stepscope {

using LedgerMs = std::array<float, kCategoryCount>;

inline constexpr uint64_t kSmallCollectiveBytes = 4096;

// What the ranks of one stall meet in: a collective of a group, one message between two of its ranks, or, where nobody
// told which collective it is, the rank's so-many-th wait.
struct SyncPointKey {
  uint64_t group = 0, sequence = 0;
  int32_t source = -1, target = -1;  // global ranks of a message, -1 = none
  bool counted = false;
  auto operator<=>(const SyncPointKey&) const = default;
};

// Stalls of this group met whoever has one of the same sequence: what a run file keeps (store/metric.h).
inline constexpr uint64_t kSeenGroup = ~uint64_t{0};
// Stalls of this group are for ranks that nobody saw: those who have one of the same sequence did not meet.
inline constexpr uint64_t kUnseenGroup = kSeenGroup - 1;

struct CellStall {
  uint64_t group = 0, sequence = 0;
  float stall_ms = 0, transfer_ms = 0;
  Category phase = Category::kBackward;
  float unresolved_ms = 0;  // see Category::kUnresolved; transfer + unresolved + waiting == stall
  StallSyncPoint sync_point{};

  SyncPointKey key(int rank) const;  // of a stall of `rank`
};

struct CellOp {
  uint64_t group = 0, sequence = 0, bytes = 0;
  uint8_t op = 0;
  float ms = 0;
  int32_t peer = -1;  // of a message, as its group counts ranks
};

// One rank in one step; its figures stand in step_fields.def. After attribution (analyze/attribution.h) ms[] also holds
// the parts of its stalls, and the cell's categories add up to wall_ms.
struct Cell : CellFigures {
  int64_t end_ns = 0;
  int32_t rank = -1;
  float wall_ms = 0, stall_ms = 0, wait_ms = 0;
  // Of caused_ms: in sync points of which not all members were seen, so that others may be later still.
  float caused_unsure_ms = 0;
  // The main axis: the GPU's where its events were resolved, else the host's. host_ms is always the host's ledger, its
  // stalls as comm_transfer.
  bool gpu = false;
  LedgerMs ms{}, host_ms{};
  float host_wall_ms = 0;
  LedgerMs launching_ms{};         // GPU axis, kLaunchPhases alone: see GpuStep
  std::vector<CellOp> timed_ops;   // on the device, else on the host where completions were stamped; waiting included
  std::vector<LedgerMs> segments;  // own time before, between and after the stalls
  std::vector<CellStall> stalls;
  std::vector<float> bucket_ms;  // backward begin to issue of the step's k-th collective in backward

  float own_ms() const;  // all but what the stalls became
};

// `waiter` waited `ms` because of `causer` in one step; ranks.
struct Blame {
  int32_t causer = -1, waiter = -1;
  float ms = 0;
};

struct StepRow {
  uint64_t step = 0;
  uint32_t tags = 0;
  bool detailed = true;       // the cells still have what drop_detail() takes
  std::vector<Cell> cells;    // of the ranks that were seen in this step, by rank, each once
  std::vector<Blame> caused;  // by causer, then waiter, each pair once; empty when nobody waited
  float wall_ms = 0;          // longest of the ranks

  // The rank's cell, nullptr where it was not seen. O(log ranks), O(1) where all ranks were.
  const Cell* find(int rank) const;
  Cell* find(int rank) { return const_cast<Cell*>(std::as_const(*this).find(rank)); }
  // What it waited for whom; O(log blames).
  float caused_ms(int causer, int waiter) const;
  void drop_detail();
  size_t bytes() const;  // of memory
};

// Brings `caused` into its order; what was said of one pair more than once is added up.
void settle(std::vector<Blame>& caused);

Cell to_cell(int rank, const RankStep& step);

class StepTable {
 public:
  static constexpr size_t kRecentRows = 512, kLeastRecentRows = 96;
  static constexpr size_t kSampleRows = 4096, kLeastSampleRows = 64;
  static constexpr uint32_t kMaxLead = 64;  // rows a rank may lag behind before its steps close without it
  // Of kept rows; more where the ranks seen are so many that kLeastRecentRows of them need more.
  static constexpr size_t kKeptBytes = size_t{16} << 20, kKeptBytesPerRank = size_t{96} << 10;

  using OnClose = std::function<void(StepRow&)>;
  // `on_close` sees every row once, when it closes (attribution, exact sums); rows are then kept as it left them.
  // `on_late` sees a kept row that a late rank was filled into; whether it was detailed tells what can still be worked
  // out.
  using OnLate = std::function<void(StepRow&, Cell&)>;
  explicit StepTable(OnClose on_close, OnLate on_late = nullptr);

  // Costs O(log ranks), and where it is late O(kept rows).
  void add(int rank, const RankStep& step);
  // No further steps will come from this rank.
  void set_gone(int rank);
  // Steps of this rank will come, also where another process with this rank is gone: rows wait for it, as for every
  // rank that was seen in this attempt.
  void await(int rank);
  // How many ranks rows should have; grows by itself as ranks appear.
  void expect_ranks(int count);
  // Closes what can be closed; with `all`, everything.
  void close_ready(bool all = false);

  // The ranks start anew (elastic restart), `world_size` of them (0 = as many as before); their steps are numbered on
  // by the caller.
  void begin_attempt(int world_size = 0);

  int ranks() const { return world_; }                    // seen or not
  const std::vector<int>& seen() const { return seen_; }  // ranks with a step, ascending
  uint64_t closed() const { return closed_; }
  const std::deque<StepRow>& recent() const { return recent_; }
  // Sample of the run without the recent rows; each stands for stride() rows.
  const std::vector<StepRow>& sample() const { return sample_; }
  uint32_t stride() const { return stride_; }
  // Rows × ranks that closed rows have and should have.
  uint64_t cells_seen() const { return cells_seen_; }
  uint64_t cells_expected() const { return cells_expected_; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Progress {
    uint64_t next = 0;  // the step it delivers next
    bool alive = true;
  };
  Progress& progress(int rank);
  void leave(const Progress& p);  // no longer waited for at its step
  void fill_late(int rank, uint64_t number, const RankStep& step);
  size_t realign(uint64_t number);  // returns how many ranks left this row out
  void move_on(int rank, uint64_t number);
  void close(StepRow row, size_t left_out);
  void keep(StepRow row);
  void retire_oldest();
  void halve_sample();
  bool drop_oldest_detail(size_t newest_kept);
  size_t bytes_allowed() const;

  OnClose on_close_;
  OnLate on_late_;
  std::unordered_map<int, Progress> progress_;  // of awaited ranks
  std::map<uint64_t, uint32_t> waiting_at_;     // of those alive: how many deliver this step next
  std::vector<int> seen_;
  std::map<uint64_t, StepRow> open_;  // cells as they came
  StepAlignment alignment_;
  std::unordered_map<int, uint64_t> left_out_;  // steps of the job that a rank did not count, in this attempt
  std::deque<StepRow> recent_;
  std::vector<StepRow> sample_;
  int world_ = 0, expected_ = 0;  // ranks of the job so far; of this attempt, where rows may be wider
  uint32_t stride_ = 1;
  uint64_t closed_ = 0, ahead_ = 0;
  uint64_t cells_seen_ = 0, cells_expected_ = 0;
  size_t kept_bytes_ = 0, plain_ = 0;  // rows without detail: the oldest `plain_` of sample and recent together
};

}  // namespace stepscope
