#include "agent/agent_loop.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "agent/agent_config.h"
#include "agent/epoll_set.h"
#include "agent/hang_watch.h"
#include "agent/host_watch.h"
#include "agent/job_nodes.h"
#include "agent/lay_life.h"
#include "agent/line_sampler.h"
#include "agent/live_runs.h"
#include "agent/pid_watch.h"
#include "agent/pipeline.h"
#include "agent/rank_processes.h"
#include "agent/report_files.h"
#include "agent/run_folder.h"
#include "agent/run_report.h"
#include "agent/run_store.h"
#include "agent/shm_folder.h"
#include "agent/stop_watch.h"
#include "agent/summary_requests.h"
#include "align/rank_end.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "report/summary_json.h"
#include "report/summary_text.h"
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
constexpr uint64_t kNodesNs = 1'000 * kMs;      // at the end: to hand over, and for the ends of other nodes' ranks

// Keys of the epoll set that are no tails.
constexpr uint64_t kKeyChannel = ~0ull, kKeyRings = ~0ull - 1, kKeyChild = ~0ull - 2, kKeyNodes = ~0ull - 3;

class Agent {
 public:
  Agent(ControlChannel channel, AgentConfig config, const std::vector<Frame>& first_frames,
        const MakeLiveView& make_view, OpenNodeDoor open_door);
  int run();

 private:
  void handle(const Frame& frame);
  void wait(int timeout_ms);
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
  void note_own_interrupt();
  void note_failed_command();
  void learn_exit(Snapshot& snapshot);
  void finish();
  void state_loss_once();

  ControlChannel channel_;
  AgentConfig config_;
  RunFolder folder_;
  Log log_;
  EpollSet epoll_;
  Fd shm_lock_;
  SummaryRequests requests_;
  Pipeline pipeline_;
  RunStore store_;
  RankProcesses processes_;
  HostWatch host_;
  TorchProbe probe_;
  StopWatch stops_;
  HangWatch hang_;
  LineSampler lines_;
  JobNodes nodes_;
  PidWatch child_;
  RunEnd end_;
  std::unique_ptr<LiveView> view_;  // null: nobody looks
  uint64_t command_gone_ns_ = 0, abort_ns_ = 0;
  bool loss_stated_ = false;
};

Agent::Agent(ControlChannel channel, AgentConfig config, const std::vector<Frame>& first_frames,
             const MakeLiveView& make_view, OpenNodeDoor open_door)
    : channel_(std::move(channel)),
      config_(std::move(config)),
      folder_(config_.run_dir),
      log_(config_.run_dir.empty() ? "" : path_join(config_.run_dir, "agent.log")),
      shm_lock_(config_.shm_dir.empty() ? Fd() : hold_shm_lock(config_.shm_dir)),
      requests_(config_.shm_dir),
      pipeline_({.thresholds = config_.thresholds,
                 .silence = config_.silence,
                 .flops_per_step = config_.flops_per_step,
                 .peak_flops = config_.peak_flops}),
      store_(config_, pipeline_),
      processes_({.config = config_,
                  .pipeline = pipeline_,
                  .store = store_,
                  .folder = folder_,
                  .log = log_,
                  .epoll = epoll_,
                  .look_key = kKeyRings,
                  .told_status = [this](int pid) { return pid == child_.pid() ? end_.wait_status : std::nullopt; }}),
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
             pipeline_, [this](int fd) { epoll_.add(fd, kKeyNodes); }) {
  epoll_.add(channel_.fd(), kKeyChannel);
  if (config_.restarts > 0) {
    pipeline_.note("the observer was restarted; what it had judged before was worked out again from the black boxes");
    log_.line("agent restarted");
  }
  for (const Frame& frame : first_frames) handle(frame);
  if (make_view)
    view_ = make_view(config_, [this](const std::string& line) { channel_.send(FrameType::kNotice, line); });
}

