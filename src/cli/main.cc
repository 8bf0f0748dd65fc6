// The front door: option grammar of every verb. What a verb does is in verb_<name>.cc.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fcntl.h>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cli/agent_link.h"
#include "cli/run_args.h"
#include "cli/verbs.h"
#include "report/reporters.h"

namespace stepscope {
namespace {

// Options of `run` by setting name. Flags without a value are switches.
struct RunOptions {
  std::map<std::string, std::string> values;
  std::map<std::string, bool> switches;
  std::vector<std::string> thresholds;          // "NAME=VALUE"
  std::map<std::string, std::string> torchrun;  // "--nnodes" → text

  void add_to(CLI::App& app) {
    using Text = const char*;
    auto value = [&](Text flag, Text name, Text help) { app.add_option(flag, values[name], help); };
    auto toggle = [&](Text flag, Text name, Text help) { app.add_flag(flag, switches[name], help); };
    auto launch = [&](Text flag, Text name, Text help) { app.add_option(flag, torchrun[name], help); };
    value("--mode", "mode", "summary (default), cli or dashboard (browser view of the live run)");
    value("--port", "port", "port of the browser view (default: the system chooses)");
    value("--run-name,--run_name", "run_name", "name of this run's folder in the logs folder");
    value("--logs-dir,--logs_dir", "logs_dir", "folder that holds the run folders (default: logs)");
    value("--interval", "interval", "seconds between samples of host and devices (default: 1)");
    toggle("--keep-rings,--keep_rings", "keep_rings", "keep the ranks' black boxes in the run folder");
    toggle("--html-report,--html_report", "html_report", "also write final_summary.html");
    app.add_option("--set", thresholds,
                   "change a threshold of the rules; may be repeated (list: stepscope explain thresholds)")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
    value("--silence", "silence", "advice to suppress, comma-separated (all: every advice)");
    value("--stacks", "stacks", "off: ranks are never asked for their Python stacks (default: on, when suspected)");
    value("--on-hang,--on_hang", "on_hang",
          "a job that stands still: report (default), stacks (also into files), abort (end it)");
    value("--hang-timeout,--hang_timeout", "hang_timeout",
          "seconds of silence that are a hang (default: 5, or 5 steps)");
    value("--flops-per-step,--flops_per_step", "flops_per_step", "FLOPs per rank and step, for MFU");
    value("--peak-flops,--peak_flops", "peak_flops", "peak FLOP/s of one device, where its model is not known");
    value("--aggregator", "aggregator",
          "job on several nodes: HOST:PORT where rank 0's node takes the others' part, or off (default: found by "
          "itself)");
    value("--secret-file,--secret_file", "secret_file", "what lets nodes in: a file that all nodes have");
    toggle("--disable", "disable", "run the command without observing it");
    value("--compat", "compat", "traceml: the script may import traceml or traceml_ai, which need not be installed");
    launch("--nproc-per-node,--nproc_per_node", "--nproc-per-node", "ranks per node (launches torchrun)");
    launch("--nnodes", "--nnodes", "number of nodes (passed to torchrun)");
    launch("--node-rank,--node_rank", "--node-rank", "rank of this node (passed to torchrun)");
    launch("--master-addr,--master_addr", "--master-addr", "address of the first node (passed to torchrun)");
    launch("--master-port,--master_port", "--master-port", "port on the first node (passed to torchrun)");
    app.footer(
        "stepscope run [options] train.py [args...]\nstepscope run [options] -- any launch command\n\n"
        "Options stand before the script. After it only the torchrun options above are recognised; everything\n"
        "else, and all after --args or --, goes to the script.");
  }

