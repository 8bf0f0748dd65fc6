#include "analyze/shared_cores.h"

#include <algorithm>

#include "analyze/busy_ranks.h"
#include "analyze/work_pieces.h"

namespace stepscope {

namespace {

constexpr size_t kMostCells = 4096;  // of the rows that are replayed: every so-manyth is
constexpr int kRounds = 6;

// The pieces of one cell that is replayed.
struct Work {
  CellPieces pieces;
  std::vector<double> recorded, now;  // how many times as long it took for the ranks beside it; takes in the replay
  size_t host = 0;
  bool shares = false;
};

class RowReplay {
 public:
  RowReplay(const StepRow& row, const std::vector<int>& ranks, const CoreSharing& sharing,
            const std::vector<double>& per_peer)
      : row_(row), parts_(row), ranks_(ranks), per_peer_(per_peer) {
    std::vector<CellPieces> pieces = pieces_of(row, parts_);
    for (size_t k = 0; k < row.cells.size(); ++k) {
      Work& work = work_.emplace_back();
      work.pieces = std::move(pieces[k]);
      work.recorded.assign(work.pieces.size(), 1);
      work.now = work.recorded;
      const auto host = sharing.host_of.find(row.cells[k].rank);
      work.shares = host != sharing.host_of.end() && !row.cells[k].gpu;  // on a device cores do not decide
      if (work.shares) work.host = host->second;
    }
  }

  // As recorded; `clock` advances.
  void record(std::vector<double>& clock) {
    look_beside(run(clock), 1);
    for (Work& work : work_) work.recorded = work.now;
  }

  void reduce(size_t row, const Reduction& reduce) {
    for (size_t k = 0; k < work_.size(); ++k) {
      Work& work = work_[k];
      take_away(work.pieces, reduce(row, row_.cells[k]));
      work.recorded.resize(work.pieces.size(), 1);  // pieces may have been added
    }
  }

  void replay_as_recorded(std::vector<double>& clock) {
    for (Work& work : work_) work.now = work.recorded;
    (void)run(clock);
  }

  void replay_shared(std::vector<double>& clock) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> tried = clock;
      look_beside(run(tried), round == 0 ? 1 : 0.5);
    }
    (void)run(clock);
  }

 private:
  static double busy_ms(const Work& work, size_t p) {
    return work.pieces[p].busy_ms() * work.now[p] / work.recorded[p];
  }

  std::vector<Lane> run(std::vector<double>& clock) const {
    std::vector<Lane> lanes;
    lanes.reserve(work_.size());
    for (size_t k = 0; k < work_.size(); ++k) {
      const Work& work = work_[k];
      const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), row_.cells[k].rank) - ranks_.begin();
      Lane& lane = lanes.emplace_back();
      lane.rank = row_.cells[k].rank, lane.participant = static_cast<size_t>(at);
      lane.stalls = parts_.stalls(k);
      lane.segments.assign(parts_.segments(k).size(), 0);
      for (size_t p = 0; p < work.pieces.size(); ++p)
        lane.segments[work.pieces[p].key.segment] += static_cast<float>(work.pieces[p].idle_ms + busy_ms(work, p));
    }
    replay_row(lanes, clock);
    return lanes;
  }

  // Who computes beside each piece in this replay; `share` of the news is taken over.
  void look_beside(const std::vector<Lane>& lanes, double share) {
    struct Span {
      double begin = 0, end = 0, busy = 0;
    };
    std::vector<std::vector<Span>> spans(work_.size());
    std::vector<BusyRanks> hosts(per_peer_.size());
    for (size_t k = 0; k < work_.size(); ++k) {
      const Work& work = work_[k];
      if (!work.shares) continue;
      std::vector<double> at = lanes[k].begins;
      for (size_t p = 0; p < work.pieces.size(); ++p) {
        const double busy = busy_ms(work, p), ms = work.pieces[p].idle_ms + busy;
        double& now = at[work.pieces[p].key.segment];
        spans[k].push_back({now, now + ms, ms > 0 ? busy / ms : 0});
        hosts[work.host].add(now, now + ms, spans[k].back().busy);
        now += ms;
      }
    }
    for (BusyRanks& host : hosts) host.settle();
    for (size_t k = 0; k < work_.size(); ++k) {
      Work& work = work_[k];
      for (size_t p = 0; p < spans[k].size(); ++p) {
        const Span& s = spans[k][p];
        const double slowed = 1 / hosts[work.host].mean_pace(s.begin, s.end, s.busy, per_peer_[work.host]);
        work.now[p] += share * (slowed - work.now[p]);
      }
    }
  }

  const StepRow& row_;
  RowSegments parts_;
  const std::vector<int>& ranks_;
  const std::vector<double>& per_peer_;
  std::vector<Work> work_;
};

double latest(const std::vector<double>& clock) {
  return clock.empty() ? 0 : *std::max_element(clock.begin(), clock.end());
}

}  // namespace

double shared_cores_factor(const Rows& rows, const Reduction& reduce, const CoreSharing& sharing,
                           const std::vector<double>& per_peer, size_t most_rows) {
  if (std::all_of(per_peer.begin(), per_peer.end(), [](double k) { return k <= 0; })) return 1;
  const std::vector<int> ranks = rows.seen();
  std::vector<double> recorded(ranks.size(), 0), plain = recorded, shared = recorded;
  const size_t rows_allowed = std::clamp<size_t>(kMostCells / std::max<size_t>(1, ranks.size()), 1, most_rows);
  const size_t stride = 1 + (rows.empty() ? 0 : (rows.size() - 1) / rows_allowed);
  double plain_ms = 0, shared_ms = 0;
  for (size_t i = 0; i < rows.size(); i += stride) {
    RowReplay row(*rows.rows[i], ranks, sharing, per_peer);
    const double plain_before = latest(plain), shared_before = latest(shared);
    row.record(recorded);
    if (reduce) row.reduce(i, reduce);
    row.replay_shared(shared);
    row.replay_as_recorded(plain);
    plain_ms += (latest(plain) - plain_before) * rows.weights[i];
    shared_ms += (latest(shared) - shared_before) * rows.weights[i];
  }
  return plain_ms > 0 ? shared_ms / plain_ms : 1;
}

}  // namespace stepscope
