#include "align/step_builder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "align/device_ops.h"
#include "align/forward_modes.h"
#include "align/gpu_lane.h"
#include "align/loader_roles.h"
#include "align/memory_readings.h"
#include "align/name_book.h"
#include "align/program_values.h"
#include "align/span_stack.h"
#include "align/step_accumulator.h"
#include "align/step_rule.h"
#include "align/sync_sites.h"
#include "align/training_thread.h"
#include "blackbox/event_kind.h"

namespace stepscope {

namespace {

constexpr int64_t kTagFloorNs = 1'000'000;  // a millisecond of compile, save or validation tags a step
constexpr size_t kMaxCommunicators = 4096;
constexpr size_t kMaxUndecided = 4 * StepRule::kFallbackBackwards;

// The other rank of a message, as told in the payload of a collective; -1 = not told.
int32_t peer_of(uint64_t detail) {
  constexpr uint64_t kUnknownPeer = 0xffff;
  const uint64_t peer = detail >> 16 & 0xffffffff;
  return peer == kUnknownPeer ? -1 : static_cast<int32_t>(peer);
}

// Which operation a wait is for. A rank that was not told which counts its waits.
StallMeeting meeting_of(const Event& wait) {
  const auto op = static_cast<CollectiveOp>(wait.d & 0xff);
  StallMeeting meeting;
  meeting.counted = op == CollectiveOp::kUnknown;
  if (!(wait.flags & kCollectiveP2p)) return meeting;
  meeting.peer = peer_of(wait.d);
  meeting.sends = op == CollectiveOp::kSend;
  meeting.counted = meeting.peer < 0;
  return meeting;
}

}  // namespace

// Of the training thread, as it last told: since it began.
struct Usage {
  int64_t cpu_ns = 0, involuntary_switches = 0;
};

struct StepBuilder::Impl {
  TrainingThread training;
  RankLife life;
  NameBook names;

  SpanStack stack;
  StepRule rule;
  ForwardModes modes;
  StepAccumulator done, open;  // up to the newest candidate boundary; after it
  int64_t candidate_ns = 0;
  struct Piece {
    StepAccumulator work;
    int64_t end_ns;
  };
  std::optional<Piece> held;  // a step that ended, or a first part of the one in `done` (StepRule)
  Usage usage_held;
  std::vector<Piece> undecided;   // one per backward while it is unknown whether an optimizer exists
  std::deque<RankStep> awaiting;  // complete on the host, waiting for their device events
  std::vector<RankStep> completed;
  GpuLane gpu;
  DeviceOps device_ops;
  StallEnds stall_ends;
  std::map<uint64_t, size_t> communicators;
  bool group_hooks = false;  // process-group hooks report collectives: NCCL's own reports are only timed

  bool started = false, finished = false;
  int64_t last_ns = 0;
  bool loss_gap = false, evaluating = false;
  std::optional<Stall> open_stall;
  uint64_t backward_tails = 0;
  LoaderRoles loaders;
  double last_batch = 0;  // samples counted for the newest fetch, until its shape is told
  ProgramValues values;
  bool scaler_stepped = false;
  int step_depth = 0;
  MemoryReadings memory;
  Usage usage_now, usage_boundary;
  bool usage_known = false, usage_base = false;
  uint32_t records_since = 0, lost_since = 0;

  // -- time ----------------------------------------------------------------------------------------------------------

  bool tail_stalls() {
    const OpenSpan* backward = stack.innermost(Kind::kBackward);
    if (!backward) return false;
    return backward->collectives > 0 || (life.world_size > 1 && names.groups().empty());
  }

  Category gap() const {
    if (evaluating) return Category::kValidation;
    return loss_gap ? Category::kForward : Category::kUnattributed;
  }

  // What the training thread is in; in a stall what it interrupts.
  Category phase() {
    if (finished) return life.open_phase;
    const Now now = stack.now(gap(), tail_stalls());
    return now.stall ? now.phase : now.category;
  }

