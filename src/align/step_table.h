// Completed steps × ranks. A row closes when every rank that is alive and not suspected has completed the step, or when
// the ranks that have are too far ahead; a rank that comes later is still filled in while the row is kept (coverage).
//
// Bounded memory: the newest kRecentRows rows are kept whole; older rows are kept as a uniform sample of the run that is
// thinned by halving (every row then stands for `stride` rows). Exact sums over all rows live in RunSums.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "align/rank_step.h"

namespace stepscope {

using LedgerMs = std::array<float, kCategoryCount>;

inline constexpr uint64_t kSmallCollectiveBytes = 4096;

struct CellStall {
  uint64_t group = 0, sequence = 0;
  float stall_ms = 0, transfer_ms = 0;
  Category phase = Category::kBackward;
};

struct CellOp {
  uint64_t group = 0, sequence = 0, bytes = 0;
  uint8_t op = 0;
  float ms = 0;
};

// One rank in one step. After attribution (analyze/attribution.h) own[] also holds comm_transfer and straggler_wait,
// and the cell's categories add up to wall_ms.
struct Cell {
  bool present = false;
  uint32_t tags = 0;
  float wall_ms = 0, stall_ms = 0, wait_ms = 0, caused_ms = 0;
  int64_t end_ns = 0;
  // The main axis: the GPU's where its events were resolved, else the host's. host_ms is always the host's ledger, its
  // stalls as comm_transfer.
  bool gpu = false;
  LedgerMs ms{}, host_ms{};
  float host_wall_ms = 0;
  uint32_t host_bound = 0;          // GPU axis: bit per category, see GpuStep
  LedgerMs launching_ms{};          // GPU axis, kLaunchPhases alone: see GpuStep
  std::vector<CellOp> timed_ops;       // on the device, else on the host where completions were stamped; waiting included
  float device_comm_ms = -1;        // union of communication on the device, hidden or not; < 0: not measured
  double allocated_bytes = -1, reserved_bytes = -1, active_bytes = -1, inactive_split_bytes = -1, peak_bytes = -1;
  double held_bytes = -1;           // allocated after the optimizer; < 0: not read there in this step
  double h2d_bytes = 0;
  uint64_t retries = 0, ooms = 0, device_frees = 0;
  std::vector<LedgerMs> segments;   // own time before, between and after the stalls
  std::vector<CellStall> stalls;
  std::vector<float> bucket_ms;     // backward begin to issue of the step's k-th collective in backward
  float cpu_ms = -1, gc_ms = 0, sync_ms = 0;  // cpu_ms < 0: not measured
  int32_t involuntary_switches = -1;
  uint32_t fetch_ready = 0, fetch_out_of_order = 0, fetch_in_flight = 0, fetches = 0;
  uint32_t collectives = 0, small_collectives = 0;  // small: below kSmallCollectiveBytes and outside of backward
  double bytes = 0, samples = 0, tokens = 0, flops = 0, loss = 0;
  bool has_loss = false;
  int32_t epoch = -1;               // < 0: not known
  uint64_t signature = 0;

  float own_ms() const;  // all but transfer and wait
};

struct StepRow {
  uint32_t step = 0, tags = 0;
  std::vector<Cell> cells;     // by rank
  // caused[i * ranks + j]: ms that rank j waited because of rank i in this step; empty when nobody waited.
  std::vector<float> caused;
  float wall_ms = 0;           // longest of the ranks

  int present() const;
};

Cell to_cell(const RankStep& step);

class StepTable {
 public:
  static constexpr size_t kRecentRows = 512;
  static constexpr size_t kSampleRows = 4096;
  static constexpr uint32_t kMaxLead = 64;  // rows a rank may lag behind before its steps close without it

  using OnClose = std::function<void(StepRow&)>;
  // `on_close` sees every row once, when it closes (attribution, exact sums); rows are then kept as it left them.
  explicit StepTable(OnClose on_close);

  void add(int rank, const RankStep& step);
  // No further steps will come from this rank.
  void set_gone(int rank);
  // Steps of this rank will come, also where another process with this rank is gone.
  void await(int rank);
  // How many ranks rows should have; grows by itself as ranks appear.
  void expect_ranks(int count);
  // Closes what can be closed; with `all`, everything.
  void close_ready(bool all = false);

  // The ranks start anew (elastic restart), `world_size` of them (0 = as many as before); their steps are numbered on by
  // the caller.
  void begin_attempt(int world_size = 0);

  int ranks() const { return static_cast<int>(alive_.size()); }
  uint32_t closed() const { return closed_; }
  const std::deque<StepRow>& recent() const { return recent_; }
  // Sample of the run without the recent rows; each stands for stride() rows.
  const std::vector<StepRow>& sample() const { return sample_; }
  uint32_t stride() const { return stride_; }
  // Rows × ranks that closed rows have and should have.
  uint64_t cells_seen() const { return cells_seen_; }
  uint64_t cells_expected() const { return cells_expected_; }

 private:
  void grow(int ranks);
  void close(StepRow row);

  OnClose on_close_;
  std::vector<bool> alive_;
  std::vector<uint32_t> next_;          // per rank: the step it delivers next
  std::map<uint32_t, StepRow> open_;
  std::deque<StepRow> recent_;
  std::vector<StepRow> sample_;
  uint32_t stride_ = 1, closed_ = 0;
  size_t expected_ = 0;                 // ranks of this attempt; rows may be wider
  uint64_t cells_seen_ = 0, cells_expected_ = 0;
};

}  // namespace stepscope