  RunVerb verb(const CLI::App& app, RunArgs args) const {
    RunVerb result;
    for (const auto& [name, text] : values) {
      std::string flag = "--" + name;
      std::replace(flag.begin(), flag.end(), '_', '-');
      if (app.count(flag)) result.flags[name] = text;
    }
    for (const auto& [name, on] : switches) {
      if (on) result.flags[name] = "1";
    }
    for (const std::string& word : thresholds) {
      std::string& all = result.flags["set"];
      all += (all.empty() ? "" : ",") + word;
    }
    for (const auto& [name, text] : torchrun) {
      if (app.count(name)) *result.torchrun.field(name) = text;
    }
    for (const auto& [name, text] : args.torchrun.list()) *result.torchrun.field(name) = text;
    result.args = std::move(args);
    return result;
  }
};

// The grammar of every verb, and what was found on the command line.
class FrontDoor {
 public:
  explicit FrontDoor(const SignalState& at_start) : at_start_(at_start) {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "stepscope " SS_VERSION);
    app_.footer("stepscope <verb> --help lists the options of a verb.");
    add_run();
    add_top();
    add_runs();
    add_serve();
    add_report();
    add_merge();
    add_compare();
    add_hang();
    add_whatif();
    add_inspect();
    add_export();
    add_explain();
    add_doctor();
    add_hidden();
  }

  int enter(std::vector<std::string> words) {
    if (words.empty()) return wrong("a verb is expected: run, report", "");
    if (words.front() == "help") words.front() = "--help";
    const auto of_that_name = [&](const CLI::App* verb) { return verb->check_name(words.front()); };
    if (!words.front().starts_with("-") && app_.get_subcommands(of_that_name).empty())
      return wrong("unknown verb: " + words.front(), "");
    RunArgs args;
    if (words.front() == "run") {
      const auto values = [this](std::string_view option) { return value_count(option); };
      auto split = split_run_args(std::span(words).subspan(1), values);
      if (!split) return say(split.error().message), kExitUsage;
      args = std::move(*split);
      words.resize(1);
      words.insert(words.end(), args.options.begin(), args.options.end());
    }
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // --help, --version: to stdout
      const auto found = app_.get_subcommands();
      return wrong(error.what(), found.empty() ? "" : " " + found.front()->get_name());
    }
    if (run_->parsed()) return verb_run(run_options_.verb(*run_, std::move(args)), at_start_);
    return chosen_();
  }

 private:
  // `act` is what the verb does.
  CLI::App* add(const char* name, const char* help, std::function<int()> act) {
    CLI::App* app = app_.add_subcommand(name, help);
    app->callback([this, act = std::move(act)] { chosen_ = act; });
    return app;
  }

  void add_run() {
    run_ = app_.add_subcommand("run", "Run a training and tell which rank is slow, in which phase, for what cause");
    run_options_.add_to(*run_);
  }

  void add_top() {
    const auto once = [this](CLI::App* app) {
      app->add_flag("--once", top_.once, "print it once instead of drawing it; so without a terminal");
    };
    CLI::App* top = add("top", "Show a run in the terminal: a live one, or a kept one as it ended",
                        [this] { return verb_top(top_); });
    top->add_option("run", top_.run, "name, pid or folder of a run (default: the only live one)");
    once(top);
    CLI::App* watch = add("watch", "Show a live run in the terminal, whoever started it", [this] {
      top_.live_only = true;
      return verb_top(top_);
    });
    watch->add_option("run", top_.run, "pid of any process of the run, or its name or folder")->required();
    once(watch);
  }

  void add_runs() {
    CLI::App* app =
        add("runs", "List the runs in a logs folder, or remove old ones", [this] { return verb_runs(runs_); });
    app->add_option("logs", runs_.logs, "the logs folder (default: that of the settings, logs)");
    app->add_flag("--json", runs_.json, "JSON instead of text");
    app->add_flag("--prune", runs_.prune, "remove runs by the rules below, never a live one; asks before it does");
    app->add_option("--keep", runs_.keep, "with --prune: the newest N runs stay")->check(CLI::NonNegativeNumber);
    app->add_option("--older-than", runs_.older_days, "with --prune: only runs that began more than DAYS days ago go")
        ->check(CLI::NonNegativeNumber)
        ->type_name("DAYS");
    app->add_flag("--yes", runs_.yes, "with --prune: do not ask");
  }

