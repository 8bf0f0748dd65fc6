// How much slower a rank's own work gets for each other rank of its host that computes at once, from the steps of the
// run itself: beside `a` of them it goes at the pace 1 / (1 + k × a). Two comparisons tell k, both of the same piece of
// work (analyze/work_pieces.h) beside few and beside many ranks; k is where its time × pace is the same:
//
//   within a rank     its steps in which few others computed beside it with those in which many did
//   between ranks     two ranks, two pieces: how fast a rank is in general cancels
//
// k is the median of what all comparisons say, weighted by how much they tell. Whether others compute is looked up on
// the host's clock, over the piece's usual length, so that a long piece is not compared with what its length brings
// about. Pieces that the change under study shortens are left out, and those beside which it is not known who computes.
// Where too few comparisons differ in company, or they contradict each other, k cannot be told.
//
// Pure. Rows are taken apart once for all hosts, O(rows × ranks × pieces), in bounded memory; then O(rows × pieces² +
// (ranks × pieces)²) per host, ranks and rows bounded.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analyze/core_sharing.h"
#include "analyze/rows.h"
#include "analyze/work_pieces.h"

namespace stepscope {

struct Contention {
  double per_peer = 0;       // k
  double most_per_peer = 0;  // upper end of what the comparisons say
};

// Whether pieces of this category of the rank are compared.
using Comparable = std::function<bool(int rank, size_t category)>;

// The newest rows that can be compared, in pieces. They must outlive it.
class ComparedRows {
 public:
  static constexpr size_t kMostCells = size_t{1} << 18;  // of all rows together

  struct Row {
    explicit Row(const StepRow& of) : row(&of), parts(of), pieces(pieces_of(of, parts)) {}
    const StepRow* row;
    RowSegments parts;
    std::vector<CellPieces> pieces;  // by cell
  };

  explicit ComparedRows(const Rows& rows, size_t most_rows = 128);
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
};

std::optional<Contention> measured_contention(const ComparedRows& rows, const CoreSharing::Host& host,
                                              const Comparable& comparable);

}  // namespace stepscope
