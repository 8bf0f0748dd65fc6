#include "sampler/torch_probe.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "sampler/interpreter_flags.h"

namespace stepscope {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kEarlyNs = 60 * kSecond, kEarlyEveryNs = kSecond / 2, kLaterEveryNs = 10 * kSecond;
constexpr size_t kMaxSeen = 64, kMaxCommand = 120;

// The library that every build of torch loads, and the module that the recorder lives in.
bool has_torch(std::string_view maps) {
  return maps.find("/libtorch_cpu.so") != maps.npos || maps.find("/libtorch.so") != maps.npos;
}
bool has_recorder(std::string_view maps) { return maps.find("/stepscope/_native.") != maps.npos; }

// Value of a variable in a block of NAME=value, each ended by a NUL; nullopt when it is not there.
std::optional<std::string_view> variable(std::string_view block, std::string_view name) {
  while (!block.empty()) {
    const std::string_view entry = block.substr(0, block.find('\0'));
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
    block.remove_prefix(std::min(block.size(), entry.size() + 1));
  }
  return std::nullopt;
}

std::vector<std::string> words_of(std::string_view arguments) {
  std::vector<std::string> words;
  while (!arguments.empty()) {
    words.emplace_back(arguments.substr(0, arguments.find('\0')));
    arguments.remove_prefix(std::min(arguments.size(), words.back().size() + 1));
  }
  return words;
}

std::string reason_of(std::string_view arguments, std::string_view environment) {
  const HooksKeptOut kept_out = hooks_kept_out_of(words_of(arguments));
  if (kept_out == HooksKeptOut::kNoSite) return "Python was started with -S and reads no site-packages";
  const auto disabled = variable(environment, "STEPSCOPE_DISABLE");
  if (disabled && !disabled->empty() && *disabled != "0") return "STEPSCOPE_DISABLE is set in its environment";
  if (kept_out == HooksKeptOut::kPathIgnored)
    return "Python was started with -I or -E and does not look at PYTHONPATH; stepscope is not installed beside its "
           "torch";
  const auto path = variable(environment, "PYTHONPATH");
  if (!environment.empty() && (!path || path->find("/stepscope/_inject") == path->npos))
    return "PYTHONPATH in its environment was replaced and has lost stepscope's folder";
  return "the reason is not known; `stepscope doctor`, run with its Python, looks for it";
}

std::string one_line(std::string_view arguments) {
  std::string text;
  for (const char c : arguments.substr(0, std::min(arguments.size(), kMaxCommand)))
    text += c == '\0' ? ' ' : static_cast<unsigned char>(c) < 32 ? '?' : c;
  while (text.ends_with(' ')) text.pop_back();
  return arguments.size() > kMaxCommand ? text + "…" : text;
}

}  // namespace

TorchProbe::TorchProbe(const std::string& proc)
    : proc_(::open(proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), tree_(proc) {}

std::string TorchProbe::text_of(int pid, const char* file) {
  const auto text = file_.read(proc_.get(), (std::to_string(pid) + "/" + file).c_str());
  return text ? std::string(*text) : std::string();
}

void TorchProbe::look_at(int pid, uint64_t start_ticks, uint64_t now_ns) {
  const auto maps = file_.read(proc_.get(), (std::to_string(pid) + "/maps").c_str());
  if (!maps) return;
  const auto key = std::pair{pid, start_ticks};
  if (has_recorder(*maps)) {
    seen_.erase(key);
    return;
  }
  if (!has_torch(*maps)) return;
  if (seen_.contains(key) || seen_.size() >= kMaxSeen) return;
  const std::string arguments = text_of(pid, "cmdline");
  seen_[key] = {now_ns, {pid, one_line(arguments), reason_of(arguments, text_of(pid, "environ"))}};
}

void TorchProbe::look(int root, int observer, uint64_t now_ns) {
  if (root <= 0 || now_ns < due_ns_) return;
  if (began_ns_ == 0) began_ns_ = now_ns;
  due_ns_ = now_ns + (now_ns - began_ns_ < kEarlyNs ? kEarlyEveryNs : kLaterEveryNs);
  look_at(root, 0, now_ns);
  for (const ProcessTree::Descendant& process : tree_.refresh({root}, observer, file_)) {
    if (process.pid != root) look_at(process.pid, process.start_ticks, now_ns);
  }
}

std::optional<UnhookedProcess> TorchProbe::found() const {
  const Seen* first = nullptr;
  for (const auto& [key, seen] : seen_)
    if (!first || seen.since_ns < first->since_ns) first = &seen;
  return first ? std::optional(first->process) : std::nullopt;
}

}  // namespace stepscope
