#include "store/merge.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "base/text_format.h"

namespace stepscope {
namespace {

using store::Segment;
using store::SegmentHead;

constexpr size_t kMaxOffsets = 1u << 16;  // common steps of a file that the median of its clock rests on
// Ends of common steps that lie farther apart than this are said to be suspicious.
constexpr double kOddSpreadMs = 1000;

// A walk through one file's rows, by attempt and step within the attempt.
class Cursor {
 public:
  explicit Cursor(RunReader& reader) : reader_(&reader) {}

  // To the first row, then to the next one. done(): there is none.
  Status advance() {
    if (part_) ++at_;
    while (true) {
      for (; part_ && at_ < part_->segment.head.rows; ++at_)
        if (const uint64_t step = counted(at_); step >= part_->from_step && step <= part_->to_step) return {};
      auto next = reader_->next_segment(walk_);
      if (!next) return std::unexpected(next.error());
      if (part_) before_ = part_->segment.head, base_before_ = base_;
      part_ = std::move(*next);
      at_ = 0;
      if (!part_) return {};
      if (part_->segment.head.attempt != attempt_) begin(part_->segment.head.attempt);
    }
  }

  bool done() const { return !part_; }
  int32_t attempt() const { return attempt_; }
  uint64_t number() const { return counted(at_) - base_; }
  uint32_t stride() const { return 1u << part_->segment.head.level; }
  StepRow row() const { return to_row(part_->segment, at_); }
  // It had the step, but the step was thinned out.
  bool has_dropped(int32_t attempt, uint64_t number) const {
    if (!done() && attempt == attempt_ && number == this->number()) return false;
    const auto covers = [&](const SegmentHead& head, uint64_t base) {
      return head.level > 0 && head.attempt == attempt && number + base >= head.step0 && number + base <= head.step1;
    };
    return covers(before_, base_before_) || (!done() && covers(part_->segment.head, base_));
  }

 private:
  uint64_t counted(uint32_t row) const {
    return static_cast<uint64_t>(std::max<int64_t>(part_->segment.step[row], static_cast<int64_t>(base_)));
  }

  // Rows count through the run: an attempt's begin behind all of the attempts before it.
  void begin(int32_t attempt) {
    attempt_ = attempt;
    uint64_t before = 0;
    for (const SegmentHead& head : walk_.heads)
      if (head.attempt < attempt) before = std::max(before, head.step1 + 1);
    base_ = part_->segment.head.step0 >= before ? before : 0;
  }

