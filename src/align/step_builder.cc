#include "align/step_builder.h"

#include <algorithm>
#include <utility>

#include "align/open_rank.h"

namespace stepscope {

struct StepBuilder::Impl {
  OpenRank rank;
};

StepBuilder::StepBuilder(uint32_t main_thread) : impl_(std::make_unique<Impl>()) {
  impl_->rank.training = TrainingThread(main_thread);
}
StepBuilder::~StepBuilder() = default;
StepBuilder::StepBuilder(StepBuilder&&) noexcept = default;
StepBuilder& StepBuilder::operator=(StepBuilder&&) noexcept = default;

void StepBuilder::push(const Event& event) { impl_->rank.push(event); }

void StepBuilder::push_name(uint16_t kind, uint64_t id, const std::string& text) {
  impl_->rank.names.add(kind, id, text, impl_->rank.life);
}

void StepBuilder::note_lost(uint64_t count) {
  impl_->rank.parts.count_lost(static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX / 2)));
  impl_->rank.life.lost += count;
  if (count) impl_->rank.forget_spans();
}

std::vector<RankStep> StepBuilder::take_completed() { return std::exchange(impl_->rank.device.completed(), {}); }
void StepBuilder::finish(int64_t end_ns) { impl_->rank.finish(end_ns); }
RankLife& StepBuilder::life() { return impl_->rank.life; }
const RankLife& StepBuilder::life() const { return impl_->rank.life; }
const std::map<uint64_t, ProcessGroup>& StepBuilder::groups() const { return impl_->rank.names.groups(); }
Category StepBuilder::phase() const { return impl_->rank.phase(); }
bool StepBuilder::stalled() const { return impl_->rank.stalled(); }
const std::map<uint64_t, size_t>& StepBuilder::communicators() const { return impl_->rank.communicators; }
const NameBook::Names& StepBuilder::names() const { return impl_->rank.names.all(); }

}  // namespace stepscope
