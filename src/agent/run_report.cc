#include "agent/run_report.h"

#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "base/subprocess.h"
#include "base/text_format.h"

namespace stepscope {
namespace {

constexpr size_t kMaxOffNotes = 64;

// Recorders that could not open leave off-<pid>.txt in the folder they were given.
void collect_off_notes(const std::string& folder, std::vector<std::string>& out) {
  auto names = list_dir(folder, 4096);
  if (!names) return;
  std::map<std::string, int> reasons;
  size_t read = 0;
  for (const std::string& name : *names) {
    if (!name.starts_with("off-") || !name.ends_with(".txt") || ++read > kMaxOffNotes) continue;
    auto text = read_file(path_join(folder, name), 512);
    if (!text) continue;
    std::string line = text->substr(0, text->find('\n'));
    std::replace_if(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, ' ');
    ++reasons[line.empty() ? "no reason given" : line];
  }
  for (const auto& [reason, count] : reasons) {
    out.push_back("recorder: " + reason + (count > 1 ? " (" + std::to_string(count) + " processes)" : ""));
  }
}

// Launchers that start ranks on other hosts by a daemon there: no child of ours, and our shared memory is not theirs.
std::string launcher_over_hosts(const std::vector<std::string>& command) {
  constexpr std::string_view kLaunchers[] = {"srun", "mpirun", "mpiexec", "mpiexec.hydra", "jsrun", "aprun", "flux"};
  if (command.empty()) return "";
  const std::string program = command[0].substr(command[0].rfind('/') + 1);
  return std::ranges::find(kLaunchers, std::string_view(program)) != std::end(kLaunchers) ? program : "";
}

nlohmann::json rank_json(const RankLife& life) {
  nlohmann::json j = {
      {"rank", life.rank},   {"pid", life.pid},     {"attempt", life.attempt},       {"hostname", life.hostname},
      {"steps", life.steps}, {"ended", life.ended}, {"clean_exit", life.clean_exit}, {"end_ns", life.end_ns}};
  j["exit_signal"] = life.exit_signal ? nlohmann::json(life.exit_signal) : nlohmann::json(nullptr);
  j["exit_code"] = life.exit_code >= 0 ? nlohmann::json(life.exit_code) : nlohmann::json(nullptr);
  j["exception"] = life.exception.empty() ? nlohmann::json(nullptr) : nlohmann::json(life.exception);
  return j;
}

}  // namespace

std::string run_status(const Snapshot& snapshot, const Pipeline& pipeline, const RunEnd& end) {
  const UncleanDeath* death = pipeline.first_unclean_death();
  const bool failed = end.wait_status && shell_code(*end.wait_status) != 0;
  const bool hang = std::any_of(snapshot.findings.begin(), snapshot.findings.end(), [](const Finding& f) {
    return f.kind == FindingKind::kHang && f.severity == Severity::kCrit;
  });
  const bool died = death && !death->in_teardown;
  if (hang && (failed || end.interrupted_by || died)) return "hung";
  if (died) return "crashed";  // a death that the interrupt explains is not among these
  if (end.interrupted_by) return "interrupted";
  return failed ? "crashed" : "completed";
}

Snapshot final_snapshot(Pipeline& pipeline, const HostWatch& host, const JobNodes& nodes, const AgentConfig& config,
                        const RunEnd& end) {
  RunContext context = pipeline.context();
  RunInfo& run = context.run;
  run.name = config.run_name;
  run.started_at = config.started_at;
  run.duration_s = end.end_ns > config.started_ns ? static_cast<double>(end.end_ns - config.started_ns) * 1e-9 : 0;
  if (end.wait_status) run.exit_code = shell_code(*end.wait_status);
  run.command = config.command;
  run.versions["stepscope"] = config.version;
  for (const std::string& note : config.notes) context.note(note);
  if (config.shm_dir.empty()) context.unavailable("recorder: no shared memory");
  std::vector<std::string> off;
  collect_off_notes(config.run_dir.empty() ? config.shm_dir : config.run_dir, off);
  for (const std::string& reason : off) context.unavailable(reason);
  host.fill(context);
  nodes.fill(context, end.end_ns);
  Snapshot snapshot = assemble(pipeline.engine(), context);
  snapshot.run.status = run_status(snapshot, pipeline, end);  // a hang that was found is a part of it
  const std::string launcher = launcher_over_hosts(config.command);
  if (!launcher.empty() && snapshot.run.ranks_seen < std::max(1, snapshot.run.world_size))
    snapshot.observer.notes.push_back(
        formatted("ranks that {} starts on other hosts are not seen from here: put stepscope run behind it ({} … "
                  "stepscope run …)",
                  launcher, launcher));
  return snapshot;
}

std::string manifest_json(const AgentConfig& config, const std::string& status, const RunEnd& end,
                          const Pipeline& pipeline) {
  nlohmann::json j = {{"schema_version", 1},   {"name", config.run_name},   {"started_at", config.started_at},
                      {"status", status},      {"command", config.command}, {"working_dir", config.working_dir},
                      {"nonce", config.nonce}, {"shm_dir", config.shm_dir}, {"stepscope", config.version}};
  j["exit_code"] = end.wait_status ? nlohmann::json(shell_code(*end.wait_status)) : nlohmann::json(nullptr);
  j["interrupted_ns"] = pipeline.interrupted_ns();
  j["ranks"] = nlohmann::json::array();
  for (const Pipeline::TailId id : pipeline.tails()) {
    if (pipeline.counts_as_rank(id)) j["ranks"].push_back(rank_json(pipeline.tail(id).life()));
  }
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace stepscope