  void flush_stall() {
    if (!open_stall) return;
    open.add_stall(*open_stall);
    open_stall.reset();
  }

  // Everything up to `t` is charged to what the thread was in since the last charge.
  void charge(int64_t t) {
    if (last_ns == 0) last_ns = t;
    const int64_t ns = t - last_ns;
    if (ns <= 0) return;
    last_ns = t;
    if (!started) {
      life.startup[index(Category::kStartup)] += ns;
      return;
    }
    const Now now = stack.now(gap(), tail_stalls());
    gpu.host_span(t - ns, t, now.stall ? now.phase : now.category, now.stall);
    if (!now.stall) {
      flush_stall();
      open.add_own(now.category, ns);
      if (now.category == Category::kUnattributed) loaders.passed(ns);
      return;
    }
    if (!open_stall) {
      open_stall = Stall{0, 0, t - ns, 0, now.phase};
      name_stall(*open_stall);
    }
    open_stall->duration_ns += ns;
  }

  // Which collective the thread is blocked on. Without sequence numbers: the count of its waits, equal on all ranks.
  void name_stall(Stall& stall) {
    if (const OpenSpan* wait = stack.innermost(Kind::kWait)) {
      stall.group = wait->id;
      stall.sequence = wait->sequence;
      stall.meeting = wait->meeting;
      return;
    }
    const OpenSpan* backward = stack.innermost(Kind::kBackward);
    stall.group = backward && backward->collectives ? backward->last_group : 0;
    stall.sequence = backward && backward->collectives ? backward->last_sequence : backward_tails;
  }

  void start(int64_t t) {
    if (started) return;
    charge(t);
    started = true;
    done.set_begin(t);
    open.set_begin(t);
    life.first_step_ns = t;
    usage_boundary = usage_now;
    usage_base = usage_known;
  }

  // -- boundaries ----------------------------------------------------------------------------------------------------

  void count_records() {
    open.add_records(records_since, lost_since);
    records_since = lost_since = 0;
  }

  void emit(StepAccumulator& work, int64_t end_ns, uint32_t extra_tags) {
    emit(work, end_ns, extra_tags, rule.closed_signature());
  }

  void emit(StepAccumulator& work, int64_t end_ns, uint32_t extra_tags, uint64_t signature) {
    RankStep step = work.take(end_ns);
    step.step = life.steps++;
    step.signature = signature;
    values.settle(step);
    step.tags |= extra_tags;
    if (step.own[index(Category::kCompile)] > kTagFloorNs) step.tags |= kTagCompile;
    if (step.own[index(Category::kCheckpoint)] > kTagFloorNs) step.tags |= kTagCheckpoint;
    if (step.own[index(Category::kValidation)] > kTagFloorNs) step.tags |= kTagValidation;
    if (step.own[index(Category::kEpochStart)] > kTagFloorNs) step.tags |= kTagEpochStart;
    life.last_step_ns = end_ns;
    awaiting.push_back(std::move(step));
    release(false);
  }

  // Hands out the steps whose device events are here, or that have none to wait for.
  void release(bool all) {
    while (!awaiting.empty()) {
      RankStep& step = awaiting.front();
      if (!all && gpu.wants(step.end_ns, last_ns)) return;
      if (gpu.seen()) {
        step.gpu = gpu.take(step.begin_ns, step.end_ns);
        if (step.gpu && step.gpu->captured) step.tags |= kTagCaptured;
        const int64_t until = step.gpu ? step.gpu->begin_ns + step.gpu->wall_ns : step.end_ns;
        device_ops.take_until(until, step.device_ops);
        if (step.gpu) stall_ends.apply(step.device_ops, *step.gpu);
      }
      completed.push_back(std::move(step));
      awaiting.pop_front();
    }
  }

  void candidate(int64_t t) {
    flush_stall();
    count_records();
    resolve_undecided();
    done.join(open);
    candidate_ns = t;
  }