  RunReader* reader_;
  SegmentWalk walk_;
  std::optional<SegmentPart> part_;
  uint32_t at_ = 0;
  int32_t attempt_ = -1;
  uint64_t base_ = 0;
  SegmentHead before_;  // the segment before this one
  uint64_t base_before_ = 0;
};

bool is_unseen(const CellStall& stall) {
  return stall.group == kUnseenGroup || (stall.group == 0 && stall.unresolved_ms > 0);
}

void move_if_seen(int64_t& time_ns, int64_t by_ns) {
  if (time_ns != 0) time_ns = std::max<int64_t>(1, time_ns + by_ns);
}

void move_times(RankLife& life, int64_t by_ns) {
  for (int64_t* time : {&life.process_start_ns, &life.first_step_ns, &life.last_step_ns, &life.end_ns,
                        &life.init_begin_ns, &life.init_end_ns, &life.exception_ns})
    move_if_seen(*time, by_ns);
  for (StartupMeeting& meeting : life.startup_meetings) {
    move_if_seen(meeting.begin_ns, by_ns);
    move_if_seen(meeting.end_ns, by_ns);
  }
}

int64_t at_share(std::vector<int64_t>& values, double share) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// What says most of how the job ended: a node that merely lost the others ends as "crashed", too.
int gravity(const std::string& status) {
  constexpr std::string_view kOrder[] = {"completed", "running", "interrupted", "crashed", "hung"};
  const auto found = std::find(std::begin(kOrder), std::end(kOrder), status);
  return static_cast<int>(found - std::begin(kOrder)) % static_cast<int>(std::size(kOrder));
}

}  // namespace

template <class Visit>
Status RunMerge::walk(const Visit& visit) {
  std::vector<Cursor> cursors;
  for (MergeSource& source : sources_) cursors.emplace_back(source.reader);
  for (Cursor& cursor : cursors)
    if (Status status = cursor.advance(); !status) return status;
  const auto key = [](const Cursor& c) { return std::pair(c.attempt(), c.number()); };
  while (true) {
    std::optional<std::pair<int32_t, uint64_t>> next;
    for (const Cursor& cursor : cursors)
      if (!cursor.done() && (!next || key(cursor) < *next)) next = key(cursor);
    if (!next) return {};
    const bool dropped = std::any_of(cursors.begin(), cursors.end(),
                                     [&](const Cursor& c) { return c.has_dropped(next->first, next->second); });
    std::vector<size_t> here;
    for (size_t i = 0; i < cursors.size(); ++i)
      if (!cursors[i].done() && key(cursors[i]) == *next) here.push_back(i);
    if (!dropped && !visit(next->first, next->second, std::span<const Cursor>(cursors), std::span<const size_t>(here)))
      return {};
    for (size_t i : here)
      if (Status status = cursors[i].advance(); !status) return status;
  }
}

Result<RunMerge> RunMerge::of(std::vector<MergeSource> sources) {
  RunMerge merge(std::move(sources));
  if (merge.sources_.empty()) return fail("no run to merge");
  merge.shift_ns_.resize(merge.sources_.size());
  if (Status status = merge.read_facts(); !status) return std::unexpected(status.error());
  if (Status status = merge.read_rows(); !status) return std::unexpected(status.error());
  for (MergeSource& source : merge.sources_) {
    if (source.reader.damaged() == 0) continue;
    merge.notes_.push_back(formatted("{}: {} pieces of the run file are damaged and left out: {}", source.name,
                                     source.reader.damaged(), source.reader.damage()));
  }
  merge.read_meetings();
  merge.shift_times();
  return merge;
}

// Whose ranks these are, and of which world; refuses what is not of one job.
Status RunMerge::read_facts() {
  std::map<int32_t, size_t> told_by;  // attempt → the source that told its world
  std::set<std::pair<int, std::string>> nodes;
  for (size_t i = 0; i < sources_.size(); ++i) {
    RunReader& reader = sources_[i].reader;
    const std::string& name = sources_[i].name;
    auto run = reader.run();
    if (!run) return fail(name + ": " + run.error().message);
    auto lives = reader.lives();
    if (!lives) return fail(name + ": " + lives.error().message);
    auto groups = reader.groups();
    if (!groups) return fail(name + ": " + groups.error().message);
    std::map<int32_t, int> worlds;
    for (const RankLife& life : *lives) {
      const auto [at, fresh] = home_.try_emplace({life.attempt, life.rank}, i);
      if (!fresh && at->second != i)
        return fail(formatted("{} and {} both hold rank {} of attempt {}: not two nodes of one job",
                              sources_[at->second].name, name, life.rank, life.attempt + 1));
      worlds[life.attempt] = std::max(worlds[life.attempt], life.world_size);
      nodes.emplace(life.node_rank, life.hostname);
    }
    if (lives->empty() && run->world_size > 0) worlds[0] = run->world_size;
    for (const auto& [attempt, world] : worlds) {
      if (world <= 0) continue;
      const auto [at, fresh] = told_by.try_emplace(attempt, i);
      int& known = attempts_[attempt].world;
      if (!fresh && known != world)
        return fail(formatted("{} is of a job of {} ranks, {} of one of {}: not two nodes of one job",
                              sources_[at->second].name, known, name, world));
      known = world;
    }
    lives_.insert(lives_.end(), std::make_move_iterator(lives->begin()), std::make_move_iterator(lives->end()));
    for (StoredGroup& group : *groups) {
      const auto same = [&](const StoredGroup& g) { return g.attempt == group.attempt && g.id == group.id; };
      // Processes number their groups; one number may stand for another group elsewhere.
      bool known = false;
      for (auto at = std::find_if(groups_.begin(), groups_.end(), same); at != groups_.end() && !known;
           at = std::find_if(groups_.begin(), groups_.end(), same)) {
        known = at->ranks == group.ranks;
        if (!known) ++group.id;
      }
      if (!known) groups_.push_back(std::move(group));
    }
    runs_.push_back(std::move(*run));
  }
  run_ = runs_.front();
  run_.nodes = nodes.empty() ? static_cast<int>(sources_.size()) : static_cast<int>(nodes.size());
  for (size_t i = 1; i < runs_.size(); ++i) {
    const StoredRun& run = runs_[i];
    run_.world_size = std::max(run_.world_size, run.world_size);
    run_.attempts = std::max(run_.attempts, run.attempts);
    if (gravity(run.status) > gravity(run_.status)) run_.status = run.status;
    if (run_.exit_code <= 0 && run.exit_code >= 0) run_.exit_code = std::max(run_.exit_code, run.exit_code);
    for (const auto& version : run.versions) {
      const auto same = std::find_if(run_.versions.begin(), run_.versions.end(),
                                     [&](const auto& v) { return v.first == version.first; });
      if (same == run_.versions.end())
        run_.versions.push_back(version);
      else if (same->second != version.second)
        notes_.push_back(formatted("{} has {} {}, {} has {}", sources_[0].name, version.first, same->second,
                                   sources_[i].name, version.second));
    }
  }
  return {};
}

// The first pass: what the rows say of the clocks, of ranks and of thinning.
Status RunMerge::read_rows() {
  std::vector<std::vector<int64_t>> offsets(sources_.size());
  std::vector<uint64_t> common(sources_.size());
  std::string twice;
  const auto end_of = [](const StepRow& row) { return row.cells.empty() ? int64_t{0} : row.cells.front().end_ns; };
  Status status = walk([&](int32_t attempt, uint64_t, std::span<const Cursor> cursors, std::span<const size_t> here) {
    std::optional<int64_t> first_ns;
    uint32_t ranks = 0;
    attempts_.try_emplace(attempt);
    for (size_t i : here) {
      thinned_ = thinned_ || cursors[i].stride() > 1;
      const StepRow row = cursors[i].row();
      ranks += static_cast<uint32_t>(row.cells.size());
      for (const Cell& cell : row.cells) {
        const auto [at, fresh] = home_.try_emplace({attempt, cell.rank}, i);
        if (!fresh && at->second != i)
          twice = formatted("{} and {} both hold rank {} of attempt {}: not two nodes of one job",
                            sources_[at->second].name, sources_[i].name, cell.rank, attempt + 1);
      }
      if (i == 0) first_ns = end_of(row);
      if (i == 0 || !first_ns) continue;
      if (++common[i]; offsets[i].size() < kMaxOffsets)
        offsets[i].push_back(*first_ns - end_of(row));
      else  // spread over the run: an older one makes room
        offsets[i][(common[i] * 2654435761u) % kMaxOffsets] = *first_ns - end_of(row);
    }
    ranks_ = std::max(ranks_, ranks);
    return twice.empty();
  });
  if (!status) return status;
  if (!twice.empty()) return fail(twice);
  for (const auto& [of, source] : home_) {  // by attempt and rank
    Attempt& attempt = attempts_[of.first];
    attempt.world = std::max(attempt.world, of.second + 1);
  }
  for (size_t i = 1; i < sources_.size(); ++i) {
    if (offsets[i].empty())
      return fail(
          formatted("{} and {} have no step in common: not two nodes of one job", sources_[0].name, sources_[i].name));
    shift_ns_[i] = at_share(offsets[i], 0.5);
    const int64_t low = at_share(offsets[i], 0.05), high = at_share(offsets[i], 0.95);
    const double spread_ms = static_cast<double>(high - low) * 1e-6;
    notes_.push_back(
        formatted("clock of {} set by the ends of {} steps that it has in common with {}: 9 of 10 agree within {}{}",
                  sources_[i].name, format_count(common[i]), sources_[0].name, format_ms(spread_ms),
                  spread_ms > kOddSpreadMs ? "; that is much, are these nodes of one job?" : ""));
  }
  return {};
}

void RunMerge::read_meetings() {
  for (auto& [number, attempt] : attempts_) {
    std::map<int, std::set<std::vector<int>>> beyond;  // by rank: its groups that reach beyond its file
    for (const StoredGroup& group : groups_) {
      if (group.attempt != number) continue;
      std::vector<int> members = group.ranks;
      std::sort(members.begin(), members.end());
      members.erase(std::unique(members.begin(), members.end()), members.end());
      if (members.size() < 2 || static_cast<int>(members.size()) >= attempt.world) continue;
      std::set<size_t> files;
      for (int rank : members) {
        const auto home = home_.find({number, rank});
        files.insert(home == home_.end() ? sources_.size() : home->second);
      }
      if (files.size() < 2) continue;
      for (int rank : members) beyond[rank].insert(members);
    }
    attempt.meetings.push_back({{}, 2 * sources_.size()});
    std::map<std::vector<int>, size_t> known;
    for (auto at = home_.lower_bound({number, 0}); at != home_.end() && at->first.first == number; ++at) {
      const int rank = at->first.second;
      const auto groups = beyond.find(rank);
      if (groups == beyond.end()) {
        attempt.meeting_of[rank] = 0;
      } else if (groups->second.size() == 1) {
        const std::vector<int>& members = *groups->second.begin();
        const auto [found, fresh] = known.try_emplace(members, attempt.meetings.size());
        if (fresh) attempt.meetings.push_back({members, 2 * sources_.size() + found->second});
        attempt.meeting_of[rank] = found->second;
      }
    }
  }
}

void RunMerge::join_stalls(int32_t number, StepRow& row) const {
  const auto found = attempts_.find(number);
  if (found == attempts_.end()) return;
  const Attempt& attempt = found->second;
  std::vector<char> whole(attempt.meetings.size());
  for (size_t m = 0; m < attempt.meetings.size(); ++m) {
    const std::vector<int>& members = attempt.meetings[m].members;
    const auto meets_here = [&](int rank) {
      const auto at = attempt.meeting_of.find(rank);
      return at != attempt.meeting_of.end() && at->second == m && row.find(rank);
    };
    // A world of which some ranks meet in smaller groups is none.
    whole[m] = members.empty() ? static_cast<int>(row.cells.size()) >= attempt.world &&
                                     std::all_of(row.cells.begin(), row.cells.end(),
                                                 [&](const Cell& cell) { return meets_here(cell.rank); })
                               : std::all_of(members.begin(), members.end(), meets_here);
  }
  for (Cell& cell : row.cells) {
    const auto home = home_.find({number, cell.rank});
    const auto meeting = attempt.meeting_of.find(cell.rank);
    const bool joined = meeting != attempt.meeting_of.end() && whole[meeting->second];
    for (CellStall& stall : cell.stalls) {
      // A sync point of which its file saw all members has none in another file.
      if (stall.group == kSeenGroup && home != home_.end())
        stall.sequence += 2 * home->second;
      else if (joined && is_unseen(stall))
        stall.group = kSeenGroup, stall.sequence = attempt.meetings[meeting->second].sequence;
    }
  }
}

void RunMerge::shift_times() {
  for (RankLife& life : lives_)
    if (const auto home = home_.find({life.attempt, life.rank}); home != home_.end())
      move_times(life, shift_ns_[home->second]);
  std::sort(lives_.begin(), lives_.end(), [](const RankLife& a, const RankLife& b) {
    return std::pair(a.attempt, a.rank) < std::pair(b.attempt, b.rank);
  });
  for (size_t i = 0; i < sources_.size(); ++i) {
    auto events = sources_[i].reader.events();
    if (!events) continue;
    for (RunEvent& event : *events) {
      move_if_seen(event.time_ns, shift_ns_[i]);
      event.step = -1;  // the files count steps each from its own beginning
      events_.push_back(std::move(event));
    }
  }
  std::stable_sort(events_.begin(), events_.end(),
                   [](const RunEvent& a, const RunEvent& b) { return a.time_ns < b.time_ns; });
  int64_t start_ns = runs_[0].start_ns, end_ns = 0;
  size_t earliest = 0;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const int64_t own_ns = runs_[i].start_ns + shift_ns_[i];
    if (own_ns < start_ns) start_ns = own_ns, earliest = i;
    end_ns = std::max(end_ns, own_ns + static_cast<int64_t>(std::clamp(runs_[i].duration_s, 0.0, 1e9) * 1e9));
  }
  run_.start_ns = start_ns;
  run_.started_at = runs_[earliest].started_at;
  run_.duration_s = static_cast<double>(end_ns - start_ns) * 1e-9;
}

