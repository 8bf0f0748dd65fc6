// What the launcher tells the agent about the run: one JSON object, sent as the first frame.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace stepscope {

struct AgentConfig {
  std::string version;  // of stepscope
  std::string run_name;
  std::string run_dir;  // absolute; "" = no folder could be made
  std::string shm_dir;  // where the rings appear; "" = no shared memory
  std::string nonce;    // hex, names this run in every ring
  std::vector<std::string> command;
  std::string working_dir;
  std::string started_at;   // ISO 8601 UTC
  uint64_t started_ns = 0;  // CLOCK_MONOTONIC
  int launcher_pid = 0;
  int restarts = 0;       // how often an agent of this run died before
  bool attached = false;  // by stepscope.init(): no launcher is there, the ranks' own end is the end
  double interval_s = 1.0;
  std::vector<std::string> formats;  // of the summary, beside those of every run (report/reporters.h)
  bool keep_rings = false;           // also when nobody died
  std::map<std::string, double> thresholds;
  std::vector<std::string> silence;  // pieces of advice, by cause
  bool stacks = true;
  std::string on_hang = "report";  // report, stacks, abort
  double hang_timeout_s = 0;
  double flops_per_step = 0, peak_flops = 0;
  std::string dashboard_token;     // of the browser view; "" = there is none
  int dashboard_port = 0;          // 0 = the system chooses
  std::string aggregator;          // HOST:PORT, "off", "" = found
  std::string node_secret;         // "" = a random one
  std::vector<std::string> notes;  // losses the launcher knows of: "logs: read-only", …

  std::string to_json() const;
  static Result<AgentConfig> from_json(const std::string& text);
};

}  // namespace stepscope