  void hold_candidate() {
    held = Piece{std::move(done), candidate_ns};
    done = StepAccumulator(candidate_ns);
    usage_held = usage_now;
  }

  void join_held() {
    if (!held) return;
    held->work.join(done);
    done = std::move(held->work);
    held.reset();
  }

  void close_held() {
    if (!held) return;
    take_usage(held->work, usage_held);
    emit(held->work, held->end_ns, 0, rule.held_signature());
    held.reset();
  }

  void close_at_candidate(uint32_t tags = 0) {
    join_held();
    take_usage(done, usage_now);
    emit(done, candidate_ns, tags);
  }

  void close_here(int64_t t) {
    flush_stall();
    count_records();
    resolve_undecided();
    join_held();
    done.join(open);
    candidate_ns = t;
    take_usage(done, usage_now);
    emit(done, t, rule.inferred() ? kTagInferred : 0u);
  }

  // `until`: what was known of the thread's usage at the end of the step.
  void take_usage(StepAccumulator& work, const Usage& until) {
    if (!usage_known) return;
    if (usage_base) {
      work.facts().cpu_ns = until.cpu_ns - usage_boundary.cpu_ns;
      work.facts().involuntary_switches =
          static_cast<int32_t>(until.involuntary_switches - usage_boundary.involuntary_switches);
    }
    usage_boundary = until;
    usage_base = true;
  }

  // A backward ended and nobody knows yet whether this run has an optimizer.
  void keep_undecided(int64_t t) {
    if (undecided.size() >= kMaxUndecided) return;
    flush_stall();
    count_records();
    StepAccumulator next(t);
    undecided.push_back({std::move(open), t});
    open = std::move(next);
  }

  // An optimizer exists (the pieces were parts of steps) or it does not (each piece was a step).
  void resolve_undecided() {
    if (undecided.empty()) return;
    std::vector<Piece> pieces = std::move(undecided);
    undecided.clear();
    if (rule.any_optimizer() || rule.has_explicit()) {
      for (Piece& piece : pieces) done.join(piece.work);
    } else {
      for (Piece& piece : pieces) {
        done.join(piece.work);
        emit(done, piece.end_ns, kTagInferred);
      }
    }
  }

  void apply(StepRule::Verdict verdict, int64_t t) {
    switch (verdict) {
      case StepRule::Verdict::kNone: return;
      case StepRule::Verdict::kCandidate: return candidate(t);
      case StepRule::Verdict::kCloseAtCandidate: return close_at_candidate();
      case StepRule::Verdict::kHoldCandidate: return hold_candidate();
      case StepRule::Verdict::kCloseHeldToo: return close_held(), close_at_candidate();
      case StepRule::Verdict::kCloseHere: return close_here(t);
      case StepRule::Verdict::kUndecided: return keep_undecided(t);
    }
  }

  // -- events --------------------------------------------------------------------------------------------------------

  bool in_no_step() const {
    return !stack.inside(Kind::kBackward) && !stack.inside(Kind::kOptimizer) && !stack.inside(Kind::kForward) &&
           !stack.inside(Kind::kStep) && !stack.inside(Kind::kFetch);
  }

  // Another thread is followed: its records so far come first.
  void change_thread() {
    stack.clear();
    step_depth = 0;
    loss_gap = evaluating = false;
    for (const Event& e : training.take_records()) handle(e, true);
  }

  void say_threads() {
    const uint64_t steps = training.steps_not_followed();
    if (steps == 0) return;
    life.unavailable.push_back("steps of other threads: " + std::to_string(steps) + " steps of " +
                               std::to_string(training.at_the_same_time()) +
                               " other threads, which trained at the same time, are not in the figures");
  }

  void training_work() {
    evaluating = false;
    loaders.training_work(life.training_loaders);
    values.begin_work(open.facts(), loaders.epoch());
  }