void Agent::handle(const Frame& frame) {
  switch (frame.type) {
    case FrameType::kChild:
      child_ = PidWatch(std::atoi(frame.body.c_str()), 0);
      epoll_.add(child_.fd(), kKeyChild);
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
  // In the order in which they became ready: the first death comes first. A signal to the job is newer than the deaths
  // that it causes and is therefore looked at before them.
  const std::vector<uint64_t> ready = epoll_.wait(timeout_ms);
  for (const uint64_t key : ready) {
    if (key != kKeyChannel) continue;
    for (const Frame& frame : channel_.receive()) handle(frame);
    if (!channel_.open()) epoll_.remove(channel_.fd());
  }
  for (const uint64_t key : ready) {
    if (key == kKeyChild) epoll_.remove(child_.fd());
    if (key < kKeyNodes) processes_.on_death(key);
  }
}

// After the pump: what it completed is told, and what was told is in the next one.
void Agent::meet_nodes(uint64_t now_ns) {
  if (const auto load = host_.load()) nodes_.set_load(*load);
  nodes_.set_standing(hang_.here());
  nodes_.turn(now_ns);
  host_.set_more_ranks(nodes_.more_ranks_on_this_host());
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
      hang_.look(pipeline_, now_ns, processes_.starts().starting(), [&] { return nodes_.standing_elsewhere(now_ns); });
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
  processes_.kill_ranks();
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
  RankLife command = processes_.starts().exception_of(child_.pid()).value_or(RankLife());
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
  if (config_.attached && processes_.said_goodbye()) return true;  // they wait for the summary
  const bool command_gone = end_.wait_status || (!channel_.open() && !child_.alive());
  if (!command_gone) return false;
  if (command_gone_ns_ == 0) command_gone_ns_ = now_ns;
  const bool all_gone = processes_.all_gone();
  if (all_gone && nodes_.more_to_come(now_ns) && now_ns - command_gone_ns_ < kNodesNs) return false;
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
    processes_.look(now_ns);
    const double fullest = pipeline_.pump(now_ns);
    pipeline_.sample_completions(now_ns);
    meet_nodes(now_ns);
    processes_.tidy(now_ns);
    host_.sample(pipeline_, now_ns);
    if (!pipeline_.saw_rank()) probe_.look(child_.pid(), ::getpid(), now_ns);
    stops_.look(pipeline_, store_, now_ns);
    processes_.count_oom_kills(now_ns);
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
    processes_.poll_deaths_without_pidfd();
  }
  finish();
  return 0;
}

void Agent::finish() {
  const uint64_t now_ns = monotonic_ns();
  if (end_.end_ns == 0) end_.end_ns = now_ns;
  if (!end_.wait_status) end_.wait_status = child_.exit_status();  // known to the kernel even when the launcher is gone
  if (!config_.attached) processes_.note_survivors();
  note_own_interrupt();
  if (end_.wait_status && child_.pid() > 0) pipeline_.set_exit_status(child_.pid(), *end_.wait_status);
  if (const auto process = probe_.found(); process && !pipeline_.saw_rank()) pipeline_.engine().set_unhooked(*process);
  for (int look = 0; look < 2; ++look) processes_.look(now_ns);  // what has just died is seen to be gone, then judged
  note_failed_command();
  host_.tell_all(pipeline_.engine());
  pipeline_.finish(now_ns);
  hang_.see_fallen(pipeline_, now_ns);
  log_.line("stacks for lines of code: " + lines_.account());
  host_.judge(pipeline_.engine());
  hand_over_the_rest();
  nodes_.judge(pipeline_.engine());
  Snapshot snapshot = final_snapshot(pipeline_, host_, nodes_, config_, end_);
  const WrittenReport report = write_report(snapshot, config_.formats, folder_);
  const std::string whole = nodes_.verdict_elsewhere();
  const std::string text = whole.empty() ? report.text : node_text(snapshot, whole, report.places);
  state_loss_once();
  channel_.send(FrameType::kSummary, text);
  if (config_.attached && !folder_ && !config_.shm_dir.empty()) {  // the process shows it before it is gone
    (void)write_file_atomic(path_join(config_.shm_dir, "final_summary.txt"), text);
  }
  learn_exit(snapshot);
  store_.finish(snapshot, host_.facts(), now_ns);
  folder_.write("manifest.json", manifest_json(config_, snapshot.run.status, end_, pipeline_));
  const bool lost = pipeline_.first_unclean_death(true) != nullptr;
  if (lost || snapshot.run.status == "hung" || config_.keep_rings) processes_.keep_rings();
  if (!config_.shm_dir.empty()) remove_flat_dir(config_.shm_dir);
  if (view_)
    view_->show(std::make_shared<const Snapshot>(std::move(snapshot)), std::make_shared<const HostFacts>(host_.facts()),
                now_ns);
  channel_.send(FrameType::kDone);
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
    EpollSet set;
    set.add(channel.fd(), kKeyChannel);
    (void)set.wait(kPollMs);
    frames = channel.receive();
  }
  if (frames.empty() || frames.front().type != FrameType::kConfig) return 2;
  auto config = AgentConfig::from_json(frames.front().body);
  if (!config) return 2;
  frames.erase(frames.begin());
  Agent agent(std::move(channel), std::move(*config), frames, make_view, std::move(open_door));
  return agent.run();
}

}  // namespace stepscope
