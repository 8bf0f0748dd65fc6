#include "agent/agent_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "agent/agent_config.h"
#include "agent/hang_watch.h"
#include "agent/host_watch.h"
#include "agent/job_nodes.h"
#include "agent/lay_life.h"
#include "agent/line_sampler.h"
#include "agent/live_runs.h"
#include "agent/pid_watch.h"
#include "agent/pipeline.h"
#include "agent/report_files.h"
#include "agent/ring_watch.h"
#include "agent/run_folder.h"
#include "agent/run_report.h"
#include "agent/run_store.h"
#include "agent/shm_folder.h"
#include "agent/start_watch.h"
#include "agent/step_marks.h"
#include "agent/stop_watch.h"
#include "agent/summary_requests.h"
#include "align/rank_end.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "report/summary_json.h"
#include "sampler/oom_counters.h"
#include "sampler/torch_probe.h"

namespace stepscope {
namespace {

constexpr int kPollMs = 100, kMinPollMs = 5;
constexpr int kConfigWaitMs = 5000;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kGraceNs = 300 * kMs;        // from the end of the command to that of its ranks
constexpr uint64_t kExitWaitNs = 10'000 * kMs;  // attached: from a rank's last exit handler to the end of its process
constexpr uint64_t kSignalSlackNs = 50 * kMs;   // a rank may die of a group's signal before we hear of it
constexpr uint64_t kAbortNs = 5'000 * kMs;      // from SIGTERM to SIGKILL, with --on-hang abort
constexpr uint64_t kStarterKeptNs = 2'000 * kMs;
constexpr uint64_t kNodesNs = 1'000 * kMs;  // at the end: to hand over, and for the ends of other nodes' ranks
constexpr size_t kMaxKeptBytes = 1ull << 30;
constexpr size_t kMaxEvents = 64;

// Keys of the epoll set that are no tails.
constexpr uint64_t kKeyChannel = ~0ull, kKeyRings = ~0ull - 1, kKeyChild = ~0ull - 2, kKeyNodes = ~0ull - 3;

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// A ring without a nonce was made by something older or by hand: taken as ours, since the folder is ours alone.
bool belongs_here(const blackbox::Identity& identity, const std::string& nonce) {
  std::string text;
  bool any = false;
  for (uint8_t byte : identity.run_nonce) {
    any = any || byte != 0;
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return !any || text == nonce;
}

class Agent {
 public:
  Agent(ControlChannel channel, AgentConfig config, std::vector<Frame> first_frames, const MakeLiveView& make_view,
        OpenNodeDoor open_door);
  int run();

 private:
  void watch(int fd, uint64_t key);
  void handle(const Frame& frame);
  void wait(int timeout_ms);
  void look_for_rings(uint64_t now_ns);
  void look_for_starts(uint64_t now_ns);
  void follow(RankTail tail);
  void on_death(Pipeline::TailId id);
  void poll_deaths_without_pidfd();
  void forget_non_ranks(uint64_t now_ns);
  void keep_marks();
  void put_away_closed_rings();
  void meet_nodes(uint64_t now_ns);
  void tell_node_lines();
  void hand_over_the_rest();
  Snapshot snapshot_so_far(const HostFacts& host, uint64_t now_ns);
  void answer_requests(uint64_t now_ns);
  void show(uint64_t now_ns);
  void watch_progress(uint64_t now_ns);
  void write_stacks();
  void end_training(uint64_t now_ns);
  bool over(uint64_t now_ns);
  bool said_goodbye() const;
  void note_own_interrupt();
  void note_failed_command();
  void learn_exit(Snapshot& snapshot);
  void finish();
  void keep_black_boxes(const Snapshot& snapshot);
  void state_loss_once();

  ControlChannel channel_;
  AgentConfig config_;
  RunFolder folder_;
  Log log_;
  Fd epoll_, shm_lock_;
  RingWatch rings_;
  StartWatch starts_;
  StepMarks marks_;
  SummaryRequests requests_;
  Pipeline pipeline_;
  RunStore store_;
  HostWatch host_;
  TorchProbe probe_;
  StopWatch stops_;
  OomCounters oom_kills_;
  HangWatch hang_;
  LineSampler lines_;
  JobNodes nodes_;
  std::map<Pipeline::TailId, PidWatch> watches_;
  PidWatch child_;
  RunEnd end_;
  std::unique_ptr<LiveView> view_;  // null: nobody looks
  uint64_t command_gone_ns_ = 0, abort_ns_ = 0;
  bool loss_stated_ = false;
};

Agent::Agent(ControlChannel channel, AgentConfig config, std::vector<Frame> first_frames, const MakeLiveView& make_view,
             OpenNodeDoor open_door)
    : channel_(std::move(channel)),
      config_(std::move(config)),
      folder_(config_.run_dir),
      log_(config_.run_dir.empty() ? "" : path_join(config_.run_dir, "agent.log")),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      shm_lock_(config_.shm_dir.empty() ? Fd() : hold_shm_lock(config_.shm_dir)),
      rings_(config_.shm_dir),
      starts_(config_.shm_dir),
      marks_(config_.shm_dir),
      requests_(config_.shm_dir),
      pipeline_({.thresholds = config_.thresholds,
                 .silence = config_.silence,
                 .flops_per_step = config_.flops_per_step,
                 .peak_flops = config_.peak_flops}),
      store_(config_, pipeline_),
      host_(config_.interval_s, config_.thresholds),
      hang_({.limits = Thresholds::with(config_.thresholds),
             .timeout_s = config_.hang_timeout_s,
             .stacks = config_.stacks}),
      lines_(config_.stacks, monotonic_ns()),
      nodes_({.shm_dir = config_.shm_dir,
              .run_dir = config_.run_dir,
              .node = host_name(),
              .aggregator = config_.aggregator,
              .secret = config_.node_secret,
              .open_door = std::move(open_door)},
             pipeline_, [this](int fd) { watch(fd, kKeyNodes); }) {
  watch(channel_.fd(), kKeyChannel);
  watch(rings_.fd(), kKeyRings);
  watch(starts_.fd(), kKeyRings);
  if (config_.restarts > 0) {
    pipeline_.note("the observer was restarted; what it had judged before was worked out again from the black boxes");
    log_.line("agent restarted");
  }
  for (const Frame& frame : first_frames) handle(frame);
  if (make_view) view_ = make_view(config_, [this](std::string line) { channel_.send(FrameType::kNotice, line); });
}

void Agent::watch(int fd, uint64_t key) {
  if (fd < 0) return;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Agent::handle(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kChild:
      child_ = PidWatch(std::atoi(frame.body.c_str()), 0);
      watch(child_.fd(), kKeyChild);
      break;
    case FrameType::kSignal:
      end_.interrupted_by = std::atoi(frame.body.c_str());
      store_.event("interrupt", "signal " + frame.body, -1, static_cast<int64_t>(monotonic_ns()));
      pipeline_.interrupted(static_cast<int64_t>(monotonic_ns() - kSignalSlackNs));
      break;
    case FrameType::kEnded:
      end_.wait_status = std::atoi(frame.body.c_str());
      end_.end_ns = monotonic_ns();
      break;
    default: break;
  }
}

void Agent::wait(int timeout_ms) {
  epoll_event events[kMaxEvents];
  const int count = ::epoll_wait(epoll_.get(), events, kMaxEvents, timeout_ms);
  // In the order in which they became ready: the first death comes first. A signal to the job is newer than the deaths
  // that it causes and is therefore looked at before them.
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 != kKeyChannel) continue;
    for (const Frame& frame : channel_.receive()) handle(frame);
    if (!channel_.open()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel_.fd(), nullptr);
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[i].data.u64;
    if (key == kKeyChild) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, child_.fd(), nullptr);
    if (key < kKeyNodes) on_death(key);
  }
}