  void evaluation_work() {
    evaluating = true;
    const LoaderRoles::Wrongly wrongly = loaders.evaluation_work();
    open.move_own(Category::kInputWait, Category::kValidation, wrongly.fetch_ns);
    open.move_own(Category::kEpochStart, Category::kValidation, wrongly.epoch_ns);
    open.move_own(Category::kUnattributed, Category::kValidation, wrongly.gap_ns);
    open.facts().counted_samples -= wrongly.samples;
    open.facts().counted_tokens -= wrongly.tokens;
  }

  void push_span(const Event& e, Kind kind, Category category, bool covers = false, bool interrupts = false) {
    OpenSpan span;
    span.kind = kind;
    span.id = e.a;
    span.sequence = e.b;
    if (kind == Kind::kWait) {
      span.meeting = meeting_of(e);
      gpu.host_waits(static_cast<int64_t>(e.time_ns), e.a, e.b, span.meeting);
    }
    span.category = category;
    span.covers = covers;
    span.interrupts = interrupts;
    span.begin_ns = static_cast<int64_t>(e.time_ns);
    stack.push(span);
  }

  void begin(const Event& e, Kind kind, int64_t t) {
    switch (kind) {
      case Kind::kStep:
        start(t);
        if (step_depth++ == 0) {
          evaluating = false;
          if (!stack.covered()) apply(rule.step_begin(), t);
        }
        return push_span(e, kind, Category::kUnattributed);
      case Kind::kUserPhase: {
        const std::string* phase = names.find(NameKind::kPhase, e.a);
        const Category c = phase ? category_of_phase_name(*phase) : Category::kUserCode;
        return push_span(e, kind, c,
                         c == Category::kValidation || c == Category::kCheckpoint || c == Category::kLogging);
      }
      case Kind::kOptimizer:
      case Kind::kScalerStep:
        start(t);
        loss_gap = false;
        stack.drop_unfinished(kind, e.a);  // an optimizer's step runs no step of its own
        if (!stack.covered()) training_work();
        apply(rule.optimizer_begin(e.a), t);
        if (kind == Kind::kScalerStep) scaler_stepped = false;
        if (kind == Kind::kOptimizer) scaler_stepped = true;
        return push_span(e, kind, Category::kOptimizer);
      case Kind::kBackward:
        start(t);
        loss_gap = false;
        open.move_own(Category::kValidation, Category::kForward, modes.backward());
        if (!stack.covered()) training_work();
        return push_span(e, kind, Category::kBackward);
      case Kind::kForward: return begin_forward(e, t);
      case Kind::kFetch: return begin_fetch(e, t);
      case Kind::kLoaderCreate:
        stack.drop_unfinished_parts();
        loaders.created(e.a, e.b > 0, static_cast<double>(e.c));
        [[fallthrough]];
      case Kind::kLoaderEnd:  // an epoch's end belongs to the change of epochs
        return push_span(e, kind, loaders.epoch_category(e.a));
      case Kind::kWait: flush_stall(); return push_span(e, kind, Category::kUnattributed);
      case Kind::kGc: return push_span(e, kind, Category::kHostPause, false, true);
      case Kind::kSync: return push_span(e, kind, Category::kHostPause, false, true);
      case Kind::kSave: return push_span(e, kind, Category::kCheckpoint, true);
      case Kind::kCompile: return push_span(e, kind, Category::kCompile, true);
      case Kind::kH2d:
        if (started && !evaluating) open.facts().h2d_bytes += static_cast<double>(e.a);
        return push_span(e, kind, Category::kH2d);
      case Kind::kInitGroup:
        if (life.init_begin_ns == 0) life.init_begin_ns = t;
        return push_span(e, kind, Category::kStartup, true);
      case Kind::kTeardown:
        life.teardown_begun = life.group_destroyed = true;
        return push_span(e, kind, Category::kTeardown, true);
      default: return;
    }
  }