  void add_serve() {
    CLI::App* app = add("serve", "Show runs in the browser: history and live runs of a logs folder",
                        [this] { return verb_serve(serve_); });
    app->add_option("logs", serve_.path, "logs folder, run folder or file of a run (default: the logs folder)");
    app->add_option("--port", serve_.port, "port to listen on (default: the system chooses)")
        ->check(CLI::Range(0, 65535));
    app->add_option("--host", serve_.host, "numeric address to listen on (default: 127.0.0.1, this machine alone)");
    app->add_option("--allow-host", serve_.allow_hosts, "a further name by which browsers call this machine")
        ->allow_extra_args(false);
    app->add_flag("--openapi", serve_.openapi, "print the description of the API and end");
  }

  void add_report() {
    CLI::App* app = add("report", "Print the summary of a run again", [this] { return verb_report(report_); });
    app->alias("view");
    app->add_option("run", report_.path, "run folder, final_summary.json, run.db or folder of black boxes")->required();
    app->add_flag("--rebuild", report_.rebuild, "work the summary out again from the steps in run.db");
    app->add_option("--format", report_.format, reporter_names() + " (default text)");
    app->add_flag("--html", report_.html, "write final_summary.html into the run's folder");
    app->add_flag_callback("--json", [this] { report_.format = "json"; }, "the same as --format json");
    app->add_option("--output", report_.output, "a file to write instead of printing");
  }

  void add_merge() {
    CLI::App* app = add("merge", "Judge a job of several nodes as a whole, from the run that each node kept",
                        [this] { return verb_merge(merge_); });
    app->add_option("runs", merge_.runs, "run folders or run.db files, one per node")->required();
    app->add_option("-o,--output", merge_.output, "folder for the summary and run.db of the whole job")->required();
    app->add_flag("--html", merge_.html, "also write final_summary.html");
    app->footer("Copy the run folder of every node to one machine, then: stepscope merge node0 node1 -o whole");
  }

  void add_compare() {
    CLI::App* app = add("compare", "Did it get slower? Exit code 0 same or better, 4 regression, 3 inconclusive",
                        [this] { return verb_compare(compare_); });
    app->add_option(
        "runs", compare_.runs,
        "the reference and the run to judge: run folder, final_summary.json, run.db or folder of black boxes");
    app->add_option("--baseline", compare_.baseline, "runs of the reference, instead of a first one");
    app->add_option("--candidate", compare_.candidate, "runs to judge, with --baseline");
    app->add_option("--output", compare_.output, "also write <output>.json, <output>.md and <output>.txt");
    app->add_option("--fail-on", compare_.fail_on,
                    "regression: an inconclusive result exits with 0, too; never: always exit with 0")
        ->check(CLI::IsMember({"regression", "inconclusive", "never"}));
    app->add_option("--threshold,--least-change-pct", compare_.threshold_pct,
                    "smallest change of the median step that counts: 5% or 5 (default: 3%)")
        ->check(CLI::Range(0.0, 1000.0))
        ->transform(CLI::Validator(
            [](std::string& text) {
              if (text.size() > 1 && text.ends_with('%')) text.pop_back();
              return std::string();
            },
            "PERCENT"));
    CLI::Option* json = app->add_flag("--json", compare_.json, "JSON instead of text");
    app->add_flag("--markdown", compare_.markdown, "Markdown instead of text, for a pull request")->excludes(json);
    app->footer(
        "stepscope compare A B\nstepscope compare --baseline A1 A2 A3 --candidate B1 B2 B3\n\n"
        "One run a side cannot show what runs differ by: 1 % is assumed. Three runs a side show it.");
  }

  void add_hang() {
    CLI::App* app = add("hang", "Compare Flight Recorder dumps of a job that stands still: which rank, and why",
                        [this] { return verb_hang(hang_); });
    app->add_option("dumps", hang_.paths, "folder of dumps, or files: pickle or JSON, one per rank")->required();
    app->add_flag("--json", hang_.json, "JSON instead of text");
  }

