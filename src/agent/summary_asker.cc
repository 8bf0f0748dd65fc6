#include "agent/summary_asker.h"

#include <unistd.h>

#include "agent/summary_requests.h"
#include "base/file.h"
#include "base/random_hex.h"
#include "report/summary_read.h"

namespace stepscope {

void SummaryAsker::ask() {
  if (waits()) return;
  std::string token = random_hex(16);
  if (write_file_atomic(path_join(folder_, token + std::string(kAskEnding)), "")) token_ = std::move(token);
}

std::optional<std::string> SummaryAsker::take() {
  if (!waits()) return std::nullopt;
  const std::string path = path_join(folder_, token_ + std::string(kAnswerEnding));
  if (!is_file(path)) return std::nullopt;
  auto text = read_file(path, kMaxSummaryBytes + 1);
  ::unlink(path.c_str());
  token_.clear();
  if (!text) return std::nullopt;
  return std::move(*text);
}

void SummaryAsker::give_up() {
  if (!waits()) return;
  ::unlink(path_join(folder_, token_ + std::string(kAskEnding)).c_str());
  ::unlink(path_join(folder_, token_ + std::string(kAnswerEnding)).c_str());
  token_.clear();
}

}  // namespace stepscope
