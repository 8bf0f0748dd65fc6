#include "agent/replay.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "agent/pipeline.h"
#include "base/file.h"

namespace stepscope {
namespace {

struct Death {
  uint64_t end_ns = 0;
  std::optional<int> wait_status;
};

struct Manifest {
  RunInfo run;
  std::map<int, Death> deaths;  // by pid
  int64_t interrupted_ns = 0;
};

Manifest read_manifest(const std::string& path) {
  Manifest manifest;
  auto text = read_file(path, 4u << 20);
  if (!text) return manifest;
  const nlohmann::json j = nlohmann::json::parse(*text, nullptr, false);
  if (!j.is_object()) return manifest;
  try {
    manifest.run.name = j.value("name", "");
    manifest.run.started_at = j.value("started_at", "");
    manifest.run.status = j.value("status", "");
    manifest.run.command = j.value("command", std::vector<std::string>());
    if (j.contains("exit_code") && j["exit_code"].is_number_integer()) manifest.run.exit_code = j["exit_code"].get<int>();
    if (j.contains("stepscope")) manifest.run.versions["stepscope"] = j.value("stepscope", "");
    manifest.interrupted_ns = j.value("interrupted_ns", int64_t{0});
    for (const nlohmann::json& rank : j.value("ranks", nlohmann::json::array())) {
      Death death;
      death.end_ns = rank.value("end_ns", uint64_t{0});
      if (rank.contains("exit_signal") && rank["exit_signal"].is_number_integer()) death.wait_status = rank["exit_signal"].get<int>() & 0x7f;
      else if (rank.contains("exit_code") && rank["exit_code"].is_number_integer()) death.wait_status = (rank["exit_code"].get<int>() & 0xff) << 8;
      manifest.deaths[rank.value("pid", 0)] = death;
    }
  } catch (const nlohmann::json::exception&) {
    // Half a manifest is as good as none: what was read before stays.
  }
  return manifest;
}

// Rings of one attempt: no rank twice, one attempt number.
std::vector<std::vector<RankTail>> by_attempt(std::vector<RankTail> tails) {
  std::stable_sort(tails.begin(), tails.end(), [](const RankTail& a, const RankTail& b) {
    const auto &x = a.identity(), &y = b.identity();
    return std::pair(x.attempt, x.process_start_ns) < std::pair(y.attempt, y.process_start_ns);
  });
  std::vector<std::vector<RankTail>> groups;
  std::set<int> ranks;
  int attempt = 0;
  for (RankTail& tail : tails) {
    const auto& identity = tail.identity();
    const bool again = tail.is_rank() && !ranks.insert(identity.rank).second;
    if (groups.empty() || again || identity.attempt != attempt) {
      groups.emplace_back();
      ranks = {identity.rank};
      attempt = identity.attempt;
    }
    groups.back().push_back(std::move(tail));
  }
  return groups;
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
  std::vector<RankTail> tails;
  std::string first_error;
  for (const std::string& name : *names) {
    if (!name.ends_with(".ring")) continue;
    auto tail = RankTail::open(path_join(folder, name));
    if (tail) {
      tails.push_back(std::move(*tail));
      continue;
    }
    if (first_error.empty()) first_error = tail.error().message;
    pipeline.unavailable("black box: " + tail.error().message);
  }
  if (tails.empty()) return fail(first_error.empty() ? folder + ": no black box in it" : first_error);
  const Manifest manifest = read_manifest(path_join(folder, "../manifest.json"));
  if (manifest.interrupted_ns > 0) pipeline.interrupted(manifest.interrupted_ns);
  uint64_t first_ns = ~0ull, last_ns = 0;
  for (std::vector<RankTail>& group : by_attempt(std::move(tails))) {
    std::vector<Pipeline::TailId> ids;
    for (RankTail& tail : group) ids.push_back(pipeline.add(std::move(tail)));
    pipeline.pump(0);
    for (const Pipeline::TailId id : ids) {
      const auto& identity = pipeline.tail(id).identity();
      const auto death = manifest.deaths.find(identity.pid);
      const bool known = death != manifest.deaths.end();
      pipeline.end_tail(id, known ? death->second.end_ns : 0, known ? death->second.wait_status : std::nullopt);
      first_ns = std::min(first_ns, identity.process_start_ns);
      last_ns = std::max(last_ns, static_cast<uint64_t>(pipeline.tail(id).life().end_ns));
    }
  }
  pipeline.finish(last_ns);
  Snapshot snapshot = pipeline.snapshot();
  const RunInfo& run = manifest.run;
  snapshot.run.name = run.name;
  snapshot.run.started_at = run.started_at;
  snapshot.run.command = run.command;
  snapshot.run.exit_code = run.exit_code;
  for (const auto& [key, text] : run.versions) snapshot.run.versions[key] = text;
  snapshot.run.duration_s = last_ns > first_ns ? static_cast<double>(last_ns - first_ns) * 1e-9 : 0;
  const UncleanDeath* death = pipeline.first_unclean_death();
  snapshot.run.status = !run.status.empty() && run.status != "running" ? run.status
                        : death && !death->in_teardown                 ? "crashed"
                                                                       : "completed";
  snapshot.observer.notes.push_back("worked out again from black boxes: they hold the newest records only");
  return snapshot;
}

}  // namespace stepscope
