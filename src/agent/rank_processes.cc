#include "agent/rank_processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/host_name.h"

namespace stepscope {
namespace {

constexpr uint64_t kStarterKeptNs = 2'000'000'000;
constexpr size_t kMaxKeptBytes = 1ull << 30;

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

}  // namespace

RankProcesses::RankProcesses(Surroundings around)
    : config_(around.config),
      pipeline_(around.pipeline),
      store_(around.store),
      folder_(around.folder),
      log_(around.log),
      epoll_(around.epoll),
      told_status_(std::move(around.told_status)),
      rings_(config_.shm_dir),
      starts_(config_.shm_dir),
      marks_(config_.shm_dir) {
  epoll_.add(rings_.fd(), around.look_key);
  epoll_.add(starts_.fd(), around.look_key);
}

// Oldest first: which process succeeds which is told by who was there before.
void RankProcesses::look_for_rings(uint64_t now_ns) {
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

// Who says that it will be a rank. After look_for_rings(): a black box that is there is not missed.
void RankProcesses::look_for_starts(uint64_t now_ns) {
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

void RankProcesses::follow(RankTail tail) {
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
  epoll_.add(watcher.fd(), id);
  watches_[id] = std::move(watcher);
  if (!dead) oom_kills_.follow(identity.pid);
  if (dead) on_death(id);
}

void RankProcesses::on_death(Pipeline::TailId id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  PidWatch& watcher = found->second;
  const uint64_t now_ns = monotonic_ns();
  std::optional<int> status = watcher.exit_status();
  if (!status) status = told_status_(watcher.pid());
  epoll_.remove(watcher.fd());
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

void RankProcesses::poll_deaths_without_pidfd() {
  std::vector<Pipeline::TailId> dead;
  for (auto& [id, watcher] : watches_) {
    if (watcher.fd() < 0 && !watcher.alive()) dead.push_back(id);
  }
  for (const Pipeline::TailId id : dead) on_death(id);
}

void RankProcesses::look(uint64_t now_ns) {
  look_for_rings(now_ns);
  look_for_starts(now_ns);
}

void RankProcesses::tidy(uint64_t now_ns) {
  keep_marks();
  forget_non_ranks(now_ns);
  put_away_closed_rings();
}

void RankProcesses::keep_marks() {
  for (const Pipeline::TailId id : pipeline_.tails()) {
    const RankTail* ring = pipeline_.ring(id);
    if (ring && pipeline_.counts_as_rank(id)) marks_.put(ring->mark());
  }
}

// A process that imported torch and ended without ever training holds a ring's worth of shared memory for nothing.
void RankProcesses::forget_non_ranks(uint64_t now_ns) {
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

void RankProcesses::put_away_closed_rings() {
  const std::vector<std::string> rings = pipeline_.take_closed_rings();
  if (rings.empty()) return;
  if (config_.keep_rings || pipeline_.first_unclean_death(true)) folder_.keep_rings(rings, kMaxKeptBytes / 4);
  for (const std::string& ring : rings) ::unlink(ring.c_str());
}

bool RankProcesses::said_goodbye() const {
  if (watches_.empty() || !pipeline_.saw_rank()) return false;
  return std::all_of(watches_.begin(), watches_.end(), [&](const auto& entry) {
    return !pipeline_.has(entry.first) || (pipeline_.tail(entry.first).identity().life & blackbox::kLifeClosed) != 0;
  });
}

void RankProcesses::note_survivors() {
  for (const auto& [id, watcher] : watches_) {
    if (!pipeline_.counts_as_rank(id)) continue;
    const int rank = pipeline_.tail(id).identity().rank;
    pipeline_.note("rank " + std::to_string(rank) + " was still running when the launch command ended");
  }
}

void RankProcesses::kill_ranks() {
  for (auto& [id, watcher] : watches_)
    if (pipeline_.counts_as_rank(id) && watcher.alive()) ::kill(watcher.pid(), SIGKILL);
}

void RankProcesses::keep_rings() {
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

}  // namespace stepscope
