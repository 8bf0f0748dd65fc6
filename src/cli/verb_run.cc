#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/launch_plan.h"
#include "cli/launcher.h"
#include "cli/python_env.h"
#include "cli/settings.h"
#include "cli/settings_here.h"
#include "cli/verbs.h"

namespace stepscope {
namespace {

// What is wrong with the command as a whole, "" = nothing.
std::string usage_error(const RunVerb& verb) {
  const RunArgs& args = verb.args;
  if (args.command.empty()) {
    return args.command_form ? "a command is expected after --"
                             : "a script is expected: stepscope run [options] train.py [args…]";
  }
  if (args.command_form) {
    return verb.torchrun.any() ? verb.torchrun.list().front().first +
                                     " goes with a script; after -- it belongs into your launch command"
                               : "";
  }
  const std::string& script = args.command.front();
  if (args.module || is_file(script) || is_dir(script)) return "";
  return "no such script: " + script + (script.ends_with(".py") ? "" : " (to run a command, put -- before it)");
}

}  // namespace

int verb_run(const RunVerb& verb, const SignalState& at_start) {
  if (const std::string error = usage_error(verb); !error.empty()) return say(error), kExitUsage;
  auto settings = settings_here(verb.flags);
  if (!settings) return say(settings.error().message), kExitUsage;
  LaunchRequest request;
  request.own_binary = own_binary_path();
  request.inject_hint = from_environment("STEPSCOPE_PYTHON_DIR").value_or("");
  request.version = SS_VERSION;
  request.settings = std::move(*settings);
  request.command = training_command(verb.args, verb.torchrun, find_python(request.own_binary));
  return launch(request, at_start);
}

}  // namespace stepscope