void Agent::follow(RankTail tail) {
  const blackbox::Identity identity = tail.identity();
  const std::string path = tail.path();
  if (!belongs_here(identity, config_.nonce)) {
    pipeline_.note("a black box of another run lay in the folder: " + path);
    return;
  }
  const Pipeline::TailId id = pipeline_.add(std::move(tail));
  PidWatch watcher(identity.pid, identity.pid_start_ticks);
  log_.line("ring " + path + " pid " + std::to_string(identity.pid) + " rank " + std::to_string(identity.rank));
  if (config_.restarts > 0) {
    if (auto mark = marks_.predecessor(identity.pid, identity.pid_start_ticks)) {
      pipeline_.resume_tail(id, *mark);
    }
  }
  // Not found under its pid: dead, unless it lives where pids are numbered differently (a container of its own).
  const bool elsewhere = !watcher.found() && identity.hostname != host_name();
  if (elsewhere) return;
  const bool dead = !watcher.found();
  watch(watcher.fd(), id);
  watches_[id] = std::move(watcher);
  if (!dead) oom_kills_.follow(identity.pid);
  if (dead) on_death(id);
}

// Who says that it will be a rank. After look_for_rings(): a black box that is there is not missed.
void Agent::look_for_starts(uint64_t now_ns) {
  const auto has_ring = [&](int pid) {
    const std::vector<Pipeline::TailId> ids = pipeline_.tails();
    return std::any_of(ids.begin(), ids.end(),
                       [&](auto id) { return pipeline_.ring(id) && pipeline_.tail(id).identity().pid == pid; });
  };
  for (const RankLife& life : starts_.look(has_ring, now_ns)) {
    if (starts_.launches(life.pid)) continue;
    log_.line("pid " + std::to_string(life.pid) + " was to be rank " + std::to_string(life.rank) + " and failed");
    pipeline_.start_failed(life, now_ns);
  }
  for (const Pipeline::TailId id : pipeline_.tails()) {
    const int pid = pipeline_.tail(id).identity().pid;
    if (pipeline_.ring(id) && starts_.launches(pid)) pipeline_.launcher(pid);
  }
}

