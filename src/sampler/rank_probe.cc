#include "sampler/rank_probe.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>

#include "base/file.h"

namespace stepscope {
namespace {

// A mean or sum over the workers that have the value.
struct Total {
  double sum = 0;
  int count = 0;
  void add(std::optional<double> v) {
    if (!v) return;
    sum += *v;
    ++count;
  }
  std::optional<double> total() const { return count ? std::optional(sum) : std::nullopt; }
  std::optional<double> mean() const { return count ? std::optional(sum / count) : std::nullopt; }
};

void add(Series& s, int64_t now, std::optional<double> v) {
  if (v) s.add(now, *v);
}

}  // namespace

struct RankProbe::Impl {
  Impl(int rank_number, size_t capacity) : rank(rank_number) {
    for (Series* s : all()) *s = Series(capacity);
  }

  std::vector<Series*> all() {
    return {&steps,
            &cpu,
            &threads,
            &rss,
            &anon,
            &file,
            &shmem,
            &held,
            &uss,
            &pss,
            &run_delay,
            &voluntary,
            &involuntary,
            &uninterruptible,
            &major_faults,
            &read,
            &rchar,
            &write,
            &workers_alive,
            &worker_cpu,
            &worker_rss,
            &worker_held,
            &worker_run_delay,
            &worker_uninterruptible,
            &worker_read,
            &worker_rchar,
            &worker_uss,
            &worker_pss};
  }

  void missing(const char* what, int error) {
    if (!error || error == ENOENT || error == ESRCH) return;  // a process that has just ended is no lost signal
    const std::string prefix = std::string(what) + ": ";
    for (const std::string& u : unavailable) {
      if (u.starts_with(prefix)) return;
    }
    unavailable.push_back(prefix + errno_text(error));
  }

  bool is_forked(const Process& worker) const;
  void sample_self(int64_t now, int proc_fd, SmallFile& reader);
  void sample_workers(int64_t now, int proc_fd, SmallFile& reader);
  void other_workers(int64_t now);
  void note_steps(int64_t now);
  void note_memory(int64_t now, const ProcessStatus& m);
  void update_growth();
  Process* due_maps(uint64_t interval_ns);

  int rank;
  std::optional<Process> self;
  bool alive = false;
  std::vector<Process> workers;
  uint64_t completed = 0;
  bool knows_steps = false;
  std::optional<double> steps_per_s;
  uint64_t rate_steps = 0;
  int64_t rate_ns = 0;
  std::string wait_channel;
  uint32_t generations = 0;
  int64_t workers_since_ns = 0;
  WorkerGrowth growth;
  std::vector<std::string> unavailable;