Status RunMerge::for_each_row(const std::function<bool(const MergedRow&)>& row) {
  int32_t attempt = -1;
  uint64_t before = 0, last = 0;  // steps of the run before the attempt, and so far
  return walk([&](int32_t now, uint64_t number, std::span<const Cursor> cursors, std::span<const size_t> here) {
    if (now != attempt) attempt = now, before = last;
    MergedRow merged;
    merged.stored.attempt = now;
    merged.number = number;
    StepRow& all = merged.stored.row;
    all.step = before + number;
    last = all.step + 1;
    for (size_t i : here) {
      StepRow part = cursors[i].row();
      merged.stored.stride = std::max(merged.stored.stride, cursors[i].stride());
      for (Cell& cell : part.cells) {
        move_if_seen(cell.end_ns, shift_ns_[i]);
        all.tags |= cell.tags;
        all.wall_ms = std::max(all.wall_ms, cell.wall_ms);
        all.cells.push_back(std::move(cell));
      }
    }
    std::sort(all.cells.begin(), all.cells.end(), [](const Cell& a, const Cell& b) { return a.rank < b.rank; });
    join_stalls(now, all);
    return row(merged);
  });
}

Result<StoredSums> RunMerge::sums() {
  StoredSums out;
  for (MergeSource& source : sources_) {
    auto sums = source.reader.sums();
    if (!sums) return fail(source.name + ": " + sums.error().message);
    out.steps = std::max(out.steps, sums->steps);
    if (out.ranks.size() < sums->ranks.size()) out.ranks.resize(sums->ranks.size());
    for (size_t r = 0; r < sums->ranks.size(); ++r) {
      // Ranks may have changed nodes between attempts.
      const StoredSums::Rank& from = sums->ranks[r];
      StoredSums::Rank& to = out.ranks[r];
      for (size_t c = 0; c < kCategoryCount; ++c) to.ms[c] += from.ms[c], to.host_ms[c] += from.host_ms[c];
      to.wall_ms += from.wall_ms, to.host_wall_ms += from.host_wall_ms, to.caused_ms += from.caused_ms;
      to.samples += from.samples, to.tokens += from.tokens, to.bytes += from.bytes;
      to.steps += from.steps, to.gpu_steps += from.gpu_steps;
    }
  }
  return out;
}

}  // namespace stepscope