// Oldest first: which process succeeds which is told by who was there before.
void Agent::look_for_rings(uint64_t now_ns) {
  std::vector<RankTail> fresh;
  for (const std::string& path : rings_.poll(now_ns)) {  // a ring has its name only when it is whole
    if (auto tail = RankTail::open(path)) {
      fresh.push_back(std::move(*tail));
    } else {
      log_.line(tail.error().message);
      pipeline_.unavailable("black box: " + tail.error().message);
    }
  }
  std::stable_sort(fresh.begin(), fresh.end(), [](const RankTail& a, const RankTail& b) {
    return a.identity().anchor_monotonic_ns < b.identity().anchor_monotonic_ns;
  });
  for (RankTail& tail : fresh) follow(std::move(tail));
}

void Agent::on_death(Pipeline::TailId id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  PidWatch& watcher = found->second;
  const uint64_t now_ns = monotonic_ns();
  std::optional<int> status = watcher.exit_status();
  if (!status && watcher.pid() == child_.pid()) status = end_.wait_status;
  if (watcher.fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watcher.fd(), nullptr);
  const int rank = pipeline_.has(id) ? pipeline_.tail(id).identity().rank : -1;
  const OomKill oom_kill = oom_kills_.at_death(watcher.pid(), now_ns);
  if (pipeline_.has(id)) pipeline_.set_oom_kill(id, oom_kill);
  pipeline_.end_tail(id, now_ns, status);
  store_.event("rank_death",
               "pid " + std::to_string(watcher.pid()) + (status ? ", wait status " + std::to_string(*status) : ""),
               rank, static_cast<int64_t>(now_ns));
  log_.line("pid " + std::to_string(watcher.pid()) + " ended, status " +
            (status ? std::to_string(*status) : "unknown"));
  watches_.erase(found);
}

void Agent::poll_deaths_without_pidfd() {
  std::vector<Pipeline::TailId> dead;
  for (auto& [id, watcher] : watches_) {
    if (watcher.fd() < 0 && !watcher.alive()) dead.push_back(id);
  }
  for (const Pipeline::TailId id : dead) on_death(id);
}

// A process that imported torch and ended without ever training holds a ring's worth of shared memory for nothing.
void Agent::forget_non_ranks(uint64_t now_ns) {
  for (const Pipeline::TailId id : pipeline_.tails()) {
    const RankSource& tail = pipeline_.tail(id);
    if (!tail.ended() || tail.is_rank() || pipeline_.counts_as_rank(id)) continue;
    // Of a start in which another rank may turn out to have failed first; one that ended as it should waited for
    // nobody.
    const RankTail* ring = tail.local();
    const auto kept_ns = static_cast<int64_t>(now_ns - kStarterKeptNs);
    if (tail.is_starter() && !(ring && ring->exited_cleanly()) && tail.life().end_ns > kept_ns) continue;
    if (ring) ::unlink(ring->path().c_str());
    pipeline_.drop(id);
  }
}

void Agent::put_away_closed_rings() {
  const std::vector<std::string> rings = pipeline_.take_closed_rings();
  if (rings.empty()) return;
  if (config_.keep_rings || pipeline_.first_unclean_death(true)) folder_.keep_rings(rings, kMaxKeptBytes / 4);
  for (const std::string& ring : rings) ::unlink(ring.c_str());
}

