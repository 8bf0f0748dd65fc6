#include "cli/load_run.h"

#include "agent/replay.h"
#include "base/file.h"
#include "report/summary_read.h"

namespace stepscope {
namespace {

Result<Snapshot> snapshot_from_json(const std::string& path) {
  auto text = read_file(path, kMaxSummaryBytes + 1);
  if (!text) return std::unexpected(text.error());
  return read_summary(*text, path);
}

}  // namespace

Result<Snapshot> load_run(const std::string& path) {
  if (!is_dir(path)) return snapshot_from_json(path);
  if (const std::string json = path_join(path, "final_summary.json"); is_file(json)) return snapshot_from_json(json);
  for (const std::string& folder : {path, path_join(path, "blackbox")}) {
    if (has_rings(folder)) return replay_rings(folder);
  }
  return fail(path + ": neither a final_summary.json nor a black box in it");
}

}  // namespace stepscope
