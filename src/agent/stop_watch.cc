#include "agent/stop_watch.h"

#include <fcntl.h>

#include <string>

#include "sampler/process.h"

namespace stepscope {

void StopWatch::look(Pipeline& pipeline, RunStore& store, uint64_t now_ns) {
  if (now_ns < due_ns_) return;
  due_ns_ = now_ns + kLookNs;
  for (const Pipeline::TailId id : pipeline.tails()) {
    const RankSource& tail = pipeline.tail(id);
    if (!tail.local() || tail.ended() || !pipeline.counts_as_rank(id)) continue;
    const blackbox::Identity& identity = tail.identity();
    const auto text = file_.read(AT_FDCWD, ("/proc/" + std::to_string(identity.pid) + "/stat").c_str());
    const auto stat = text ? parse_process_stat(*text) : std::nullopt;
    const bool known = stat && (identity.pid_start_ticks == 0 || stat->start_ticks == identity.pid_start_ticks);
    const bool stopped = known && (stat->state == 'T' || stat->state == 't');
    bool& before = stopped_[identity.pid];
    if (stopped) pipeline.note_stopped(id, static_cast<int64_t>(now_ns));
    if (stopped && !before) {
      pipeline.note("rank " + std::to_string(identity.rank) + " was stopped by a signal or a debugger about step " +
                    std::to_string(tail.steps()));
      store.event("rank_stopped", "pid " + std::to_string(identity.pid), identity.rank, static_cast<int64_t>(now_ns));
    }
    before = stopped;
  }
}

}  // namespace stepscope