void Agent::keep_marks() {
  for (const Pipeline::TailId id : pipeline_.tails()) {
    const RankTail* ring = pipeline_.ring(id);
    if (ring && pipeline_.counts_as_rank(id)) marks_.put(ring->mark());
  }
}

// After the pump: what it completed is told, and what was told is in the next one.
void Agent::meet_nodes(uint64_t now_ns) {
  if (const auto load = host_.load()) nodes_.set_load(*load);
  nodes_.set_standing(hang_.here());
  nodes_.turn(now_ns);
  tell_node_lines();
}

void Agent::tell_node_lines() {
  for (const std::string& line : nodes_.take_lines()) {
    channel_.send(FrameType::kNotice, line);
    log_.line(line);
    pipeline_.note(line);
  }
}

// The ends of this node's ranks belong to the verdict of the job.
void Agent::hand_over_the_rest() {
  const uint64_t begin_ns = monotonic_ns();
  nodes_.set_host(host_.sight());
  nodes_.close(begin_ns);
  while (nodes_.delivering() && monotonic_ns() - begin_ns < kNodesNs) {
    nodes_.turn(monotonic_ns());
    if (nodes_.delivering()) wait(kMinPollMs);
  }
  tell_node_lines();
}

// What is known so far; the last step or two of each rank are still open.
Snapshot Agent::snapshot_so_far(const HostFacts& host, uint64_t now_ns) {
  RunEnd until_now;
  until_now.end_ns = now_ns;
  Snapshot snapshot = final_snapshot(pipeline_, host_, nodes_, config_, until_now);
  snapshot.run.status = "running";
  host_.fill_so_far(host, snapshot);
  return snapshot;
}

void Agent::show(uint64_t now_ns) {
  if (!view_ || !view_->wants_snapshot(now_ns)) return;
  auto host = std::make_shared<const HostFacts>(host_.facts_so_far());
  auto snapshot = std::make_shared<const Snapshot>(snapshot_so_far(*host, now_ns));
  view_->show(std::move(snapshot), std::move(host), now_ns);
}

void Agent::answer_requests(uint64_t now_ns) {
  const std::vector<std::string> tokens = requests_.take();
  if (tokens.empty()) return;
  const std::string json = summary_json(snapshot_so_far(host_.facts_so_far(), now_ns));
  for (const std::string& token : tokens) requests_.answer(token, json);
}

void Agent::watch_progress(uint64_t now_ns) {
  if (end_.wait_status) return;
  const HangWatch::News news =
      hang_.look(pipeline_, now_ns, starts_.starting(), [&] { return nodes_.standing_elsewhere(now_ns); });
  if (abort_ns_ > 0) end_training(now_ns);
  if (news.text.empty()) return;
  channel_.send(FrameType::kNotice, news.text);
  log_.line(news.text);
  store_.event(news.verdict ? "hang" : "hang_over", news.text.substr(0, news.text.find('\n')), -1,
               static_cast<int64_t>(now_ns));
  if (!news.verdict) return;
  if (config_.on_hang != "report") write_stacks();
  if (config_.on_hang == "abort" && abort_ns_ == 0) end_training(now_ns);
}

// stacks/rank-<r>.txt: every frame, innermost first.
void Agent::write_stacks() {
  if (!folder_) return;
  (void)make_dirs(path_join(folder_.path(), "stacks"));
  for (const RankStanding& rank : hang_.standing().ranks) {
    if (!rank.stack) continue;
    std::string text;
    for (const CodeLine& frame : rank.stack->frames)
      text += frame.file + ":" + std::to_string(frame.line) + " " + frame.function + "\n";
    folder_.write("stacks/rank-" + std::to_string(rank.rank) + ".txt", text);
  }
}

// First asked in order, the launch command alone; ranks that do not follow (stopped, in native code) are killed.
void Agent::end_training(uint64_t now_ns) {
  if (abort_ns_ == 0) {
    abort_ns_ = now_ns;
    log_.line("the job stands still and is ended (--on-hang abort)");
    if (child_.pid() > 0) ::kill(child_.pid(), SIGTERM);
    return;
  }
  if (now_ns - abort_ns_ < kAbortNs) return;
  for (auto& [id, watcher] : watches_)
    if (pipeline_.counts_as_rank(id) && watcher.alive()) ::kill(watcher.pid(), SIGKILL);
}

// Attached: every rank has run its exit handlers. Its process may take a while to be gone and waits for the summary.
bool Agent::said_goodbye() const {
  if (!config_.attached || watches_.empty() || !pipeline_.saw_rank()) return false;
  return std::all_of(watches_.begin(), watches_.end(), [&](const auto& entry) {
    return !pipeline_.has(entry.first) || (pipeline_.tail(entry.first).identity().life & blackbox::kLifeClosed) != 0;
  });
}

