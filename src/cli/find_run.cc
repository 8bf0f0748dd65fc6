#include "cli/find_run.h"

#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"

namespace stepscope {
namespace {

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) ? resolved : "";
}

// 0 = no number.
pid_t pid_of(const std::string& word) {
  int pid = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), pid);
  return error == std::errc() && end == word.data() + word.size() && pid > 0 ? pid : 0;
}

}  // namespace

std::string listed(const std::vector<LiveRun>& runs) {
  std::string out;
  for (const LiveRun& run : runs)
    out += (out.empty() ? "" : ", ") + run.name + " (pid " + std::to_string(run.launcher_pid) + ")";
  return out;
}

Result<FoundRun> find_run(const std::string& word, const std::string& logs_dir, const std::vector<LiveRun>& live) {
  if (word.empty()) {
    if (live.empty())
      return fail(
          "no run of yours is live on this machine; a kept one is named by its folder: stepscope top logs/<run>");
    if (live.size() > 1) return fail("several runs are live, name one: " + listed(live));
    return FoundRun{live.front(), ""};
  }
  const auto found = [&](auto matches) -> std::optional<FoundRun> {
    const auto at = std::ranges::find_if(live, matches);
    if (at == live.end()) return std::nullopt;
    return FoundRun{*at, ""};
  };
  if (auto run = found([&](const LiveRun& r) { return r.name == word; })) return std::move(*run);  // newest first
  if (is_file(word)) return FoundRun{std::nullopt, word};
  for (const std::string& folder : {word, path_join(logs_dir, word)}) {
    if (!is_dir(folder)) continue;
    const std::string whole = absolute(folder);
    if (auto run = found([&](const LiveRun& r) { return !r.run_dir.empty() && r.run_dir == whole; }))
      return std::move(*run);
    return FoundRun{std::nullopt, folder};
  }
  if (const pid_t pid = pid_of(word); pid > 0) {
    if (auto run = found([&](const LiveRun& r) { return has_process(r, pid); })) return std::move(*run);
    return fail("process " + word + " is of no live run" + (live.empty() ? "" : "; live: " + listed(live)));
  }
  return fail("no run is called '" + word + "', neither a live one nor one in " + logs_dir +
              (live.empty() ? "" : "; live: " + listed(live)));
}

}  // namespace stepscope
