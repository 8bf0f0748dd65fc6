// The settings of a run: flag > environment (STEPSCOPE_*) > stepscope.toml > default. One table says what exists.
// Under compat = "traceml" TraceML's own variables (TRACEML_LOGS_DIR …) count too, below ours.
// Pure but for find_settings_file(). Failure: one line that names flag, variable or file:line; the caller exits with 2.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace stepscope {

struct Settings {
  std::string mode = "summary";  // summary, cli, dashboard
  int port = 0;                  // of the browser view; 0 = the system chooses
  std::string token;             // of the browser view; "" = a new one for every run
  std::string run_name;          // "" = made up from the time
  std::string logs_dir = "logs";
  double interval_s = 1.0;  // cadence of samplers and views
  bool html_report = false;
  bool keep_rings = false;           // leave every black box in the run folder, for `stepscope report`
  bool disable = false;              // run the command bare
  std::string compat;                // "traceml": scripts that import traceml or traceml_ai get our names; "" = off
  std::vector<std::string> silence;  // pieces of ADVICE nobody wants to hear, by cause; "all"
  double flops_per_step = 0;         // of one rank; 0 = not known, no MFU unless the program logs them
  double peak_flops = 0;             // FLOP/s of one device; 0 = by its name
  bool stacks = true;                // ranks may be asked for their Python stacks
  std::string on_hang = "report";    // report, stacks, abort
  double hang_timeout_s = 0;         // silence that is a hang; 0 = by the thresholds
  std::string aggregator;            // of a job on several nodes: HOST:PORT, "off"; "" = found by the job's own store
  std::string secret_file;           // what lets nodes in: a file that all of them have; "" = a new one for every run
  std::string node_secret;           // what stands in secret_file
  std::map<std::string, double> thresholds;  // names of spec/rules.toml: --set over [thresholds] of stepscope.toml
};

// Where a value may come from. Absent = not given there.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

struct ResolvedSettings {
  Settings settings;
  std::vector<std::string> warnings;  // unknown names in the file; one line each
};

// `flag` is asked by setting name ("run_name"), `variable` by environment name ("STEPSCOPE_RUN_NAME"). `file_path` is
// for messages; `file_text` is empty when there is no file.
Result<ResolvedSettings> resolve_settings(const Lookup& flag, const Lookup& variable, const std::string& file_path,
                                          const std::string& file_text);

struct FoundSettings {
  std::string path;                  // "" = none
  std::vector<std::string> refused;  // files that were not believed; one line each
};

// stepscope.toml in `folder` or the nearest of its ten parents. Believed is a file that belongs to `user`, to root, or
// to the owner of `folder`, and that not everybody may write to: parents may be anybody's (/tmp, a shared disk).
FoundSettings find_settings_file(const std::string& folder, uid_t user);

}  // namespace stepscope