  Series steps, cpu, threads, rss, anon, file, shmem, held, uss, pss, run_delay, voluntary, involuntary,
      uninterruptible;
  Series major_faults, read, rchar, write, workers_alive, worker_cpu, worker_rss, worker_held, worker_run_delay;
  Series worker_uninterruptible, worker_read, worker_rchar, worker_uss, worker_pss;
};

RankProbe::RankProbe(int rank, size_t series_capacity) : impl_(std::make_unique<Impl>(rank, series_capacity)) {}
RankProbe::~RankProbe() = default;
RankProbe::RankProbe(RankProbe&&) noexcept = default;
RankProbe& RankProbe::operator=(RankProbe&&) noexcept = default;

int RankProbe::rank() const { return impl_->rank; }
bool RankProbe::attached() const { return impl_->alive; }
int RankProbe::pid() const { return impl_->self ? impl_->self->pid() : 0; }
size_t RankProbe::process_count() const { return (impl_->alive ? 1 : 0) + impl_->workers.size(); }
const std::vector<std::string>& RankProbe::unavailable() const { return impl_->unavailable; }

void RankProbe::attach(int pid, uint64_t start_ticks) {
  impl_->self.emplace(pid, start_ticks);
  impl_->alive = true;
  impl_->workers.clear();
}

void RankProbe::detach() {
  impl_->alive = false;  // what was last seen of it stays
  impl_->workers.clear();
}

void RankProbe::set_steps(uint64_t completed) {
  impl_->completed = completed;
  impl_->knows_steps = true;
}

size_t RankProbe::set_workers(const std::vector<Found>& found, size_t room, uint64_t now_ns) {
  auto& workers = impl_->workers;
  const size_t before = workers.size();
  std::erase_if(workers, [&](const Process& w) {
    return std::none_of(found.begin(), found.end(),
                        [&](const Found& f) { return f.pid == w.pid() && f.start_ticks == w.start_ticks(); });
  });
  bool changed = workers.size() != before;
  size_t left_out = 0;
  for (const Found& f : found) {
    const bool known = std::any_of(workers.begin(), workers.end(), [&](const Process& w) { return w.pid() == f.pid; });
    if (known) continue;
    if (room == 0) {
      ++left_out;
      continue;
    }
    --room;
    workers.emplace_back(f.pid, f.start_ticks);
    changed = true;
  }
  if (changed) {
    impl_->other_workers(static_cast<int64_t>(now_ns));
  }
  return left_out;
}

void RankProbe::sample(int proc_fd, uint64_t now_ns, SmallFile& file) {
  Impl& m = *impl_;
  if (!m.self || !m.alive) return;
  const auto now = static_cast<int64_t>(now_ns);
  if (!m.self->sample(proc_fd, now_ns, file)) {
    m.alive = false;
    m.workers.clear();
    return;
  }
  if (!m.self->sampled()) return;
  m.sample_self(now, proc_fd, file);
  m.sample_workers(now, proc_fd, file);
}

void RankProbe::sample_memory(int proc_fd, uint64_t now_ns, SmallFile& file) {
  Impl& m = *impl_;
  if (!m.self || !m.alive || !m.self->sampled()) return;
  if (const auto status = m.self->memory(proc_fd, file)) m.note_memory(static_cast<int64_t>(now_ns), *status);
}

// Where none is left, what the last ones did stays theirs: a loader that ends with the job takes its workers along.
void RankProbe::Impl::other_workers(int64_t now) {
  ++generations;
  if (!workers.empty()) workers_since_ns = now;
}

void RankProbe::Impl::note_steps(int64_t now) {
  steps.add(now, static_cast<double>(completed));
  // Over at least five seconds, so that long steps do not look like none.
  if (rate_ns == 0 || completed < rate_steps) {
    rate_ns = now;
    rate_steps = completed;
  } else if (now - rate_ns >= 5'000'000'000) {
    steps_per_s = static_cast<double>(completed - rate_steps) / (static_cast<double>(now - rate_ns) * 1e-9);
    rate_ns = now;
    rate_steps = completed;
  }
}

void RankProbe::Impl::note_memory(int64_t now, const ProcessStatus& m) {
  if (m.rss_bytes <= 0) return;
  note_steps(now);
  rss.add(now, m.rss_bytes);
  anon.add(now, m.anon_bytes);
  file.add(now, m.file_bytes);
  shmem.add(now, m.shmem_bytes);
  held.add(now, m.held_bytes());
}

void RankProbe::Impl::sample_self(int64_t now, int proc_fd, SmallFile& reader) {
  const ProcessSample& s = self->last();
  note_memory(now, s.status);
  threads.add(now, s.stat.threads);
  add(cpu, now, s.cpu_cores);
  add(run_delay, now, s.run_delay_share);
  add(voluntary, now, s.voluntary_per_s);
  add(involuntary, now, s.involuntary_per_s);
  uninterruptible.add(now, s.stat.state == 'D' ? 1 : 0);
  add(major_faults, now, s.major_faults_per_s);
  add(read, now, s.read_bytes_per_s);
  add(rchar, now, s.rchar_per_s);
  add(write, now, s.write_bytes_per_s);
  wait_channel = s.stat.state == 'R' ? "" : self->wait_channel(proc_fd, reader);
  missing("run-queue delay", self->schedstat_error());
  missing("process I/O", self->io_error());
}

void RankProbe::Impl::sample_workers(int64_t now, int proc_fd, SmallFile& reader) {
  Total cpu_sum, rss_sum, held_sum, delay, waiting, read_sum, rchar_sum;
  int alive_count = 0;
  for (Process& w : workers) {
    if (!w.sample(proc_fd, static_cast<uint64_t>(now), reader) || !w.sampled()) continue;
    const ProcessSample& s = w.last();
    ++alive_count;
    rss_sum.add(s.status.rss_bytes);
    held_sum.add(s.status.held_bytes());
    cpu_sum.add(s.cpu_cores);
    delay.add(s.run_delay_share);
    waiting.add(s.stat.state == 'D' ? 1 : 0);
    read_sum.add(s.read_bytes_per_s);
    rchar_sum.add(s.rchar_per_s);
  }
  const size_t gone = std::erase_if(workers, [](const Process& w) { return !w.alive(); });
  if (gone > 0) other_workers(now);
  workers_alive.add(now, alive_count);
  add(worker_cpu, now, cpu_sum.total());
  add(worker_rss, now, rss_sum.total());
  add(worker_held, now, held_sum.total());
  add(worker_run_delay, now, delay.mean());
  add(worker_uninterruptible, now, waiting.mean());
  add(worker_read, now, read_sum.total());
  add(worker_rchar, now, rchar_sum.total());
}

Process* RankProbe::Impl::due_maps(uint64_t interval_ns) {
  if (!self || !alive) return nullptr;
  Process* first = self->sampled() ? &*self : nullptr;
  for (Process& w : workers) {
    if (w.sampled() && w.alive() && (!first || w.maps_due_ns(interval_ns) < first->maps_due_ns(interval_ns)))
      first = &w;
  }
  return first;
}

uint64_t RankProbe::maps_due_ns(uint64_t interval_ns) const {
  const Process* p = impl_->due_maps(interval_ns);
  return p ? p->maps_due_ns(interval_ns) : std::numeric_limits<uint64_t>::max();
}

uint64_t RankProbe::read_maps(int proc_fd, uint64_t now_ns, uint64_t interval_ns, SmallFile& file) {
  Impl& m = *impl_;
  Process* p = m.due_maps(interval_ns);
  if (!p || p->maps_due_ns(interval_ns) > now_ns) return 0;
  const bool ok = p->read_maps(proc_fd, now_ns, file);
  const auto now = static_cast<int64_t>(now_ns);
  if (p == &*m.self) {
    if (ok) {
      m.uss.add(now, p->last_maps()->uss_bytes);
      m.pss.add(now, p->last_maps()->pss_bytes);
    }
    m.missing("USS and PSS", p->maps_error());
    return p->maps_cost_ns();
  }
  if (!ok) return p->maps_cost_ns();
  m.update_growth();
  Total uss, pss;
  for (const Process& w : m.workers) {
    if (!w.last_maps()) return p->maps_cost_ns();  // a sum over some of them would jump
    uss.add(w.last_maps()->uss_bytes);
    pss.add(w.last_maps()->pss_bytes);
  }
  add(m.worker_uss, now, uss.total());
  add(m.worker_pss, now, pss.total());
  return p->maps_cost_ns();
}

bool RankProbe::Impl::is_forked(const Process& worker) const {
  // Where the kernel hides stack addresses, much memory shared with others says the same.
  const uint64_t mine = self->last().stat.start_stack, its = worker.last().stat.start_stack;
  if (mine && its) return mine == its;
  return worker.first_maps() && worker.first_maps()->shared_anon_bytes >= 0.25 * worker.first_maps()->rss_bytes;
}

void RankProbe::Impl::update_growth() {
  WorkerGrowth g;
  for (const Process& w : workers) {
    if (w.maps_readings() < 2 || !is_forked(w)) continue;
    const ProcessMaps &a = *w.first_maps(), &b = *w.last_maps();
    ++g.workers;
    g.uss_first_bytes += a.uss_bytes;
    g.uss_last_bytes += b.uss_bytes;
    g.rss_first_bytes += a.rss_bytes;
    g.rss_last_bytes += b.rss_bytes;
    g.shared_anon_first_bytes += a.shared_anon_bytes;
    g.shared_anon_last_bytes += b.shared_anon_bytes;
    g.seconds = std::max(g.seconds, static_cast<double>(w.last_maps_ns() - w.first_maps_ns()) * 1e-9);
  }
  if (g.uss_last_bytes - g.uss_first_bytes >= growth.uss_last_bytes - growth.uss_first_bytes) growth = g;
}

void RankProbe::fill(RankProcess& out) const {
  const Impl& m = *impl_;
  out.rank = m.rank;
  out.alive = m.alive;
  if (m.self) {
    out.pid = m.self->pid();
    out.affinity_cores = m.self->last().status.affinity_cores;
    if (m.self->sampled()) out.state = std::string(1, m.self->last().stat.state);
  }
  out.wait_channel = m.wait_channel;
  if (m.knows_steps) {
    out.steps = m.steps.facts();
    out.steps_per_s = m.steps_per_s;
  }
  out.cpu_cores = m.cpu.facts();
  out.threads = m.threads.facts();
  out.rss_bytes = m.rss.facts();
  out.anon_bytes = m.anon.facts();
  out.file_bytes = m.file.facts();
  out.shmem_bytes = m.shmem.facts();
  out.held_bytes = m.held.facts();
  out.uss_bytes = m.uss.facts();
  out.pss_bytes = m.pss.facts();
  out.run_delay_share = m.run_delay.facts();
  out.voluntary_switches_per_s = m.voluntary.facts();
  out.involuntary_switches_per_s = m.involuntary.facts();
  out.uninterruptible_share = m.uninterruptible.facts();
  out.major_faults_per_s = m.major_faults.facts();
  out.read_bytes_per_s = m.read.facts();
  out.rchar_per_s = m.rchar.facts();
  out.write_bytes_per_s = m.write.facts();
  out.workers = m.workers_alive.facts();
  out.worker_cpu_cores = m.worker_cpu.facts();
  out.worker_rss_bytes = m.worker_rss.facts();
  out.worker_held_bytes = m.worker_held.facts();
  out.worker_run_delay_share = m.worker_run_delay.facts();
  out.worker_uninterruptible_share = m.worker_uninterruptible.facts();
  out.worker_read_bytes_per_s = m.worker_read.facts();
  out.worker_rchar_per_s = m.worker_rchar.facts();
  out.worker_uss_bytes = m.worker_uss.facts();
  out.worker_pss_bytes = m.worker_pss.facts();
  out.worker_generations = m.generations;
  out.workers_since_ns = m.workers_since_ns;
  out.worker_growth = m.growth;
}

}  // namespace stepscope
