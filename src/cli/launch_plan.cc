#include "cli/launch_plan.h"

#include "base/subprocess.h"
#include "cli/python_env.h"

namespace stepscope {
namespace {

constexpr const char* kOurVariables[] = {"STEPSCOPE_SHM", "STEPSCOPE_RUN_DIR", "STEPSCOPE_NONCE", "STEPSCOPE_OWNER"};

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

void add_python_part(std::vector<std::string>& users, const std::string& inject_folder, const std::string& compat) {
  unset_variable(users, "STEPSCOPE_COMPAT");
  if (!compat.empty()) set_variable(users, "STEPSCOPE_COMPAT", compat);
  if (inject_folder.empty()) return;
  set_variable(users, "PYTHONPATH", python_path(inject_folder, variable(users, "PYTHONPATH")));
}

bool one_node(const TorchrunOptions& options) {
  return !options.nnodes || *options.nnodes == "1" || *options.nnodes == "1:1";
}

}  // namespace

std::vector<std::string> training_command(const RunArgs& args, const TorchrunOptions& torchrun,
                                          const std::string& python) {
  if (args.command_form) return args.command;
  std::vector<std::string> result = {python};
  if (torchrun.any()) {
    result.insert(result.end(), {"-m", "torch.distributed.run"});
    if (one_node(torchrun) && !torchrun.master_addr && !torchrun.master_port && !torchrun.node_rank) {
      result.push_back("--standalone");
    }
    for (const auto& [name, value] : torchrun.list()) result.push_back(name + "=" + value);
  }
  if (args.module) result.push_back("-m");
  result.insert(result.end(), args.command.begin(), args.command.end());
  return result;
}

std::vector<std::string> training_environment(std::vector<std::string> users, const TrainingVariables& ours) {
  for (const char* name : kOurVariables) unset_variable(users, name);
  unset_variable(users, "STEPSCOPE_DISABLE");
  unset_variable(users, "STEPSCOPE_STACKS");
  if (!ours.stacks) set_variable(users, "STEPSCOPE_STACKS", "off");
  auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) set_variable(users, name, value);
  };
  set("STEPSCOPE_SHM", ours.shm_dir);
  set("STEPSCOPE_RUN_DIR", ours.run_dir);
  set("STEPSCOPE_NONCE", ours.nonce);
  add_python_part(users, ours.inject_folder, ours.compat);
  return users;
}

std::vector<std::string> bare_environment(std::vector<std::string> users, const std::string& inject_folder,
                                          const std::string& compat) {
  for (const char* name : kOurVariables) unset_variable(users, name);
  set_variable(users, "STEPSCOPE_DISABLE", "1");
  add_python_part(users, compat.empty() ? "" : inject_folder, compat);
  return users;
}

}  // namespace stepscope
