#include "agent/hang_watch.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <cstdlib>

#include "base/text_format.h"
#include "blackbox/event_kind.h"
#include "diagnose/hang.h"
#include "diagnose/stack_text.h"
#include "diagnose/timeout_ahead.h"
#include "sampler/process_glance.h"

namespace stepscope {
namespace {

constexpr uint64_t kJudgeNs = 500'000'000;

double seconds_since(int64_t at_ns, uint64_t now_ns) {
  return at_ns > 0 ? std::max(0.0, static_cast<double>(static_cast<int64_t>(now_ns) - at_ns) * 1e-9) : 0;
}

// When it last did anything; a rank that has written nothing yet began when its process did.
int64_t last_sign_ns(const RankTail& tail) {
  const int64_t at_ns = tail.whereabouts().progress_ns();
  return at_ns > 0 ? at_ns : static_cast<int64_t>(tail.identity().anchor_monotonic_ns);
}

// Together with those of other nodes.
JobStanding joined(JobStanding job, const JobStanding& elsewhere) {
  job.world = std::max(job.world, elsewhere.world);
  for (const auto& [id, group] : elsewhere.groups) job.groups.try_emplace(id, group);
  job.ranks.insert(job.ranks.end(), elsewhere.ranks.begin(), elsewhere.ranks.end());
  std::ranges::stable_sort(job.ranks, {}, &RankStanding::rank);
  const auto twice = std::ranges::unique(job.ranks, {}, &RankStanding::rank);  // what this node saw itself stays
  job.ranks.erase(twice.begin(), twice.end());
  return job;
}

template <class Visit>
void each_rank_anywhere(const Pipeline& pipeline, Visit visit) {
  for (const Pipeline::TailId id : pipeline.tails())
    if (pipeline.counts_as_rank(id) || pipeline.is_starting(id)) visit(pipeline.tail(id));
}

// Those of this node.
template <class Visit>
void each_rank(const Pipeline& pipeline, Visit visit) {
  each_rank_anywhere(pipeline, [&](const RankSource& source) {
    if (const RankTail* ring = source.local()) visit(*ring);
  });
}

// "group_timeout_s=1800" among the facts of a rank; 0 = not told.
double timeout_of(const RankTail& tail) {
  constexpr std::string_view kKey = "group_timeout_s=";
  for (const auto& [key, text] : tail.builder().names())
    if (key.first == static_cast<uint16_t>(NameKind::kFact) && text.starts_with(kKey))
      return std::atof(text.c_str() + kKey.size());
  return 0;
}

std::string block_of(const Finding& f) {
  std::string text = display_name(f.kind) + "  " + f.title;
  for (const Evidence& e : f.evidence)
    if (e.name == "stack") text += "\n  " + e.text;
  for (const Evidence& e : f.evidence)
    if (e.name == "no_stack") text += formatted("\n  rank {} · no stack: {}", *e.rank, e.text);
  for (const Evidence& e : f.evidence)
    if (e.name == "exception") text += formatted("\n  rank {} · {}", *e.rank, e.text);
  return text + "\n  " + f.action;
}

// Workers have begun a batch, and the rank waits for one.
bool waits_for_workers(const Whereabouts& at) { return at.in_fetch() && !at.worker_fetches().empty(); }

}  // namespace

double HangWatch::patience_s(const RankTail& tail, uint64_t now_ns) const {
  return usual_patience_s(tail, stuck_workers(tail, now_ns).empty());
}

double HangWatch::usual_patience_s(const RankTail& tail, bool by_nature) const {
  const Whereabouts& at = tail.whereabouts();
  const Thresholds& t = options_.limits;
  const Category phase = at.step_end_ns() > 0 ? tail.builder().phase() : Category::kStartup;
  const double least = options_.timeout_s > 0 ? options_.timeout_s : t.standstill_s;
  double patience = std::max({least, t.standstill_steps * at.usual_step_s(), kLearned * at.longest_silence_s(phase)});
  if (by_nature && phase == Category::kStartup) patience = std::max(patience, t.standstill_startup_s);
  if (by_nature && takes_long_by_nature(phase)) patience = std::max(patience, t.standstill_pause_s);
  return patience;
}

bool HangWatch::suspects(const Pipeline& pipeline, uint64_t now_ns) const {
  bool any = waits_for_a_start(pipeline, now_ns);
  each_rank(pipeline, [&](const RankTail& tail) {
    if (tail.ended() || tail.leaving()) return;
    double patience = usual_patience_s(tail, !waits_for_workers(tail.whereabouts()));
    // Who waits while a timeout runs is looked at before half of it is over (diagnose/timeout_ahead.h).
    const bool waits = tail.whereabouts().in_init() || tail.whereabouts().awaited();
    if (const double timeout_s = timeout_of(tail); waits && timeout_s > 0)
      patience = std::min(patience, kTimeoutAheadShare * timeout_s);
    any = any || seconds_since(last_sign_ns(tail), now_ns) > kSuspect * patience;
  });
  return any;
}

// Some are in init_process_group and others of the job are not, for as long as any silence must last.
bool HangWatch::waits_for_a_start(const Pipeline& pipeline, uint64_t now_ns) const {
  int in_init = 0, came = 0, world = 0;
  double waited_s = 0;
  each_rank(pipeline, [&](const RankTail& tail) {
    const Whereabouts& at = tail.whereabouts();
    world = std::max(world, tail.identity().world_size);
    came += !tail.ended() && (at.in_init() || at.joined() || tail.steps_begun() > 0);
    if (!at.in_init() || tail.ended()) return;
    ++in_init;
    waited_s = std::max(waited_s, seconds_since(at.init_since_ns(), now_ns));
  });
  return in_init > 0 && came < world && waited_s > kSuspect * options_.limits.standstill_s;
}

HangWatch::Progress HangWatch::progress_of(const RankSource& source) {
  if (const RankTail* ring = source.local()) return {ring->whereabouts().progress_ns(), ring->steps_begun()};
  return {source.active_ns(), source.steps()};
}

// Somebody it hangs on, or, where nobody is named, anybody, trains again. A record alone does not say so: an operation
// that failed for its timeout ends too, and the process with it a moment later.
bool HangWatch::goes_on(Pipeline& pipeline, uint64_t now_ns) {
  bool stepped = false, moved = false;
  each_rank_anywhere(pipeline, [&](const RankSource& source) {
    const int rank = source.identity().rank;
    const auto before = at_verdict_.find(rank);
    // Who is only busy writes all the time: then those who wait must go on.
    const auto& held = verdict_->kind == FindingKind::kHang ? verdict_->ranks : verdict_->victims;
    const bool named = held.empty() || std::find(held.begin(), held.end(), rank) != held.end();
    if (!named || source.ended()) return;
    // One that had no black box then has begun to write.
    const Progress then = before == at_verdict_.end() ? Progress{} : before->second;
    const Progress now = progress_of(source);
    stepped = stepped || now.steps > then.steps;
    const RankTail* ring = source.local();
    const bool raised = (ring ? ring->builder().life() : source.life()).exception_ns > then.progress_ns;
    if (raised || (ring && ring->leaving())) return;
    moved = moved || now.progress_ns > then.progress_ns;
  });
  if (!moved)
    moved_ns_ = 0;
  else if (moved_ns_ == 0)
    moved_ns_ = now_ns;
  return stepped || (moved && now_ns - moved_ns_ >= kSettleNs);
}

void HangWatch::glance(int rank, int pid, uint64_t start_ticks, uint32_t thread, uint64_t now_ns) {
  const auto now = glance_at(pid, start_ticks, thread);
  Seen& seen = seen_[rank];
  if (!now) return;
  seen.state = now->state;
  seen.wait_channel = now->wait_channel;
  if (seen.first_look_ns == 0) {
    seen.first_look_ns = static_cast<int64_t>(now_ns);
    seen.first_ticks = now->cpu_ticks;
    return;
  }
  const double seconds = seconds_since(seen.first_look_ns, now_ns);
  const long hz = ::sysconf(_SC_CLK_TCK);
  if (seconds > 0.5 && hz > 0)
    seen.cpu_share = static_cast<double>(now->cpu_ticks - seen.first_ticks) / static_cast<double>(hz) / seconds;
}

void HangWatch::look_at_workers(const RankTail& tail, uint64_t now_ns) {
  const Whereabouts& at = tail.whereabouts();
  const int rank = tail.identity().rank;
  if (!waits_for_workers(at)) {
    workers_.erase(rank);
    return;
  }
  auto& workers = workers_[rank];
  for (const auto& [pid, fetch] : at.worker_fetches()) {
    if (fetch.loader != *at.in_fetch()) continue;
    const auto now = glance_at(static_cast<int>(pid), 0, 0);
    const std::string lock = now ? lock_that_all_wait_for(static_cast<int>(pid)) : "";
    Worker& worker = workers[pid];
    if (lock.empty() || worker.lock.empty() || now->cpu_ticks != worker.cpu_ticks)
      worker = {now_ns, now ? now->cpu_ticks : 0, lock};
  }
  std::erase_if(workers, [&](const auto& entry) { return !at.worker_fetches().contains(entry.first); });
}

std::vector<StuckWorker> HangWatch::stuck_workers(const RankTail& tail, uint64_t now_ns) const {
  std::vector<StuckWorker> stuck;
  const auto found = workers_.find(tail.identity().rank);
  if (found == workers_.end() || !tail.whereabouts().in_fetch()) return stuck;
  for (const auto& [pid, worker] : found->second) {
    const auto fetch = tail.whereabouts().worker_fetches().find(pid);
    if (worker.lock.empty() || now_ns - worker.since_ns < kStuckNs) continue;
    if (fetch == tail.whereabouts().worker_fetches().end()) continue;
    stuck.push_back({static_cast<int>(pid), fetch->second.worker, worker.lock,
                     seconds_since(static_cast<int64_t>(worker.since_ns), now_ns)});
  }
  return stuck;
}

RankStanding HangWatch::standing_of(const RankTail& tail, uint64_t now_ns) const {
  const Whereabouts& at = tail.whereabouts();
  const RankLife life = tail.life();
  RankStanding r;
  r.rank = tail.identity().rank;
  r.ended = life.ended;
  r.clean = life.clean_exit;
  r.leaving = tail.leaving();
  r.exit_signal = life.exit_signal;
  r.exit_code = life.exit_code;
  r.exception = exception_words(life);
  r.steps = tail.steps_begun();
  r.silent_s = life.ended ? seconds_since(life.end_ns, now_ns) : seconds_since(last_sign_ns(tail), now_ns);
  r.patience_s = patience_s(tail, now_ns);
  r.stuck_workers = stuck_workers(tail, now_ns);
  r.timeout_s = timeout_of(tail);
  r.phase = at.step_end_ns() > 0 ? tail.builder().phase() : Category::kStartup;
  r.in_init = at.in_init() && r.exception.empty();
  r.joined = at.joined() || at.step_end_ns() > 0;
  r.groups = at.groups();
  r.turns = at.turns();
  r.device = at.device_place();
  r.data_ended = at.data_ended();
  r.data_seen = at.data_seen();
  r.awaits = at.awaited();
  if (const auto seen = seen_.find(r.rank); seen != seen_.end() && !life.ended) {
    r.state = seen->second.state;
    r.wait_channel = seen->second.wait_channel;
    r.cpu_share = seen->second.cpu_share;
  }
  r.stack = stacks_.stack(r.rank);
  if (!r.stack) r.no_stack = options_.stacks ? stacks_.why_not(r.rank, now_ns) : "switched off";
  return r;
}

// Those without a black box: they start, or have failed to.
void HangWatch::add_starters(const Pipeline& pipeline, const std::vector<RankLife>& starting, uint64_t now_ns,
                             JobStanding& job) const {
  std::vector<RankLife> lives = starting;
  for (const auto& [rank, life] : pipeline.failed_starts()) lives.push_back(life);
  for (const RankLife& life : lives) {
    const bool known =
        std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankStanding& r) { return r.rank == life.rank; });
    if (known) continue;
    RankStanding r;
    r.rank = life.rank;
    r.ended = life.ended;
    r.exit_signal = life.exit_signal;
    r.exit_code = life.exit_code;
    r.exception = exception_words(life);
    r.silent_s = seconds_since(life.ended ? life.end_ns : life.process_start_ns, now_ns);
    r.patience_s = options_.limits.standstill_startup_s;
    r.phase = Category::kStartup;
    r.joined = false;
    if (const auto seen = seen_.find(r.rank); seen != seen_.end() && !life.ended) {
      r.state = seen->second.state;
      r.wait_channel = seen->second.wait_channel;
      r.cpu_share = seen->second.cpu_share;
    }
    if (!life.ended) r.no_stack = "it has not imported torch yet";
    job.world = std::max({job.world, life.world_size, r.rank + 1});
    job.ranks.push_back(std::move(r));
  }
}

