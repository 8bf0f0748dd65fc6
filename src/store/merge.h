// The run files of one job's nodes, joined: each file holds the ranks of its node, a merged row holds those of all.
//
// Rows meet by attempt and by step within the attempt. Where a file was thinned out, a step counts only if the file
// kept it. Clocks of nodes differ: the times of every file but the first are shifted by the median of what the ends of
// common steps differ by. Ranks leave a collective together, so this is right to within what they do after the step's
// last sync point; how far the steps agree is said (notes()).
//
// A file knows of a stall with unseen members only that it was one (kUnseenGroup, or group 0). Once the members are in
// the row, it becomes their sync point (kSeenGroup): of the only group of the rank that reaches beyond its file, else
// of the world. A rank with several such groups besides the world keeps its unresolved time, since the file does not
// tell which of them it waited in.
//
// Pure joining: no engine, no clock, no file but the readers. Files are not trusted (store/run_reader.h); damaged
// pieces are left out and said. One thread. Memory: one decoded segment per file. Cost: every file is read twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/run_reader.h"

namespace stepscope {

struct MergeSource {
  std::string name;  // as messages call it
  RunReader reader;
};

// `number`: of the step within its attempt. row.step counts through the run, as in a run file.
struct MergedRow {
  StoredRow stored;
  uint64_t number = 0;
};

class RunMerge {
 public:
  // One line where the files are not the nodes of one job: a rank of an attempt twice, worlds of different size, no
  // step in common with the first.
  static Result<RunMerge> of(std::vector<MergeSource> sources);

  // Times on the first file's clock. Name and command are the first's.
  const StoredRun& run() const { return run_; }
  const std::vector<RankLife>& lives() const { return lives_; }  // by attempt and rank
  const std::vector<StoredGroup>& groups() const { return groups_; }
  const std::vector<RunEvent>& events() const { return events_; }   // by time
  const std::vector<std::string>& notes() const { return notes_; }  // one line each
  std::vector<MergeSource>& sources() { return sources_; }
  uint32_t ranks() const { return ranks_; }  // the most of a row
  bool thinned() const { return thinned_; }  // some rows stand for several steps

  // In the order of attempt and step, until `row` returns false. Cells are by rank, their stalls not yet split.
  Status for_each_row(const std::function<bool(const MergedRow&)>& row);
  // Over all steps of all files.
  Result<StoredSums> sums();

 private:
  // The ranks that a rank's stalls with unseen members were in.
  struct Meeting {
    std::vector<int> members;  // ascending; empty = the whole world
    uint64_t sequence = 0;
  };
  struct Attempt {
    int world = 0;
    std::vector<Meeting> meetings;
    std::map<int, size_t> meeting_of;  // by rank; none: it cannot be told
  };

  explicit RunMerge(std::vector<MergeSource> sources) : sources_(std::move(sources)) {}
  Status read_facts();
  Status read_rows();
  void read_meetings();
  void join_stalls(int32_t attempt, StepRow& row) const;
  void shift_times();
  template <class Visit>
  Status walk(const Visit& visit);

  std::vector<MergeSource> sources_;
  std::vector<StoredRun> runs_;                     // by source
  std::vector<int64_t> shift_ns_;                   // by source
  std::map<std::pair<int32_t, int>, size_t> home_;  // attempt and rank → source
  std::map<int32_t, Attempt> attempts_;
  StoredRun run_;
  std::vector<RankLife> lives_;
  std::vector<StoredGroup> groups_;
  std::vector<RunEvent> events_;
  std::vector<std::string> notes_;
  uint32_t ranks_ = 0;
  bool thinned_ = false;
};

}  // namespace stepscope