  void begin_forward(const Event& e, int64_t t) {
    if (stack.inside(Kind::kBackward)) return;  // activation checkpointing computes it again: part of backward
    const bool grad = e.flags & kForwardGrad;
    const bool trainer = loaders.newest() ? loaders.newest_feeds_training() : (e.flags & kForwardTraining) != 0;
    if (grad) start(t);
    const bool evaluates = grad && !stack.inside(Kind::kForward) && modes.evaluates(e.a, e.flags & kForwardTraining);
    if (grad && !evaluates) {
      if (!stack.covered()) training_work();
      return push_span(e, Kind::kForward, Category::kForward);
    }
    if (!evaluates && (!started || trainer || stack.inside(Kind::kForward))) {
      return push_span(e, Kind::kForward, Category::kForward);
    }
    loss_gap = false;
    if (!stack.covered()) evaluation_work();
    push_span(e, Kind::kForward, Category::kValidation, true);
  }

  void begin_fetch(const Event& e, int64_t t) {
    start(t);
    loss_gap = false;
    if (loaders.trains(e.a)) evaluating = false;
    if (loaders.evaluates(e.a)) evaluating = true;
    push_span(e, Kind::kFetch, loaders.fetch_category(e.a));
  }

  void end(const Event& e, Kind kind, int64_t t) {
    OpenSpan span;
    const bool was_open = stack.pop(kind, e.a, &span);
    if (kind == Kind::kWait || kind == Kind::kBackward) flush_stall();  // the next stall is another meeting
    if (kind == Kind::kWait) gpu.host_waited(t);
    switch (kind) {
      case Kind::kStep:
        start(t);
        step_depth = std::max(0, step_depth - 1);
        if (e.flags & kStepBoundary) {
          apply(rule.boundary_here(), t);
        } else if (step_depth == 0) {
          apply(rule.step_end(), t);
        }
        if (step_depth == 0) loss_gap = false;
        return;
      case Kind::kOptimizer:
      case Kind::kScalerStep:
        start(t);
        if (kind == Kind::kScalerStep && !scaler_stepped) open.facts().tags |= kTagSkipped;
        loaders.work_ended();
        // The inner optimizer of a GradScaler step ends nothing of its own.
        return apply(rule.optimizer_end(e.a), t);
      case Kind::kBackward:
        if (!was_open) return;
        if (span.collectives) gpu.backward_meets(t, span.last_group, group_hooks ? span.last_sequence : backward_tails);
        ++backward_tails;
        loaders.work_ended();
        return apply(rule.backward_end(e.a == 1 && !stack.inside(Kind::kCompile)), t);
      case Kind::kForward:
        if (was_open && span.category == Category::kForward) loss_gap = true;
        if (was_open && span.category == Category::kValidation) modes.evaluated(span.id, t - span.begin_ns);
        return;
      case Kind::kFetch: return end_fetch(e, t, span, was_open);
      case Kind::kGc:
        if (was_open && started) open.facts().gc_ns += t - span.begin_ns;
        return;
      case Kind::kSync:
        if (was_open && started) {
          const std::string* site = names.find(NameKind::kCallSite, span.id);
          open.facts().sync_ns += t - span.begin_ns;
          add_sync(life.sync_sites, site ? *site : "", t - span.begin_ns);
        }
        return;
      case Kind::kInitGroup: life.init_end_ns = t; return;
      default: return;
    }
  }

  void end_fetch(const Event& e, int64_t t, const OpenSpan& span, bool was_open) {
    if (!was_open) return;
    if (e.flags & kFetchStop) return;  // exhausted: no batch came, so what follows decides nothing about its role
    const int64_t ns = t - span.begin_ns;
    modes.batch();
    last_batch = loaders.fetched(e.a, ns, span.category);
    if (last_batch > 0) count_batch(last_batch, 0);
    open.facts().fetch.add({.fetches = 1,
                            .ready = static_cast<uint32_t>(e.c),
                            .out_of_order = static_cast<uint32_t>(e.d),
                            .in_flight = static_cast<uint32_t>(e.b),
                            .longest_ns = ns});
  }

  // Batches of a loader that turns out to be for evaluation are taken back (evaluation_work).
  void count_batch(double samples, double tokens) {
    if (!loaders.counts(samples, tokens, evaluating)) return;
    open.facts().counted_samples += samples;
    open.facts().counted_tokens += tokens;
  }