void HangWatch::give_time_to_start(const Pipeline& pipeline, uint64_t now_ns, JobStanding& job) const {
  double waited_s = 0, needed_s = 1e9;
  each_rank(pipeline, [&](const RankTail& tail) {
    const Whereabouts& at = tail.whereabouts();
    if (!at.in_init() || tail.ended()) return;
    waited_s = std::max(waited_s, seconds_since(at.init_since_ns(), now_ns));
    needed_s = std::min(
        needed_s,
        static_cast<double>(at.init_since_ns() - static_cast<int64_t>(tail.identity().process_start_ns)) * 1e-9);
  });
  const bool missing = std::any_of(job.ranks.begin(), job.ranks.end(),
                                   [](const RankStanding& r) { return r.ended || (!r.in_init && !r.joined); }) ||
                       static_cast<int>(job.ranks.size()) < job.world;
  if (waited_s <= 0 || !missing) return;
  const double least = options_.timeout_s > 0 ? options_.timeout_s : options_.limits.standstill_s;
  for (RankStanding& r : job.ranks) {
    if (r.ended) continue;
    if (r.in_init) r.patience_s = least;  // that it waits is known
    if (r.in_init || r.joined) continue;
    r.silent_s = std::min(r.silent_s, waited_s);
    r.patience_s = std::max({least, options_.limits.standstill_join_s, kStartFactor * needed_s});
  }
}

