// The verbs of the command line, one file each (verb_<name>.cc). Each gets what the option parser found and returns the
// exit code. No verb throws.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "cli/run_args.h"

namespace stepscope {

inline constexpr int kExitUsage = 2;

struct RunVerb {
  RunArgs args;                              // after the options
  std::map<std::string, std::string> flags;  // given settings by name: "run_name" → text
  TorchrunOptions torchrun;                  // before and after the script, merged
};
int verb_run(const RunVerb& verb, const SignalState& at_start);

// Hidden: the agent process; its channel is descriptor 3.
int verb_agent();

struct ReportVerb {
  std::string path;                          // run folder, final_summary.json or folder of rings
  bool html = false;
};
int verb_report(const ReportVerb& verb);

// Prints the page about a kind of finding; "" lists all pages.
int verb_explain(const std::string& kind);

}  // namespace stepscope
