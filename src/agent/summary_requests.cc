#include "agent/summary_requests.h"

#include <unistd.h>

#include "base/file.h"

namespace stepscope {
namespace {

constexpr size_t kMaxToken = 64;

bool is_token(std::string_view text) {
  constexpr std::string_view allowed = "0123456789abcdef-";
  return !text.empty() && text.size() <= kMaxToken && text.find_first_not_of(allowed) == std::string_view::npos;
}

}  // namespace

std::vector<std::string> SummaryRequests::take() {
  std::vector<std::string> tokens;
  if (folder_.empty()) return tokens;
  auto names = list_dir(folder_);
  if (!names) return tokens;
  for (const std::string& name : *names) {
    if (!name.ends_with(kAskEnding)) continue;
    const std::string token = name.substr(0, name.size() - kAskEnding.size());
    // What cannot be removed would be asked for again at every poll.
    if (::unlink(path_join(folder_, name).c_str()) == 0 && is_token(token)) tokens.push_back(token);
    if (tokens.size() >= kMaxAnswered) break;
  }
  return tokens;
}

void SummaryRequests::answer(const std::string& token, const std::string& json) {
  // Nobody is told of a failure: the asker waits a bounded time, and the summary at the end does not depend on it.
  [[maybe_unused]] const Status status =
      write_file_atomic(path_join(folder_, token + std::string(kAnswerEnding)), json);
}

}  // namespace stepscope
