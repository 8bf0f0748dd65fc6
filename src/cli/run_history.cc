#include "cli/run_history.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "report/summary_read.h"
#include "store/run_manifest.h"
#include "store/run_reader.h"

namespace stepscope {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaybeLiveS = 3600;

bool real_folder(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// 0 = not such a time.
int64_t seconds_of(const std::string& iso) {
  tm parts = {};
  const char* end = ::strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end && *end == 0 ? static_cast<int64_t>(::timegm(&parts)) : 0;
}

// The size of all files, and when the newest was written.
struct Contents {
  uint64_t bytes = 0;
  int64_t newest_s = 0;
};
Contents contents_of(const std::string& folder) {
  Contents out;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    struct stat info;
    if (::lstat(at->path().c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode)) out.bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    out.newest_s = std::max<int64_t>(out.newest_s, info.st_mtime);
  }
  return out;
}

std::optional<Snapshot> told_by(const std::string& folder) {
  if (auto text = read_file(path_join(folder, "final_summary.json"), kMaxSummaryBytes + 1)) {
    if (auto snapshot = read_summary(*text)) return std::move(*snapshot);
  }
  const std::string file = path_join(folder, "run.db");
  if (!is_file(file)) return std::nullopt;
  auto reader = RunReader::open(file);
  if (!reader) return std::nullopt;
  auto json = reader->snapshot();
  if (!json || !*json) return std::nullopt;
  auto snapshot = read_summary(**json);
  return snapshot ? std::optional(std::move(*snapshot)) : std::nullopt;
}

void tell(KnownRun& run, const Snapshot& s) {
  run.duration_s = s.run.duration_s;
  run.ranks = s.run.world_size;
  run.steps = s.steps;
  if (s.primary < 0) return;
  const Finding& primary = s.findings[static_cast<size_t>(s.primary)];
  run.finding = display_name(primary.kind);
  run.severity = primary.severity;
  run.cost_share = primary.cost_share;
}

std::optional<KnownRun> known_run(const std::string& folder, const std::vector<LiveRun>& live) {
  if (!real_folder(folder)) return std::nullopt;
  const auto manifest = read_manifest(folder);
  if (!manifest || manifest->nonce.empty()) return std::nullopt;
  KnownRun run{.folder = folder,
               .name = folder.substr(folder.rfind('/') + 1),
               .started_at = manifest->started_at,
               .status = manifest->status};
  const Contents contents = contents_of(folder);
  run.bytes = contents.bytes;
  run.started_s = seconds_of(run.started_at);
  if (run.started_s == 0) run.started_s = contents.newest_s;
  run.live = std::ranges::any_of(live, [&](const LiveRun& r) { return r.nonce == manifest->nonce; });
  if (run.status == "running" && !run.live) {
    run.live = ::time(nullptr) - contents.newest_s < kMaybeLiveS;
    if (!run.live) run.status = "cut off";
  }
  if (const auto snapshot = told_by(folder)) tell(run, *snapshot);
  return run;
}

}  // namespace

Result<std::vector<KnownRun>> runs_in(const std::string& logs_dir, const std::vector<LiveRun>& live) {
  auto names = list_dir(logs_dir);
  if (!names) return std::unexpected(names.error());
  char resolved[PATH_MAX];
  const std::string logs = ::realpath(logs_dir.c_str(), resolved) ? resolved : logs_dir;
  std::vector<KnownRun> runs;
  for (const std::string& name : *names)
    if (auto run = known_run(path_join(logs, name), live)) runs.push_back(std::move(*run));
  std::ranges::stable_sort(runs, std::greater(), &KnownRun::started_s);
  return runs;
}

std::vector<const KnownRun*> to_prune(const std::vector<KnownRun>& runs, const PruneRules& rules, int64_t now_s) {
  std::vector<const KnownRun*> gone;
  if (!rules.keep && !rules.older_days) return gone;
  for (size_t i = 0; i < runs.size(); ++i) {
    const double days = static_cast<double>(now_s - runs[i].started_s) / 86400;
    if (runs[i].live || (rules.keep && i < *rules.keep) || (rules.older_days && days <= *rules.older_days)) continue;
    gone.push_back(&runs[i]);
  }
  return gone;
}

Status remove_run(const KnownRun& run) {
  if (!real_folder(run.folder)) return fail(run.folder + ": no folder any more");
  std::error_code error;
  fs::remove_all(run.folder, error);
  if (error) return fail(run.folder + ": " + error.message());
  return {};
}

}  // namespace stepscope