JobStanding HangWatch::gather(const Pipeline& pipeline, const std::vector<RankLife>& starting, uint64_t now_ns) const {
  JobStanding job;
  job.run_s = seconds_since(static_cast<int64_t>(began_ns_), now_ns);
  each_rank(pipeline, [&](const RankTail& tail) {
    const int rank = tail.identity().rank;
    job.world = std::max({job.world, tail.identity().world_size, rank + 1});
    for (const auto& [id, group] : tail.builder().groups()) {
      const bool whole = static_cast<int>(group.ranks.size()) == tail.identity().world_size;
      job.groups[id] = {!group.description.empty() ? group.description : whole ? "the default group" : "", group.ranks};
    }
    job.ranks.push_back(standing_of(tail, now_ns));
  });
  add_starters(pipeline, starting, now_ns, job);
  give_time_to_start(pipeline, now_ns, job);
  // A communicator of NCCL that has all ranks; who is in a smaller one is not told.
  std::vector<int> all(static_cast<size_t>(job.world));
  std::iota(all.begin(), all.end(), 0);
  for (const RankStanding& r : job.ranks)
    for (const auto& [id, place] : r.groups)
      if (place.size > 1 && place.size == all.size()) job.groups.try_emplace(id, "the default group", all);
  std::sort(job.ranks.begin(), job.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return job;
}

HangWatch::News HangWatch::drop(Pipeline& pipeline, uint64_t now_ns) {
  const std::string text =
      formatted("the job goes on after {:.0f} s: {}",
                stood_s_ + seconds_since(static_cast<int64_t>(verdict_ns_), now_ns), verdict_->title);
  pipeline.note(text);
  verdict_.reset();
  pipeline.engine().set_hang(std::nullopt);
  stacks_.reset();
  seen_.clear();
  workers_.clear();
  moved_ns_ = 0;
  return {text, false};
}

// What falls after a verdict falls because of it: who ends, and who gives up waiting with an exception.
bool HangWatch::somebody_fell(const JobStanding& job, uint64_t now_ns) const {
  const double since_verdict_s = seconds_since(static_cast<int64_t>(verdict_ns_), now_ns);
  return std::ranges::any_of(job.ranks, [&](const RankStanding& r) {
    if (r.ended) return r.silent_s < since_verdict_s;
    const auto then = std::ranges::find(standing_.ranks, r.rank, &RankStanding::rank);
    return !r.exception.empty() && then != standing_.ranks.end() && then->exception.empty();
  });
}

void HangWatch::see_fallen(Pipeline& pipeline, uint64_t now_ns) {
  if (pipeline.engine().told_fallen() || verdict_ || pipeline.interrupted_ns() > 0) return;
  bool any = false;
  each_rank(pipeline, [&](const RankTail& tail) {
    if (any || !tail.ended()) return;
    const RankLife life = tail.life();
    any = !life.clean_exit || !life.exception.empty();
  });
  if (!any) return;
  if (const auto found = judge_fallen(gather(pipeline, {}, now_ns))) pipeline.engine().set_fallen(*found);
}

HangWatch::News HangWatch::look(Pipeline& pipeline, uint64_t now_ns, const std::vector<RankLife>& starting,
                                const std::function<JobStanding()>& elsewhere) {
  if (began_ns_ == 0) began_ns_ = now_ns;
  if (now_ns < due_ns_) return {};
  due_ns_ = now_ns + kLookNs;
  see_fallen(pipeline, now_ns);
  if (pipeline.interrupted_ns() > 0) return {};  // what stands now was told to stop
  if (verdict_ && goes_on(pipeline, now_ns)) return drop(pipeline, now_ns);
  if (!suspects(pipeline, now_ns)) {
    here_.reset();
    if (!verdict_ && !seen_.empty()) {
      stacks_.reset();
      seen_.clear();
      workers_.clear();
    }
    return {};
  }
  each_rank(pipeline, [&](const RankTail& tail) {
    if (tail.ended()) return;
    const int rank = tail.identity().rank;
    glance(rank, tail.identity().pid, tail.identity().pid_start_ticks, tail.whereabouts().thread(), now_ns);
    if (options_.stacks) stacks_.look(rank, tail, now_ns);
    look_at_workers(tail, now_ns);
  });
  for (const RankLife& life : starting) glance(life.rank, life.pid, 0, 0, now_ns);
  if (now_ns - judged_ns_ < kJudgeNs) return {};
  judged_ns_ = now_ns;
  here_ = gather(pipeline, starting, now_ns);
  JobStanding job = elsewhere ? joined(*here_, elsewhere()) : *here_;
  if (verdict_ && somebody_fell(job, now_ns)) return {};
  std::optional<Finding> found = judge_hang(job);
  if (!found) found = judge_timeout(job);
  if (!found) return {};
  const bool changed =
      !verdict_ || verdict_->kind != found->kind || verdict_->cause != found->cause || verdict_->ranks != found->ranks;
  if (!verdict_) verdict_ns_ = now_ns, stood_s_ = found->cost_seconds;
  if (changed) {
    moved_ns_ = 0;
    at_verdict_.clear();
    each_rank_anywhere(pipeline,
                       [&](const RankSource& source) { at_verdict_[source.identity().rank] = progress_of(source); });
  }
  verdict_ = std::move(found);
  standing_ = std::move(job);
  pipeline.engine().set_hang(*verdict_);
  return changed ? News{block_of(*verdict_), verdict_->kind == FindingKind::kHang} : News{};
}

}  // namespace stepscope
