// The front door: option grammar of every verb. What a verb does is in verb_<name>.cc.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fcntl.h>
#include <map>
#include <string>
#include <vector>

#include "cli/agent_link.h"
#include "cli/run_args.h"
#include "cli/verbs.h"

namespace stepscope {
namespace {

// Options of `run` by setting name. Flags without a value are the two booleans.
struct RunOptions {
  std::map<std::string, std::string> values;
  std::map<std::string, bool> switches;
  std::map<std::string, std::string> torchrun;  // "--nnodes" → text

  void add_to(CLI::App& app) {
    auto value = [&](const char* flag, const char* name, const char* help) { app.add_option(flag, values[name], help); };
    value("--mode", "mode", "summary (default), cli or dashboard");
    value("--run-name,--run_name", "run_name", "folder of this run below the logs folder");
    value("--logs-dir,--logs_dir", "logs_dir", "where run folders go (default: logs)");
    value("--interval", "interval", "seconds between samples of host and devices (default: 1)");
    app.add_flag("--keep-rings,--keep_rings", switches["keep_rings"], "leave the ranks' black boxes in the run folder");
    app.add_flag("--html-report,--html_report", switches["html_report"], "also write final_summary.html");
    value("--silence", "silence", "advice not to give, comma-separated (all = none at all)");
    value("--flops-per-step,--flops_per_step", "flops_per_step", "FLOPs of one rank and step, for MFU");
    value("--peak-flops,--peak_flops", "peak_flops", "FLOP/s of one device, where its name does not tell");
    app.add_flag("--disable", switches["disable"], "run the command bare, nothing is observed");
    value("--compat", "compat", "traceml: the script may import traceml or traceml_ai, which need not be installed");
    auto launch = [&](const char* flag, const char* name, const char* help) { app.add_option(flag, torchrun[name], help); };
    launch("--nproc-per-node,--nproc_per_node", "--nproc-per-node", "start so many ranks by torchrun");
    launch("--nnodes", "--nnodes", "for torchrun");
    launch("--node-rank,--node_rank", "--node-rank", "for torchrun");
    launch("--master-addr,--master_addr", "--master-addr", "for torchrun");
    launch("--master-port,--master_port", "--master-port", "for torchrun");
    app.footer("stepscope run [options] train.py [args...]\nstepscope run [options] -- any launch command\n\n"
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
    for (const auto& [name, text] : torchrun) {
      if (app.count(name)) *result.torchrun.field(name) = text;
    }
    for (const auto& [name, text] : args.torchrun.list()) *result.torchrun.field(name) = text;
    result.args = std::move(args);
    return result;
  }
};

// CLI11's text for a bad command line, cut down to one line.
int usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version: to stdout
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text.back() == '.') text.pop_back();
  say(text + " (try " + app.get_name() + " --help)");
  return kExitUsage;
}

int parse_run(std::vector<std::string> words, const SignalState& at_start) {
  CLI::App app("Run a training and tell which rank is slow, in which phase, for what cause", "stepscope run");
  RunOptions options;
  options.add_to(app);
  auto value_count = [&](std::string_view name) {
    const CLI::Option* option = app.get_option_no_throw(std::string(name));
    return option && option->get_items_expected_max() > 0 ? 1 : 0;
  };
  auto args = split_run_args(words, value_count);
  if (!args) return say(args.error().message), kExitUsage;
  std::vector<std::string> ours(args->options.rbegin(), args->options.rend());  // CLI11 takes them from the back
  try {
    app.parse(ours);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  return verb_run(options.verb(app, std::move(*args)), at_start);
}

int parse_report(const std::vector<std::string>& words, const std::string& name) {
  CLI::App app("Print the summary of a run again", "stepscope " + name);
  ReportVerb verb;
  app.add_option("run", verb.path, "run folder, final_summary.json or folder of black boxes")->required();
  app.add_flag("--html", verb.html, "write final_summary.html beside it instead");
  app.add_option("--output", verb.output, "where the HTML goes")->needs("--html");
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  return verb_report(verb);
}

int parse_compare(const std::vector<std::string>& words) {
  CLI::App app("Compare two runs: did it get slower? Exit code 0 same or better, 4 regression, 3 inconclusive",
               "stepscope compare");
  CompareVerb verb;
  app.add_option("a", verb.a, "the reference: run folder, final_summary.json or folder of black boxes")->required();
  app.add_option("b", verb.b, "the run that is judged")->required();
  app.add_option("--output", verb.output, "also write <output>.json and <output>.txt");
  app.add_option("--fail-on", verb.fail_on, "regression: inconclusive is exit 0 too; never: always 0")
      ->check(CLI::IsMember({"regression", "inconclusive", "never"}));
  app.add_option("--least-change-pct", verb.least_change_pct,
                 "a smaller change of the median step is none (default: 3)")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_flag("--json", verb.json, "JSON instead of text");
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  return verb_compare(verb);
}

int parse_inspect(const std::vector<std::string>& words) {
  CLI::App app("Print what a black box holds as JSON, one record a line", "stepscope inspect");
  std::string path;
  app.add_option("ring", path, "a .ring file, as `stepscope run --keep-rings` leaves them in <run>/blackbox")
      ->required();
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  return verb_inspect(path);
}

int parse_doctor(const std::vector<std::string>& words) {
  CLI::App app("Tell what can be observed on this machine, with this Python", "stepscope doctor");
  DoctorVerb verb;
  app.add_option("--python", verb.python, "interpreter of the training (default: as stepscope run finds it)");
  app.add_flag("--json", verb.json, "as JSON on stdout");
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  }
  return verb_doctor(verb);
}

constexpr const char* kHelp =
    "stepscope: which rank is slow, in which phase, for what cause\n\n"
    "  stepscope run [options] train.py [args...]     run a training (torchrun with --nproc-per-node)\n"
    "  stepscope run [options] -- any launch command  the same for torchrun, accelerate, deepspeed, srun ...\n"
    "  stepscope report <run folder|summary.json>     print the summary of a run again (also: view)\n"
    "  stepscope compare A B                          did it get slower? exit 4 when it did\n"
    "  stepscope inspect <file.ring>                  what a black box holds, as JSON\n"
    "  stepscope explain [KIND]                       what a kind of finding means, and what to do\n"
    "  stepscope doctor                               what can be observed on this machine, and why not\n"
    "  stepscope --version\n\n"
    "stepscope <verb> --help tells its options.\n";

int front_door(const std::vector<std::string>& words, const SignalState& at_start) {
  const std::string verb = words.empty() ? "" : words.front();
  const std::vector<std::string> rest(words.empty() ? words.end() : words.begin() + 1, words.end());
  if (verb == "run") return parse_run(rest, at_start);
  if (verb == "report" || verb == "view") return parse_report(rest, verb);
  if (verb == "compare") return parse_compare(rest);
  if (verb == "inspect") return parse_inspect(rest);
  if (verb == "explain" && rest.size() <= 1) return verb_explain(rest.empty() ? "" : rest.front());
  if (verb == "doctor") return parse_doctor(rest);
  if (verb == "agent") return verb_agent();
  if (verb == "attach" && rest.size() == 1) return verb_attach(std::atoi(rest.front().c_str()), at_start);
  if (verb == "--version") return std::puts("stepscope " SS_VERSION) < 0;
  if (verb == "--help" || verb == "-h" || verb == "help") return std::fputs(kHelp, stdout) < 0;
  say(verb.empty() ? "a verb is expected: run, report (try stepscope --help)"
                   : "unknown verb: " + verb + " (try stepscope --help)");
  return kExitUsage;
}

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
    return stepscope::front_door(std::vector<std::string>(argv + 1, argv + argc), at_start);
  } catch (const std::exception& error) {
    stepscope::say(std::string("internal error: ") + error.what());
    return 70;
  }
}