  void mark(const Event& e, Kind kind, int64_t t, bool main) {
    switch (kind) {
      case Kind::kBackwardOwn:
        // Only where something can be waited for; otherwise the rest of backward is its own work.
        if (training.is_other(e.thread)) return;  // of a backward of its own
        if (OpenSpan* backward = stack.innermost(Kind::kBackward)) backward->own_ended = true;
        return;
      case Kind::kCollective: group_hooks = true; return on_collective(e, t, e.flags & kCollectiveP2p);
      case Kind::kNcclOp:
        device_ops.announced(e);
        if (!group_hooks && !(e.flags & kNcclP2p)) on_collective(e, t, false);
        return;
      case Kind::kNcclTime: return device_ops.timed(e);
      case Kind::kGpuMark:
        return gpu.mark(static_cast<int64_t>(e.time_ns), static_cast<uint16_t>(e.a), e.b, static_cast<int64_t>(e.d),
                        static_cast<int64_t>(e.c), e.flags);
      case Kind::kMemory:
      case Kind::kMemoryCounters:
      case Kind::kMemoryPeak: return on_memory(e, kind);
      case Kind::kOutOfMemory:
        return MemoryReadings::add_failure(e, life.steps + (rule.has_candidate() ? 1 : 0),
                                           stack.now(gap(), false).category, life);
      case Kind::kOutOfMemoryDetail: return MemoryReadings::add_failure_detail(e, life);
      case Kind::kCollectiveDone: {
        const auto op = static_cast<uint8_t>(e.d & 0xff);
        if (!open.complete(e.a, e.b, op, t) && !done.complete(e.a, e.b, op, t) && held)
          held->work.complete(e.a, e.b, op, t);
        return;
      }
      case Kind::kUsage: {
        if (!main) return;
        usage_now = Usage{static_cast<int64_t>(e.a), static_cast<int64_t>(e.b)};
        usage_known = true;
        return;
      }
      case Kind::kValue:
        if (const std::string* name = names.find(NameKind::kValue, e.a))
          values.add(*name, std::bit_cast<double>(e.b), open.facts(), done.facts(), loaders.epoch(), life.steps == 0);
        return;
      case Kind::kShape:
        if (!main) return;
        count_batch(static_cast<double>(e.a) - last_batch, static_cast<double>(e.b));
        last_batch = 0;
        return;
      case Kind::kException: {
        const std::string* exception = names.find(NameKind::kException, e.a);
        life.exception = exception ? *exception : "exception";
        life.exception_ns = t;
        return;
      }
      case Kind::kProcess:
        if (e.a == static_cast<uint64_t>(ProcessEvent::kExit)) life.teardown_begun = true;
        return;
      default: return;
    }
  }

  void on_memory(const Event& e, Kind kind) {
    const DeviceMemory& newest = memory.add(e, kind);
    if (!started) return;
    // Read behind the optimizer it belongs to the step that it ends, although that step may already be a candidate.
    const bool ended = MemoryReadings::is_after_optimizer(e) && rule.has_candidate();
    std::optional<DeviceMemory>& reading = (ended ? done : open).facts().memory;
    if (!reading) reading.emplace();
    reading->add(newest);
  }

  // A collective was issued, as told by a process-group hook or by NCCL itself: both have the same payload.
  void on_collective(const Event& e, int64_t t, bool p2p) {
    CollectiveIssue issue;
    issue.group = e.a;
    issue.sequence = e.b;
    issue.bytes = e.c;
    issue.op = static_cast<uint8_t>(e.d & 0xff);
    issue.peer = p2p ? peer_of(e.d) : -1;
    issue.p2p = p2p;
    issue.time_ns = t;
    if (!p2p) gpu.issued(t, issue.op, issue.group);
    if (OpenSpan* backward = stack.innermost(Kind::kBackward)) {
      issue.since_backward_ns = t - backward->begin_ns;
      if (!p2p) {
        ++backward->collectives;
        backward->last_group = issue.group;
        backward->last_sequence = issue.sequence;
      }
    }
    if (started) open.add_collective(issue);
  }

