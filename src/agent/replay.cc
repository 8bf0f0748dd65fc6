#include "agent/replay.h"

#include <algorithm>
#include <map>
#include <vector>

#include "agent/pipeline.h"
#include "base/file.h"
#include "store/run_manifest.h"

namespace stepscope {
namespace {

struct LeftRing {
  RankTail tail;
  int64_t opened_ns = 0, last_ns = 0;  // its last record
};

Result<LeftRing> open_ring(const std::string& path) {
  auto tail = RankTail::open(path);
  if (!tail) return std::unexpected(tail.error());
  LeftRing ring{std::move(*tail), 0, 0};
  ring.opened_ns = static_cast<int64_t>(ring.tail.identity().anchor_monotonic_ns);
  if (auto scan = RankTail::open(path)) {
    scan->drain(0, true);
    ring.last_ns = scan->active_ns();
  }
  return ring;
}

}  // namespace

bool has_rings(const std::string& folder) {
  auto names = list_dir(folder);
  return names && std::any_of(names->begin(), names->end(), [](const std::string& n) { return n.ends_with(".ring"); });
}

Result<Snapshot> replay_rings(const std::string& folder, EngineOptions options) {
  auto names = list_dir(folder);
  if (!names) return std::unexpected(names.error());
  Pipeline pipeline(std::move(options));
  std::vector<LeftRing> rings;
  std::string first_error;
  for (const std::string& name : *names) {
    if (!name.ends_with(".ring")) continue;
    auto ring = open_ring(path_join(folder, name));
    if (ring) {
      rings.push_back(std::move(*ring));
      continue;
    }
    if (first_error.empty()) first_error = ring.error().message;
    pipeline.unavailable("black box: " + ring.error().message);
  }
  if (rings.empty()) return fail(first_error.empty() ? folder + ": no black box in it" : first_error);
  const RunManifest manifest = read_manifest(path_join(folder, "..")).value_or(RunManifest());
  if (manifest.interrupted_ns > 0) pipeline.interrupted(manifest.interrupted_ns);
  std::stable_sort(rings.begin(), rings.end(),
                   [](const LeftRing& a, const LeftRing& b) { return a.opened_ns < b.opened_ns; });
  uint64_t first_ns = ~0ull, last_ns = 0;
  std::map<Pipeline::TailId, int64_t> open;  // when each wrote last
  const auto end = [&](Pipeline::TailId id) {
    if (!pipeline.has(id)) return;
    const auto death = manifest.ended.find(pipeline.tail(id).identity().pid);
    const bool known = death != manifest.ended.end();
    last_ns = std::max(last_ns, known ? death->second.end_ns : static_cast<uint64_t>(open.at(id)));
    pipeline.end_tail(id, known ? death->second.end_ns : 0, known ? death->second.wait_status : std::nullopt);
  };
  // As it happened: who had gone before a process came is ended before that is added.
  for (LeftRing& ring : rings) {
    const auto gone = [&](const auto& entry) { return entry.second <= ring.opened_ns; };
    if (std::any_of(open.begin(), open.end(), gone)) {
      pipeline.pump(0);
      for (const auto& entry : open)
        if (gone(entry)) end(entry.first);
      std::erase_if(open, gone);
    }
    first_ns = std::min(first_ns, ring.tail.identity().process_start_ns);
    const int64_t wrote_ns = ring.last_ns;
    open[pipeline.add(std::move(ring.tail))] = wrote_ns;
  }
  pipeline.pump(0);
  for (const auto& [id, wrote_ns] : open) end(id);
  pipeline.finish(last_ns);
  RunContext context = pipeline.context();
  RunInfo& run = context.run;
  run.name = manifest.name;
  run.started_at = manifest.started_at;
  run.command = manifest.command;
  run.exit_code = manifest.exit_code;
  if (!manifest.stepscope.empty()) run.versions["stepscope"] = manifest.stepscope;
  run.duration_s = last_ns > first_ns ? static_cast<double>(last_ns - first_ns) * 1e-9 : 0;
  const UncleanDeath* death = pipeline.first_unclean_death();
  run.status = !manifest.status.empty() && manifest.status != "running" ? manifest.status
               : death && !death->in_teardown                           ? "crashed"
                                                                        : "completed";
  context.note("worked out again from black boxes: they hold the newest records only");
  return assemble(pipeline.engine(), context);
}

}  // namespace stepscope
