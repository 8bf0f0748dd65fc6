#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/doctor_check.h"
#include "cli/python_env.h"
#include "cli/run_places.h"
#include "cli/settings_here.h"
#include "cli/settings_file.h"
#include "cli/verbs.h"

namespace stepscope {
namespace {

std::string as_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json out = {{"can_observe", can_observe(checks)}, {"checks", nlohmann::ordered_json::array()}};
  for (const Check& check : checks) {
    out["checks"].push_back(
        {{"name", check.name}, {"state", name(check.state)}, {"text", check.text}, {"essential", check.essential}});
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_text(const std::vector<Check>& checks) {
  size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::string out;
  for (const Check& check : checks) {
    std::string state = name(check.state);
    state.resize(10, ' ');
    out += state + check.name + std::string(width - check.name.size() + 2, ' ') + check.text + "\n";
  }
  const auto count = [&](CheckState state) {
    return std::to_string(
        std::count_if(checks.begin(), checks.end(), [&](const Check& c) { return c.state == state; }));
  };
  out += can_observe(checks) ? "Trainings can be observed here: " : "Python trainings cannot be observed here: ";
  return out + count(CheckState::kOk) + " ok, " + count(CheckState::kDegraded) + " degraded, " +
         count(CheckState::kMissing) + " missing.\n";
}

}  // namespace

const char* name(CheckState state) {
  return state == CheckState::kOk ? "ok" : state == CheckState::kDegraded ? "degraded" : "missing";
}

bool can_observe(const std::vector<Check>& checks) {
  return std::none_of(checks.begin(), checks.end(),
                      [](const Check& c) { return c.essential && c.state == CheckState::kMissing; });
}

int verb_doctor(const DoctorVerb& verb) {
  const std::string binary = own_binary_path();
  std::vector<Check> checks = {{"stepscope", CheckState::kOk, SS_VERSION " at " + binary, false}};
  auto settings = settings_here({});
  if (!settings) {
    checks.push_back(
        {"settings", CheckState::kMissing, settings.error().message + ": stepscope run refuses to start", true});
  } else if (settings->disable) {
    checks.push_back({"settings", CheckState::kDegraded, "STEPSCOPE_DISABLE is set: runs are not observed", false});
  }
  for (Check& check : check_machine(settings ? settings->logs_dir : "logs")) checks.push_back(std::move(check));
  const std::string python = verb.python.empty() ? find_python(binary) : verb.python;
  const std::string inject = find_inject_folder(binary, from_environment("STEPSCOPE_PYTHON_DIR").value_or(""));
  for (Check& check : check_python(python, inject)) checks.push_back(std::move(check));
  const std::string text = verb.json ? as_json(checks) : as_text(checks);
  if (!write_all(STDOUT_FILENO, text, "stdout")) return 1;
  return can_observe(checks) ? 0 : 1;
}

}  // namespace stepscope
