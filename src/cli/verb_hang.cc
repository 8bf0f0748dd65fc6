#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/file.h"
#include "base/text_format.h"
#include "cli/agent_link.h"
#include "cli/verbs.h"
#include "flight/verdict.h"
#include "report/hang_view.h"

namespace stepscope {
namespace {

constexpr size_t kMaxDumps = 1u << 16;
constexpr size_t kMaxTotalBytes = size_t{4} << 30;

// In a folder lie other files, too: what torch wrote begins as a pickle or a JSON object, and is named by a rank where
// it could not write anything.
bool may_be_dump(const std::string& path) {
  if (!is_file(path)) return false;
  const auto head = read_file(path, 64);
  if (!head) return false;
  const size_t first = head->find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return path.back() >= '0' && path.back() <= '9';
  return head->front() == '\x80' || (*head)[first] == '{';
}

Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    if (!is_dir(path)) {
      out.push_back(path);
      continue;
    }
    const auto names = list_dir(path);
    if (!names) return std::unexpected(names.error());
    const size_t before = out.size();
    for (const std::string& name : *names) {
      if (const std::string file = path_join(path, name); may_be_dump(file)) out.push_back(file);
    }
    if (out.size() == before) return fail(path + ": no Flight Recorder dump in it");
  }
  if (out.size() > kMaxDumps) return fail(formatted("more than {} dumps", kMaxDumps));
  return out;
}

Result<flight::RankDump> read_one(const std::string& file, size_t& total) {
  const auto bytes = read_file(file, flight::kMaxDumpBytes + 1);
  if (!bytes) return std::unexpected(bytes.error());
  if ((total += bytes->size()) > kMaxTotalBytes)
    return fail(formatted("{}: more than {} GiB of dumps", file, kMaxTotalBytes >> 30));
  return flight::read_dump(*bytes, file);
}

// A dump that cannot be read is said and counts as none: a rank that died while it wrote must not hide the others.
Result<flight::JobDumps> read_all(const std::vector<std::string>& paths) {
  const auto files = files_of(paths);
  if (!files) return std::unexpected(files.error());
  std::vector<flight::RankDump> dumps;
  size_t total = 0;
  for (const std::string& file : *files) {
    auto dump = read_one(file, total);
    if (!dump && files->size() == 1) return std::unexpected(dump.error());
    if (dump)
      dumps.push_back(std::move(*dump));
    else
      say(dump.error().message);
  }
  if (dumps.empty()) return fail(formatted("none of {} dumps can be read", files->size()));
  return flight::join_dumps(std::move(dumps));
}

}  // namespace

int verb_hang(const HangVerb& verb) {
  const auto job = read_all(verb.paths);
  if (!job) return say(job.error().message), kExitUsage;
  const flight::Verdict verdict = flight::judge(*job);
  TextOptions options;
  options.color = ::isatty(STDOUT_FILENO);
  const std::string text = verb.json ? hang_json(verdict, *job) : hang_text(verdict, *job, options);
  return write_all(STDOUT_FILENO, text, "stdout") ? 0 : 1;
}

}  // namespace stepscope
