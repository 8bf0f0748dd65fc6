#include "analyze/contention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "analyze/busy_ranks.h"
#include "analyze/robust.h"
#include "analyze/work_pieces.h"

namespace stepscope {

namespace {

constexpr size_t kLeastRows = 24, kMostRanks = 12;
constexpr double kLeastMs = 0.2, kLeastContrast = 0.2;  // of a piece; of ranks beside it
constexpr double kMostIdleShare = 0.2, kMostUnsure = 0.1;
constexpr std::array kTried = {-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 3.0, 4.0};
constexpr double kMostSpread = 0.4;  // between the quartiles: beyond it the comparisons contradict each other
constexpr double kReserve = 0.1;     // of k itself, and as much at least

using RankPiece = std::pair<int, PieceKey>;
using Paces = std::array<double, kTried.size()>;  // for each k that is tried

// One piece in one step.
struct Look {
  double ms = 0, peers = 0;
  Paces paces{};
};

struct Say {
  double k = 0, weight = 0;
};

struct Placed {
  RankPiece who;
  double begin = 0, ms = 0, idle_ms = 0;
};

// Own work of the host's ranks in one step, on its clock.
class HostRow {
 public:
  HostRow(const ComparedRows::Row& row, const CoreSharing::Host& host) {
    const std::vector<Cell>& cells = row.row->cells;
    int64_t origin_ns = 0;
    auto cell = cells.begin();
    for (const int rank : host.ranks) {
      cell = std::lower_bound(cell, cells.end(), rank, [](const Cell& c, int r) { return c.rank < r; });
      if (cell == cells.end()) break;
      if (cell->rank != rank) continue;
      if (origin_ns == 0) origin_ns = cell->end_ns;
      const auto k = static_cast<size_t>(cell - cells.begin());
      lay_out(*cell, row.pieces[k], row.parts.stalls(k),
              static_cast<double>(cell->end_ns - origin_ns) * 1e-6 - static_cast<double>(cell->wall_ms));
    }
    busy_.settle();
    unsure_.settle();
  }

  const std::vector<Placed>& placed() const { return placed_; }

  // Over a piece's usual length at most; nothing where it is not known who computed beside it.
  std::optional<Look> look(const Placed& piece, double usual_ms) const {
    const double end = piece.begin + std::min(piece.ms, usual_ms), own = 1 - piece.idle_ms / piece.ms;
    if (unsure_.mean(piece.begin, end) > kMostUnsure) return std::nullopt;
    Look look{piece.ms, std::max(0.0, busy_.mean(piece.begin, end) - own), {}};
    for (size_t i = 0; i < kTried.size(); ++i) look.paces[i] = busy_.mean_pace(piece.begin, end, own, kTried[i]);
    return look;
  }

 private:
  void lay_out(const Cell& cell, const CellPieces& pieces, std::span<const CellStall> stalls, double at) {
    size_t segment = 0;
    for (const WorkPiece& p : pieces) {
      for (; segment < p.key.segment; ++segment)
        if (segment < stalls.size()) at += stalls[segment].stall_ms;
      if (!(p.ms > 0)) continue;
      busy_.add(at, at + p.ms, p.busy_ms() / p.ms);
      if (p.unsure) unsure_.add(at, at + p.ms, 1);
      placed_.push_back({{cell.rank, p.key}, at, p.ms, p.idle_ms});
      at += p.ms;
    }
  }