// Without a launcher nobody tells of a Ctrl-C but the exception that it becomes.
void Agent::note_own_interrupt() {
  if (!config_.attached) return;
  for (const Pipeline::TailId id : pipeline_.tails()) {
    if (!pipeline_.counts_as_rank(id)) continue;
    const RankLife life = pipeline_.tail(id).life();
    if (!keyboard_interrupt(life)) continue;
    end_.interrupted_by = SIGINT;
    pipeline_.interrupted(life.exception_ns - static_cast<int64_t>(kSignalSlackNs));
  }
}

// Nobody came as far as being a rank: then what failed is the launch command.
void Agent::note_failed_command() {
  if (pipeline_.saw_rank() || end_.interrupted_by || !end_.wait_status || *end_.wait_status == 0) return;
  RankLife command = starts_.exception_of(child_.pid()).value_or(RankLife());
  command.ended = true;
  command.end_ns = static_cast<int64_t>(end_.end_ns);
  lay_exit(*end_.wait_status, command);
  pipeline_.engine().set_failed_command(command);
}

// Attached: how the process really ended is known only after the summary it waits for.
void Agent::learn_exit(Snapshot& snapshot) {
  if (!config_.attached || end_.wait_status) return;
  const uint64_t deadline_ns = monotonic_ns() + kExitWaitNs;
  while (child_.alive() && monotonic_ns() < deadline_ns) ::usleep(kMinPollMs * 1000);
  end_.wait_status = child_.exit_status();
  if (!end_.wait_status) return;
  snapshot.run.exit_code = shell_code(*end_.wait_status);
  snapshot.run.status = run_status(snapshot, pipeline_, end_);
  (void)write_report(snapshot, config_.formats, folder_);
}

bool Agent::over(uint64_t now_ns) {
  if (said_goodbye()) return true;
  const bool command_gone = end_.wait_status || (!channel_.open() && !child_.alive());
  if (!command_gone) return false;
  if (command_gone_ns_ == 0) command_gone_ns_ = now_ns;
  if (watches_.empty() && nodes_.more_to_come(now_ns) && now_ns - command_gone_ns_ < kNodesNs) return false;
  const bool all_gone = watches_.empty();
  if (!channel_.open()) return all_gone && now_ns - command_gone_ns_ > kGraceNs;  // nobody waits for us
  return all_gone || now_ns - command_gone_ns_ > kGraceNs;
}

int Agent::run() {
  folder_.write("manifest.json", manifest_json(config_, "running", {}, pipeline_));
  announce_run(config_);
  int poll_ms = kPollMs;
  for (;;) {
    const uint64_t now_ns = monotonic_ns();
    wait(0);  // who is gone makes room for who came since
    look_for_rings(now_ns);
    look_for_starts(now_ns);
    const double fullest = pipeline_.pump(now_ns);
    pipeline_.sample_completions(now_ns);
    meet_nodes(now_ns);
    keep_marks();
    forget_non_ranks(now_ns);
    put_away_closed_rings();
    host_.sample(pipeline_, now_ns);
    if (!pipeline_.saw_rank()) probe_.look(child_.pid(), ::getpid(), now_ns);
    stops_.look(pipeline_, store_, now_ns);
    oom_kills_.look(now_ns);
    watch_progress(now_ns);
    lines_.look(pipeline_, now_ns, hang_.asks() || pipeline_.interrupted_ns() > 0 || end_.wait_status.has_value(),
                nodes_.lines_wanted());
    host_.tell_news(pipeline_.engine(), now_ns);
    store_.tick(now_ns);
    answer_requests(now_ns);
    show(now_ns);
    state_loss_once();
    if (over(now_ns)) break;
    poll_ms = fullest > 0.125 ? std::max(kMinPollMs, poll_ms / 2) : std::min(kPollMs, poll_ms * 2);
    wait(end_.wait_status ? kMinPollMs : lines_.wait_ms(monotonic_ns(), poll_ms));
    poll_deaths_without_pidfd();
  }
  finish();
  return 0;
}

