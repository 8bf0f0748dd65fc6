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

// Hidden: an agent for process `pid`, started or found; prints the environment for its hooks as JSON.
int verb_attach(pid_t pid, const SignalState& at_start);

// What can be observed on this machine, with this Python. 1 when nothing can.
struct DoctorVerb {
  std::string python;  // "" = as `stepscope run` would find it
  bool json = false;
};
int verb_doctor(const DoctorVerb& verb);

// The terminal view of a run: a live one, or a kept one as it was at its end. Without a terminal, or with `once`, it is
// printed. 2 when there is no such run.
struct TopVerb {
  std::string run;         // as in find_run.h; "" = the only live one
  bool live_only = false;  // `watch`
  bool once = false;
};
int verb_top(const TopVerb& verb);

// The runs in a logs folder as a table, or removes old ones. 2 when the folder or the rules make no sense, or when
// nobody can be asked and `yes` is not given; 1 when a run cannot be removed.
struct RunsVerb {
  std::string logs;  // "" = of the settings
  bool json = false, prune = false, yes = false;
  int keep = -1;           // the newest so many stay, -1 = not given
  double older_days = -1;  // only older ones go, -1 = not given
};
int verb_runs(const RunsVerb& verb);
// The browser view of a logs folder or of one run, until a signal ends it.
struct ServeVerb {
  std::string path;                // logs folder, run folder or file of a run; "" = the logs folder of the settings
  std::string host = "127.0.0.1";  // numeric address to listen on
  int port = 0;                    // 0 = the system chooses
  std::vector<std::string> allow_hosts;  // further names by which browsers call this machine
  bool openapi = false;                  // print the description of the API and end
};
int verb_serve(const ServeVerb& verb);

struct ReportVerb {
  std::string path;             // run folder, final_summary.json, run.db or folder of rings
  bool rebuild = false;         // from the steps in run.db, even where a summary is there
  std::string format = "text";  // of report/reporters.h
  bool html = false;            // the same as format "html", into final_summary.html beside the summary
  std::string output;           // a file; "" = stdout
};
int verb_report(const ReportVerb& verb);

// One run of the run files that the nodes of a job wrote. 2 when they are not of one job or cannot be read, 1 when the
// folder cannot be written.
struct MergeVerb {
  std::vector<std::string> runs;  // run folders or run.db files, one per node
  std::string output;             // folder of the merged run; it must not hold one
  bool html = false;              // also final_summary.html
};
int verb_merge(const MergeVerb& verb);

// Exit code: 0 same or better, 4 regression, 3 inconclusive (report/compare.h); 2 when a run cannot be read or a side
// has none. Runs are named as in ReportVerb.
struct CompareVerb {
  std::vector<std::string> runs;                 // the reference and the run to judge; with a baseline: candidates
  std::vector<std::string> baseline, candidate;  // several runs a side
  std::string output;                            // writes <output>.json, .md and .txt; "" = nothing
  std::string fail_on = "inconclusive";          // from here on the exit code is not 0: regression, inconclusive, never
  double threshold_pct = 3;                      // a smaller change of the median step is none
  bool json = false, markdown = false;           // to stdout instead of text
};
int verb_compare(const CompareVerb& verb);

// Writes tables of a run file. 2 when the run cannot be read or the request makes no sense, 1 when the files cannot be
// written; Parquet and Arrow files are written by Python, with pyarrow.
struct ExportVerb {
  std::string path;             // run folder or run.db
  std::string table = "steps";  // or all: one file each
  std::string format;           // csv, parquet, arrow; "" = by the name of the output, else csv
  std::string output;           // a file, of all tables a folder; "" = stdout (csv of one table)
  std::string python;           // "" = as `stepscope run` would find it
};
int verb_export(const ExportVerb& verb);

// Prints what a black box (names, records) or a run file (run.db) holds as JSON, one object a line.
int verb_inspect(const std::string& path);

// How much stragglers cost the job that an operation trace (CSV) shows, and who they are. 2 when it cannot be read.
struct WhatifVerb {
  std::string trace;
  bool json = false;
};
int verb_whatif(const WhatifVerb& verb);

// Which rank keeps a job from going on, by its Flight Recorder dumps. 0 whatever the verdict; 2 when dumps cannot be
// read.
struct HangVerb {
  std::vector<std::string> paths;  // files, or folders that hold them
  bool json = false;
};
int verb_hang(const HangVerb& verb);

// Prints the page about a kind of finding; "" lists all pages.
int verb_explain(const std::string& kind);

}  // namespace stepscope
