// Steps in which each host stands in the place of its ranks, so that what is asked of ranks (analyze/late_blocks.h) can
// be asked of hosts: a whole node that is slow, where its ranks take turns at being the last.
//
//   own time   per category the least of its ranks': what not all of them have is no matter of the host
//   caused     what ranks of other hosts waited for any of its ranks; waiting within a host is left out. A host waits
//              as long as its ranks do on the mean
//
// Pure. O(cells × categories + blames).
#pragma once

#include <vector>

#include "analyze/core_sharing.h"
#include "analyze/rows.h"

namespace stepscope {

class HostRows {
 public:
  // Cells of ranks whose host is not known are left out. Hosts are named by their index in `sharing`.
  HostRows(const Rows& rows, const CoreSharing& sharing);
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;

  const Rows& rows() const { return rows_; }
  // The steps of ranks behind a selection of these.
  Rows behind(const Rows& selection) const;

 private:
  Rows of_ranks_;
  std::vector<StepRow> made_;
  Rows rows_;
};

}  // namespace stepscope