  void push(const Event& e) {
    if (finished) return;
    ++records_since;
    ++life.records;
    const bool main = training.follows(e, in_no_step());
    if (training.take_changed()) change_thread();
    handle(e, main);
  }

  void handle(const Event& e, bool main) {
    const Kind kind = kind_of(e.kind);
    const Edge edge = edge_of(e.kind);
    // Records of several threads are in order of claim, not of time: never go back.
    const int64_t t = std::max(static_cast<int64_t>(e.time_ns), last_ns);
    if (edge == Edge::kMark) {
      const bool moves_time = main || (kind == Kind::kBackwardOwn && !training.is_other(e.thread));
      if (moves_time) charge(t);
      mark(e, kind, t, main);
      if (kind == Kind::kGpuMark) release(false);
      return;
    }
    if (kind == Kind::kNcclComm) {
      if (edge == Edge::kBegin && communicators.size() < kMaxCommunicators) communicators[e.a] = e.c;
      return;
    }
    if (!main) return;
    charge(t);
    if (edge == Edge::kBegin) begin(e, kind, t);
    if (edge == Edge::kEnd) end(e, kind, t);
  }

  void finish(int64_t end_ns) {
    if (finished) return;
    if (training.last_call(in_no_step()) && training.take_changed()) change_thread();
    say_threads();
    const int64_t t = std::max(end_ns, last_ns);
    const Now now = stack.now(gap(), tail_stalls());
    life.open_phase = phase();
    life.open_detail = now.stall ? "waiting for other ranks" : "";
    charge(t);
    flush_stall();
    count_records();
    if (rule.has_candidate()) close_at_candidate(kTagProvisional);
    resolve_undecided();
    release(true);
    finished = true;
    life.end_ns = t;
    if (started) {
      const int64_t from = life.last_step_ns ? life.last_step_ns : life.first_step_ns;
      life.teardown[index(Category::kTeardown)] = std::max<int64_t>(0, t - from);
    }
  }
};

StepBuilder::StepBuilder(uint32_t main_thread) : impl_(std::make_unique<Impl>()) {
  impl_->training = TrainingThread(main_thread);
}
StepBuilder::~StepBuilder() = default;
StepBuilder::StepBuilder(StepBuilder&&) noexcept = default;
StepBuilder& StepBuilder::operator=(StepBuilder&&) noexcept = default;

void StepBuilder::push(const Event& event) {
  if (impl_->last_ns == 0 && impl_->life.process_start_ns > 0) impl_->last_ns = impl_->life.process_start_ns;
  impl_->push(event);
}

void StepBuilder::push_name(uint16_t kind, uint64_t id, const std::string& text) {
  impl_->names.add(kind, id, text, impl_->life);
}

void StepBuilder::note_lost(uint64_t count) {
  impl_->lost_since += static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX / 2));
  impl_->life.lost += count;
  // What is open is unknown after a gap; keep only the training thread's step nesting out of it.
  if (count) {
    impl_->stack.clear();
    impl_->step_depth = 0;
  }
}

std::vector<RankStep> StepBuilder::take_completed() { return std::exchange(impl_->completed, {}); }
void StepBuilder::finish(int64_t end_ns) { impl_->finish(end_ns); }
RankLife& StepBuilder::life() { return impl_->life; }
const RankLife& StepBuilder::life() const { return impl_->life; }
const std::map<uint64_t, ProcessGroup>& StepBuilder::groups() const { return impl_->names.groups(); }
Category StepBuilder::phase() const { return impl_->phase(); }
const std::map<uint64_t, size_t>& StepBuilder::communicators() const { return impl_->communicators; }
const NameBook::Names& StepBuilder::names() const { return impl_->names.all(); }

}  // namespace stepscope
