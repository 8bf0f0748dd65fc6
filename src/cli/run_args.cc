#include "cli/run_args.h"

#include <algorithm>

namespace stepscope {
namespace {

std::string dashed(std::string_view option) {
  std::string result(option);
  if (result.size() > 2) std::replace(result.begin() + 2, result.end(), '_', '-');
  return result;
}

// Takes one launch option at words[at] when it is one; true = it was, and `at` is past it.
Result<bool> take_launch_option(std::span<const std::string> words, size_t& at, TorchrunOptions& torchrun) {
  const std::string& word = words[at];
  if (!word.starts_with("--")) return false;
  const size_t equals = word.find('=');
  auto* field = torchrun.field(std::string_view(word).substr(0, equals));
  if (!field) return false;
  if (equals != std::string::npos) {
    *field = word.substr(equals + 1);
    at += 1;
  } else {
    if (at + 1 >= words.size()) return fail(word + " needs a value");
    *field = words[at + 1];
    at += 2;
  }
  if ((*field)->empty()) return fail(word.substr(0, equals) + " needs a value");
  return true;
}

}  // namespace

std::optional<std::string>* TorchrunOptions::field(std::string_view option) {
  const std::string name = dashed(option);
  if (name == "--nproc-per-node") return &nproc_per_node;
  if (name == "--nnodes") return &nnodes;
  if (name == "--node-rank") return &node_rank;
  if (name == "--master-addr") return &master_addr;
  if (name == "--master-port") return &master_port;
  return nullptr;
}

std::vector<std::pair<std::string, std::string>> TorchrunOptions::list() const {
  std::vector<std::pair<std::string, std::string>> result;
  auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) result.emplace_back(name, *value);
  };
  add("--nnodes", nnodes);
  add("--nproc-per-node", nproc_per_node);
  add("--node-rank", node_rank);
  add("--master-addr", master_addr);
  add("--master-port", master_port);
  return result;
}

Result<RunArgs> split_run_args(std::span<const std::string> words, const ValueCount& value_count) {
  RunArgs result;
  size_t at = 0;
  while (at < words.size()) {
    const std::string& word = words[at];
    if (word == "--") {
      result.command_form = true;
      result.command.assign(words.begin() + at + 1, words.end());
      return result;
    }
    if (word == "-m" || word == "--module") {
      if (at + 1 >= words.size()) return fail(word + " needs the name of a module");
      result.module = true;
      ++at;
      break;
    }
    if (!word.starts_with("-") || word == "-") break;
    result.options.push_back(word);
    ++at;
    if (word.find('=') == std::string::npos && value_count(word) == 1 && at < words.size()) {
      result.options.push_back(words[at++]);
    }
  }
  if (at == words.size()) return result;  // no script: the caller says so, after --help has had its chance
  result.command.push_back(words[at++]);
  while (at < words.size()) {
    if (words[at] == "--args" || words[at] == "--") {
      result.command.insert(result.command.end(), words.begin() + at + 1, words.end());
      break;
    }
    auto taken = take_launch_option(words, at, result.torchrun);
    if (!taken) return std::unexpected(taken.error());
    if (!*taken) result.command.push_back(words[at++]);
  }
  return result;
}

}  // namespace stepscope