void Agent::finish() {
  const uint64_t now_ns = monotonic_ns();
  if (end_.end_ns == 0) end_.end_ns = now_ns;
  if (!end_.wait_status) end_.wait_status = child_.exit_status();  // known to the kernel even when the launcher is gone
  for (const auto& [id, watcher] : watches_) {
    if (!pipeline_.counts_as_rank(id) || config_.attached) continue;
    const int rank = pipeline_.tail(id).identity().rank;
    pipeline_.note("rank " + std::to_string(rank) + " was still running when the launch command ended");
  }
  note_own_interrupt();
  if (end_.wait_status && child_.pid() > 0) pipeline_.set_exit_status(child_.pid(), *end_.wait_status);
  if (const auto process = probe_.found(); process && !pipeline_.saw_rank()) pipeline_.engine().set_unhooked(*process);
  for (int look = 0; look < 2; ++look) {  // what has just died is seen to be gone, and then judged
    look_for_rings(now_ns);
    look_for_starts(now_ns);
  }
  note_failed_command();
  host_.tell_all(pipeline_.engine());
  pipeline_.finish(now_ns);
  log_.line("stacks for lines of code: " + lines_.account());
  host_.judge(pipeline_.engine());
  hand_over_the_rest();
  nodes_.judge(pipeline_.engine());
  Snapshot snapshot = final_snapshot(pipeline_, host_, nodes_, config_, end_);
  const std::string text = write_report(snapshot, config_.formats, folder_).text;
  state_loss_once();
  channel_.send(FrameType::kSummary, text);
  if (config_.attached && !folder_ && !config_.shm_dir.empty()) {  // the process shows it before it is gone
    (void)write_file_atomic(path_join(config_.shm_dir, "final_summary.txt"), text);
  }
  learn_exit(snapshot);
  store_.finish(snapshot, host_.facts(), now_ns);
  folder_.write("manifest.json", manifest_json(config_, snapshot.run.status, end_, pipeline_));
  keep_black_boxes(snapshot);
  if (!config_.shm_dir.empty()) remove_flat_dir(config_.shm_dir);
  if (view_)
    view_->show(std::make_shared<const Snapshot>(std::move(snapshot)), std::make_shared<const HostFacts>(host_.facts()),
                now_ns);
  channel_.send(FrameType::kDone);
}

void Agent::keep_black_boxes(const Snapshot& snapshot) {
  const bool lost = pipeline_.first_unclean_death(true) != nullptr;
  if (!lost && snapshot.run.status != "hung" && !config_.keep_rings) return;
  std::vector<std::string> dead, others;
  for (const Pipeline::TailId id : pipeline_.tails()) {
    if (!pipeline_.counts_as_rank(id)) continue;
    const RankTail* ring = pipeline_.ring(id);
    if (!ring) continue;  // its own node keeps it
    const UncleanDeath* first = pipeline_.first_unclean_death();
    (first && first->rank == ring->identity().rank ? dead : others).push_back(ring->path());
  }
  dead.insert(dead.end(), others.begin(), others.end());
  const size_t kept = folder_.keep_rings(dead, kMaxKeptBytes);
  log_.line("kept " + std::to_string(kept) + " of " + std::to_string(dead.size()) + " rings");
}

void Agent::state_loss_once() {
  std::string loss = folder_.first_error();
  if (auto error = store_.take_error(); error && loss.empty()) loss = error->message;
  if (loss_stated_ || loss.empty()) return;
  loss_stated_ = true;
  pipeline_.note("not written: " + loss);
  channel_.send(FrameType::kNotice, "cannot write " + loss + " (the training goes on)");
}

}  // namespace

int run_agent(ControlChannel channel, const MakeLiveView& make_view, OpenNodeDoor open_door) {
  // Ctrl-C, hang-ups and a scheduler's SIGTERM are meant for the training; the end of it is what ends us.
  for (int signal : {SIGINT, SIGHUP, SIGTERM, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  std::vector<Frame> frames;
  const uint64_t start_ns = monotonic_ns();
  while (frames.empty() && channel.open() && monotonic_ns() - start_ns < kConfigWaitMs * kMs) {
    Fd set(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event event = {};
    event.events = EPOLLIN;
    ::epoll_ctl(set.get(), EPOLL_CTL_ADD, channel.fd(), &event);
    ::epoll_wait(set.get(), &event, 1, kPollMs);
    frames = channel.receive();
  }
  if (frames.empty() || frames.front().type != FrameType::kConfig) return 2;
  auto config = AgentConfig::from_json(frames.front().body);
  if (!config) return 2;
  frames.erase(frames.begin());
  Agent agent(std::move(channel), std::move(*config), std::move(frames), make_view, std::move(open_door));
  return agent.run();
}

}  // namespace stepscope
