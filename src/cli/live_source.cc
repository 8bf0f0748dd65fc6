#include "cli/live_source.h"

#include "base/clock.h"
#include "report/summary_read.h"

namespace stepscope {

constexpr uint64_t kPatienceNs = 5'000'000'000;

LiveSource::LiveSource(std::string shm_dir, uint64_t every_ns)
    : asker_(std::move(shm_dir)), every_ns_(every_ns), heard_ns_(monotonic_ns()) {}

bool LiveSource::turn(uint64_t now_ns) {
  if (asker_.waits() && now_ns - asked_ns_ > kPatienceNs) asker_.give_up();  // an agent may have died over it
  if (!asker_.waits() && (asked_ns_ == 0 || now_ns - asked_ns_ >= every_ns_)) {
    asked_ns_ = now_ns;
    asker_.ask();
  }
  const auto json = asker_.take();
  if (!json) return false;
  auto snapshot = read_summary(*json, "the agent's answer");
  if (!snapshot) return false;  // an agent of another version: the silence is shown
  heard_ns_ = now_ns;
  told_ = std::make_shared<const tui::Told>(std::move(*snapshot));
  return true;
}

}  // namespace stepscope