  BusyRanks busy_, unsure_;
  std::vector<Placed> placed_;
};

// What a piece usually is, by medians and mean paces.
struct Usual {
  double ms = 0, peers = 0;
  Paces log_work{};  // ln(ms × pace)
};

Usual usual_of(std::span<const Look> looks) {
  std::vector<double> ms, peers;
  Usual usual;
  for (const Look& look : looks) {
    ms.push_back(look.ms), peers.push_back(look.peers);
    for (size_t i = 0; i < kTried.size(); ++i) usual.log_work[i] += look.paces[i] / static_cast<double>(looks.size());
  }
  usual.ms = median(std::move(ms)), usual.peers = median(std::move(peers));
  for (double& x : usual.log_work) x = std::log(x * usual.ms);
  return usual;
}

// The k at which `off` is 0; nothing where no k that is tried comes near.
std::optional<double> root_of(const Paces& off) {
  for (size_t i = 0; i + 1 < kTried.size(); ++i) {
    if (off[i] == 0) return kTried[i];
    if (off[i] * off[i + 1] < 0) return kTried[i] + (kTried[i + 1] - kTried[i]) * off[i] / (off[i] - off[i + 1]);
  }
  return std::nullopt;
}

using AllLooks = std::map<RankPiece, std::vector<Look>>;

void compare_steps(AllLooks& all, std::vector<Say>& out) {
  for (auto& [who, looks] : all) {
    if (looks.size() < kLeastRows) continue;
    std::sort(looks.begin(), looks.end(), [](const Look& a, const Look& b) { return a.peers < b.peers; });
    const size_t third = looks.size() / 3;
    const Usual few = usual_of(std::span(looks).first(third)), many = usual_of(std::span(looks).last(third));
    const double contrast = many.peers - few.peers;
    if (contrast < kLeastContrast) continue;
    Paces off;
    for (size_t i = 0; i < off.size(); ++i) off[i] = many.log_work[i] - few.log_work[i];
    if (const auto k = root_of(off)) out.push_back({*k, contrast * few.ms});
  }
}

void compare_ranks(const AllLooks& all, std::vector<Say>& out) {
  std::map<int, std::map<PieceKey, Usual>> usual;
  for (const auto& [who, looks] : all)
    if (looks.size() >= kLeastRows) usual[who.first][who.second] = usual_of(looks);
  for (auto a = usual.begin(); a != usual.end(); ++a) {
    for (auto b = std::next(a); b != usual.end(); ++b) {
      std::vector<std::pair<const Usual*, const Usual*>> both;
      for (const auto& [key, of_a] : a->second)
        if (const auto of_b = b->second.find(key); of_b != b->second.end()) both.push_back({&of_a, &of_b->second});
      for (size_t x = 0; x < both.size(); ++x) {
        for (size_t y = x + 1; y < both.size(); ++y) {
          const auto& [ax, bx] = both[x];
          const auto& [ay, by] = both[y];
          const double contrast = std::abs((ax->peers - bx->peers) - (ay->peers - by->peers));
          if (contrast < kLeastContrast) continue;
          Paces off;
          for (size_t i = 0; i < off.size(); ++i)
            off[i] = ax->log_work[i] - bx->log_work[i] - ay->log_work[i] + by->log_work[i];
          if (const auto k = root_of(off)) out.push_back({*k, contrast * std::min({ax->ms, bx->ms, ay->ms, by->ms})});
        }
      }
    }
  }
}

double weighted_quantile(const std::vector<Say>& sorted, double q) {
  double all = 0, sum = 0;
  for (const Say& s : sorted) all += s.weight;
  for (const Say& s : sorted)
    if ((sum += s.weight) >= q * all) return s.k;
  return sorted.back().k;
}

}  // namespace

ComparedRows::ComparedRows(const Rows& rows, size_t most_rows) {
  size_t cells = 0;
  for (size_t i = rows.size(); i-- > 0 && rows_.size() < most_rows && cells < kMostCells;) {
    if (!rows.rows[i]->detailed) continue;
    rows_.emplace_back(*rows.rows[i]);
    cells += rows.rows[i]->cells.size();
  }
}

std::optional<Contention> measured_contention(const ComparedRows& rows, const CoreSharing::Host& host,
                                              const Comparable& comparable) {
  if (host.ranks.size() < 2) return Contention{};
  std::vector<HostRow> placed;
  for (const ComparedRows::Row& row : rows.rows()) placed.emplace_back(row, host);
  if (placed.size() < kLeastRows) return std::nullopt;

  struct Times {
    std::vector<double> ms, idle_ms;
  };
  std::map<RankPiece, Times> times;
  for (const HostRow& row : placed)
    for (const Placed& piece : row.placed()) {
      const auto at = std::lower_bound(host.ranks.begin(), host.ranks.end(), piece.who.first) - host.ranks.begin();
      if (at >= static_cast<long>(kMostRanks) || !comparable(piece.who.first, piece.who.second.category)) continue;
      Times& t = times[piece.who];
      t.ms.push_back(piece.ms), t.idle_ms.push_back(piece.idle_ms);
    }
  std::map<RankPiece, double> usual_ms;
  for (const auto& [who, t] : times) {
    const double ms = median(t.ms);
    if (ms >= kLeastMs && median(t.idle_ms) <= kMostIdleShare * ms) usual_ms[who] = ms;
  }
  AllLooks looks;
  for (const HostRow& row : placed)
    for (const Placed& piece : row.placed())
      if (const auto usual = usual_ms.find(piece.who); usual != usual_ms.end())
        if (const auto look = row.look(piece, usual->second)) looks[piece.who].push_back(*look);

  std::vector<Say> said;
  compare_steps(looks, said);
  compare_ranks(looks, said);
  if (said.empty()) return std::nullopt;
  std::sort(said.begin(), said.end(), [](const Say& a, const Say& b) { return a.k < b.k; });
  const double low = weighted_quantile(said, 0.25), high = weighted_quantile(said, 0.75);
  if (high - low > kMostSpread) return std::nullopt;
  const double k = std::max(0.0, weighted_quantile(said, 0.5));
  return Contention{k, std::max(k, high) * (1 + kReserve) + kReserve};
}

}  // namespace stepscope
