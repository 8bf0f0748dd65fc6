#include "agent/node_outbox.h"

#include <algorithm>
#include <utility>

#include "agent/node_frame.h"
#include "store/varint.h"

namespace stepscope {

NodeOutbox::NodeOutbox(Pipeline& pipeline, std::string nonce, std::string hostname)
    : pipeline_(pipeline), nonce_(std::move(nonce)), hostname_(std::move(hostname)) {
  pipeline_.on_steps([this](Pipeline::TailId id, const std::vector<RankStep>& steps) { keep(id, steps); });
}

NodeOutbox::~NodeOutbox() { pipeline_.on_steps(nullptr); }

void NodeOutbox::keep(Pipeline::TailId id, const std::vector<RankStep>& steps) {
  if (!pipeline_.source(id).local()) return;
  Process& process = processes_[id];
  for (const RankStep& step : steps) {
    process.steps.push_back(step);
    ++waiting_;
  }
  while (waiting_ > kMaxWaiting) {
    const auto most = std::max_element(processes_.begin(), processes_.end(), [](const auto& a, const auto& b) {
      return a.second.steps.size() < b.second.steps.size();
    });
    most->second.steps.pop_front();
    --waiting_;
    ++dropped_;
  }
}

std::optional<std::string> NodeOutbox::next(uint64_t now_ns, bool last) {
  if (!frame_.empty()) return frame_;
  const bool hurry = std::any_of(processes_.begin(), processes_.end(),
                                 [](const auto& entry) { return entry.second.steps.size() >= kHurrySteps; });
  if (!last && !hurry && made_ns_ > 0 && now_ns - made_ns_ < kEveryNs) return std::nullopt;
  for (const Pipeline::TailId id : pipeline_.tails())
    if (pipeline_.counts_as_rank(id)) processes_.try_emplace(id);
  if (processes_.empty()) return std::nullopt;
  frame_ = make(now_ns);
  made_ns_ = now_ns;
  return frame_;
}

std::string NodeOutbox::make(uint64_t now_ns) {
  NodeFrame frame{
      .nonce = nonce_, .hostname = hostname_, .sequence = sequence_, .now_ns = static_cast<int64_t>(now_ns)};
  in_frame_ = 0;
  size_t items = 0;
  for (auto& [id, process] : processes_) {
    if (process.gone && process.steps.empty()) continue;
    if (frame.ranks.size() >= NodeFrame::kMaxRanks) break;
    RankNews& news = frame.ranks.emplace_back();
    news.process = id;
    while (!process.steps.empty() && in_frame_ < kStepsOfFrame && items < kItemsOfFrame) {
      const RankStep& step = process.steps.front();
      items += step.stalls.size() + step.collectives.size() + step.device_ops.size();
      if (step.gpu) items += step.gpu->stalls.size();
      news.steps.push_back(std::move(process.steps.front()));
      process.steps.pop_front();
      ++in_frame_, --waiting_;
    }
    if (!pipeline_.has(id)) {
      news.ended = process.gone = true;
      continue;
    }
    const RankSource& source = pipeline_.source(id);
    news.identity = source.identity();
    news.life = source.life();
    news.ended_thread = source.ended_thread();
    if (std::exchange(process.groups, source.groups().size()) != source.groups().size())
      news.groups.assign(source.groups().begin(), source.groups().end());
    if (std::exchange(process.communicators, source.communicators().size()) != source.communicators().size())
      news.communicators.assign(source.communicators().begin(), source.communicators().end());
    std::vector<std::string> facts = source.facts();
    if (std::exchange(process.facts, facts.size()) != facts.size()) news.facts = std::move(facts);
    news.active_ns = source.active_ns();
    news.optimizer_ends = source.optimizer_ends();
    news.totals = source.totals();
    news.ended = source.ended();
    news.numbers_certain = source.numbers_certain();
  }
  return encode_frame(frame);
}

// Whether all that is told once shall be told again.
void NodeOutbox::answered(std::string_view body) {
  if (const auto again = store::take_varint(body); again && *again != 0)
    for (auto& [id, process] : processes_) process.groups = process.communicators = process.facts = 0;
  frame_.clear();
  ++sequence_;
}

void NodeOutbox::refused() {
  dropped_ += in_frame_;
  for (auto& [id, process] : processes_) process.groups = process.communicators = process.facts = 0;
  frame_.clear();
  ++sequence_;
}

}  // namespace stepscope