  void add_whatif() {
    CLI::App* app =
        add("whatif", "Replay a trace of operations: what stragglers cost, which worker, stage or type they are",
            [this] { return verb_whatif(whatif_); });
    app->add_option("trace", whatif_.trace, "CSV, one operation of one worker in one step per line")->required();
    app->add_flag("--json", whatif_.json, "JSON instead of text");
  }

  void add_inspect() {
    CLI::App* app = add("inspect", "Print what a black box or a run file holds as JSON, one object a line",
                        [this] { return verb_inspect(ring_); });
    app->add_option("file", ring_,
                    "a run.db, or a .ring file: stepscope run --keep-rings leaves them in <run>/blackbox")
        ->required();
  }

  void add_export() {
    CLI::App* app =
        add("export", "Write a run's tables as CSV, Parquet or Arrow files", [this] { return verb_export(export_); });
    app->add_option("run", export_.path, "run folder or run.db")->required();
    app->add_option("--table", export_.table,
                    "steps (default), ledger, collectives, samples, findings, ranks, groups, events, or: all");
    app->add_option("--format", export_.format,
                    "csv, parquet, arrow (default: by the name of the output, else csv); all but csv need pyarrow")
        ->check(CLI::IsMember({"csv", "parquet", "arrow"}));
    app->add_option("-o,--output", export_.output,
                    "a file to write, for all tables a folder (default: csv of one table to stdout)");
    app->add_option("--python", export_.python,
                    "interpreter that has pyarrow (default: the one that stepscope run uses)");
  }

  void add_explain() {
    CLI::App* app = add("explain", "Explain a kind of finding: what it means, how it is decided, what to do",
                        [this] { return verb_explain(kind_); });
    app->add_option("kind", kind_, "a kind of finding, or: thresholds (default: list the kinds)");
  }

  void add_doctor() {
    CLI::App* app = add("doctor", "Tell what can be observed on this machine, with this Python",
                        [this] { return verb_doctor(doctor_); });
    app->add_option("--python", doctor_.python,
                    "interpreter of the training (default: the one that stepscope run uses)");
    app->add_flag("--json", doctor_.json, "JSON on stdout");
  }

  // Verbs that our own processes call.
  void add_hidden() {
    add("agent", "", verb_agent)->group("");
    CLI::App* app = add("attach", "", [this] { return verb_attach(pid_, at_start_); });
    app->group("");
    app->add_option("pid", pid_, "")->required()->check(CLI::PositiveNumber);
  }

  int value_count(std::string_view name) const {
    const CLI::Option* option = run_->get_option_no_throw(std::string(name));
    return option && option->get_items_expected_max() > 0 ? 1 : 0;
  }

  // CLI11's text for a bad command line is cut down to one line.
  static int wrong(std::string text, const std::string& verb) {
    text = text.substr(0, text.find('\n'));
    if (!text.empty() && text.back() == '.') text.pop_back();
    say(text + " (try stepscope" + verb + " --help)");
    return kExitUsage;
  }

  const SignalState& at_start_;
  CLI::App app_{"stepscope: which rank is slow, in which phase, for what cause", "stepscope"};
  CLI::App* run_ = nullptr;
  std::function<int()> chosen_;
  RunOptions run_options_;
  TopVerb top_;
  RunsVerb runs_;
  ReportVerb report_;
  MergeVerb merge_;
  ServeVerb serve_;
  CompareVerb compare_;
  DoctorVerb doctor_;
  WhatifVerb whatif_;
  HangVerb hang_;
  ExportVerb export_;
  std::string ring_, kind_;
  int pid_ = 0;
};

// A program that was started with a standard file closed must not find one of ours under its number.
void reserve_standard_files() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR | O_CLOEXEC);
  }
}

}  // namespace
}  // namespace stepscope

int main(int argc, char** argv) {
  const stepscope::SignalState at_start = stepscope::SignalState::current();
  stepscope::reserve_standard_files();
  try {
    return stepscope::FrontDoor(at_start).enter(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    stepscope::say(std::string("internal error: ") + error.what());
    return 70;
  }
}
