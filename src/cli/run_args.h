// The words after `stepscope run`: where our options end and the user's command begins.
//
//   run [options] train.py [args…]          options stand before the script
//   run [options] -m package.module [args…]
//   run [options] -- any launch command     nothing after -- is looked at
//   run train.py --nproc-per-node=4 --args --lr 0.1
//
// After a script only the launch options below are ours (dashes or underscores, "=value" or the next word); the first
// --args or -- ends even that. Everything else is the script's, in order, untouched. Pure, no I/O.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stepscope {

// What is passed on to torch.distributed.run, as given.
struct TorchrunOptions {
  std::optional<std::string> nproc_per_node, nnodes, node_rank, master_addr, master_port;

  bool any() const { return nproc_per_node || nnodes || node_rank || master_addr || master_port; }
  // The field of "--nproc-per-node" or "--nproc_per_node"; null for any other name.
  std::optional<std::string>* field(std::string_view option);
  // Name (with dashes) and value of each that is set, in a fixed order.
  std::vector<std::pair<std::string, std::string>> list() const;
};

struct RunArgs {
  std::vector<std::string> options;  // ours, for the option parser
  bool command_form = false;         // `-- command`
  bool module = false;               // -m
  std::vector<std::string> command;  // the command; or script (module) and its arguments
  TorchrunOptions torchrun;          // found after the script
};

// How many words follow an option of ours: 0 or 1; unknown options count as 0 (the option parser rejects them).
using ValueCount = std::function<int(std::string_view option)>;

Result<RunArgs> split_run_args(std::span<const std::string> words, const ValueCount& value_count);

}  // namespace stepscope
