// What is new of the ranks of this node, as frames for the aggregator (node_frame.h): one at a time, each until it is
// answered. Taps the steps that the pipeline takes from rings here. Memory is bounded: of steps that wait too long the
// oldest are dropped and counted. One thread; nothing waits.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/pipeline.h"

namespace stepscope {

class NodeOutbox {
 public:
  // The pipeline outlives it.
  NodeOutbox(Pipeline& pipeline, std::string nonce, std::string hostname);
  ~NodeOutbox();
  NodeOutbox(const NodeOutbox&) = delete;
  NodeOutbox& operator=(const NodeOutbox&) = delete;

  // The frame that is to be sent: the one that was not answered yet, or a new one where it is due; with `last`, what
  // there is.
  std::optional<std::string> next(uint64_t now_ns, bool last = false);
  void answered(std::string_view body);  // it was taken in
  void refused();                        // it will never be
  bool empty() const { return frame_.empty() && waiting_ == 0; }
  uint64_t dropped_steps() const { return dropped_; }

 private:
  struct Process {
    std::deque<RankStep> steps;
    size_t groups = 0, communicators = 0, facts = 0;  // told
    bool gone = false;                                // told
  };
  static constexpr uint64_t kEveryNs = 1'000'000'000;
  static constexpr size_t kHurrySteps = 16;  // rows of others are held up for so long only (StepTable::kMaxLead)
  static constexpr size_t kMaxWaiting = 32768, kStepsOfFrame = 2048, kItemsOfFrame = 65536;

  void keep(Pipeline::TailId id, const std::vector<RankStep>& steps);
  std::string make(uint64_t now_ns);

  Pipeline& pipeline_;
  std::string nonce_, hostname_, frame_;
  std::map<Pipeline::TailId, Process> processes_;
  uint64_t sequence_ = 0, made_ns_ = 0, dropped_ = 0;
  size_t waiting_ = 0, in_frame_ = 0;
};

}  // namespace stepscope
