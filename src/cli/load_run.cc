#include "cli/load_run.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/replay.h"
#include "base/file.h"
#include "report/summary_read.h"
#include "store/rebuild.h"

namespace stepscope {
namespace {

constexpr const char* kRunFile = "run.db";

Result<LoadedRun> from_json(const std::string& path) {
  auto text = read_file(path, kMaxSummaryBytes + 1);
  if (!text) return std::unexpected(text.error());
  auto snapshot = read_summary(*text, path);
  if (!snapshot) return std::unexpected(snapshot.error());
  return LoadedRun{std::move(*snapshot), ""};
}

// What steps and lives do not hold, as the run told it last while it lived.
void add_samples(Snapshot& rebuilt, const Snapshot& told) {
  rebuilt.system = told.system;
  rebuilt.process = told.process;
  for (const Section& section : told.sections) {
    if (section.name != "system" && section.name != "process") continue;
    std::erase_if(rebuilt.sections, [&](const Section& s) { return s.name == section.name; });
    rebuilt.sections.push_back(section);
  }
  for (RankStat& rank : rebuilt.ranks) {
    const auto same = std::ranges::find(told.ranks, rank.rank, &RankStat::rank);
    if (same == told.ranks.end()) continue;
    rank.cpu_share = same->cpu_share;
    rank.rss_peak_bytes = same->rss_peak_bytes;
    rank.uss_peak_bytes = same->uss_peak_bytes;
  }
}

Result<LoadedRun> from_run_file(const std::string& path, bool rebuild) {
  auto reader = RunReader::open(path);
  if (!reader) return std::unexpected(reader.error());
  std::optional<Snapshot> told;
  if (auto json = reader->snapshot(); json && *json) {
    if (auto read = read_summary(**json, path)) told = std::move(*read);
  }
  if (told && told->run.status != "running" && !rebuild) return LoadedRun{std::move(*told), "read from " + path};
  auto again = rebuild_snapshot(*reader);
  if (!again) return std::unexpected(again.error());
  if (told) add_samples(*again, *told);
  return LoadedRun{std::move(*again), "worked out again from " + path};
}

Result<LoadedRun> from_rings(const std::string& folder) {
  auto snapshot = replay_rings(folder);
  if (!snapshot) return std::unexpected(snapshot.error());
  return LoadedRun{std::move(*snapshot), "worked out again from the black boxes in " + folder};
}

Result<LoadedRun> from_folder(const std::string& folder, bool rebuild) {
  const std::string json = path_join(folder, "final_summary.json"), file = path_join(folder, kRunFile);
  std::string why = is_file(json) ? "" : json + ": no such file";
  if (why.empty() && !rebuild) {
    auto run = from_json(json);
    if (run) return run;
    why = run.error().message;
  }
  const auto because = [&](Result<LoadedRun> run) {
    if (run && !why.empty() && !rebuild) run->note = why + "; the summary is " + run->note;
    return run;
  };
  std::string trouble;
  if (is_file(file)) {
    auto run = from_run_file(file, rebuild);
    if (run) return because(std::move(run));
    trouble = run.error().message;
  }
  for (const std::string& rings : {folder, path_join(folder, "blackbox")}) {
    if (has_rings(rings)) return because(from_rings(rings));
  }
  if (!trouble.empty()) return fail(why.empty() ? trouble : why + "; " + trouble);
  return fail(is_file(json) ? why : folder + ": neither a final_summary.json nor a run.db nor a black box in it");
}

}  // namespace

bool is_run_file(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  auto begin = read_file(path, kMagic.size());
  return path.ends_with(".db") || (begin && begin->starts_with(kMagic));
}

Result<LoadedRun> load_run(const std::string& path, bool rebuild) {
  if (is_dir(path)) return from_folder(path, rebuild);
  return is_run_file(path) ? from_run_file(path, rebuild) : from_json(path);
}

}  // namespace stepscope
