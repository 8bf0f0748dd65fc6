#include "agent/node_inbox.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <utility>

#include "agent/remote_rank.h"
#include "base/text_format.h"
#include "diagnose/stack_text.h"

namespace stepscope {
namespace {

constexpr size_t kClockFrames = 32;  // frames that a clock is judged by
constexpr int64_t kMostNs = int64_t{1} << 61;
constexpr int64_t kWorthMovingNs = 20'000'000;
constexpr size_t kMostTold = 8;  // nodes that notes name one by one

std::string plural(uint64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

}  // namespace

NodeInbox::NodeInbox(std::string run, Pipeline& pipeline) : run_(std::move(run)), pipeline_(pipeline) {
  aggregator_ = std::random_device{}() | uint64_t{std::random_device{}()} << 32 | 1;
}

void NodeInbox::set_clock(Node& node, const NodeFrame& frame, uint64_t now_ns) {
  NodeState& state = node.state;
  node.most_ns.push_back(static_cast<int64_t>(now_ns) - std::clamp(frame.sent_ns, -kMostNs, kMostNs));
  if (node.most_ns.size() > kClockFrames) node.most_ns.pop_front();
  int64_t most_ns = *std::min_element(node.most_ns.begin(), node.most_ns.end());
  int64_t least_ns = frame.least_offset_ns ? std::clamp(*frame.least_offset_ns, -kMostNs, kMostNs) : most_ns;
  // One of the clocks has jumped: what was known of them before says nothing.
  if (least_ns > most_ns) {
    most_ns = least_ns = node.most_ns.back();
    node.most_ns = {most_ns};
  }
  const int64_t ahead_ns = least_ns + (most_ns - least_ns) / 2;
  state.unsure_ns = (most_ns - least_ns) / 2;
  const int64_t by_ns = ahead_ns - state.ahead_ns;
  if (node.shifted && std::abs(by_ns) <= std::max(kWorthMovingNs, state.unsure_ns)) return;
  state.ahead_ns = ahead_ns;
  if (!std::exchange(node.shifted, true)) return;
  for (const auto& [number, id] : node.processes)
    if (pipeline_.has(id)) pipeline_.remote(id)->move_by(by_ns);
}

void NodeInbox::take_process(Node& node, ProcessNews news, bool newest, uint64_t now_ns, bool& tell_all) {
  auto known = node.processes.find(news.number);
  if (known == node.processes.end()) {
    if (node.processes.size() >= kMaxFrameProcesses)
      std::erase_if(node.processes, [&](const auto& entry) { return !pipeline_.has(entry.second); });
    if (node.processes.size() >= kMaxFrameProcesses) return;
    const TailId id = pipeline_.add(std::make_unique<RemoteRank>(node.state.hostname));
    known = node.processes.emplace(news.number, id).first;
    tell_all = tell_all || !news.identity || !news.life;
  }
  const TailId id = known->second;
  if (!pipeline_.has(id)) return;  // of an attempt that is over
  RemoteRank& rank = *pipeline_.remote(id);
  for (const CodeSample& sample : news.code) pipeline_.note_code(id, sample);
  const int64_t stopped_ns = rank.stopped_ns();
  rank.take(std::move(news), node.state.ahead_ns, newest);
  if (rank.stopped_ns() > stopped_ns) pipeline_.note_stopped(id, rank.stopped_ns());
  if (rank.told_end() && !rank.ended()) pipeline_.end_tail(id, now_ns, std::nullopt);
}

void NodeInbox::take_sight(Node& node, NodeFrame& frame) {
  if (frame.load) pipeline_.engine().set_host_load(node.state.hostname, *frame.load);
  if (!frame.notes.empty()) node.notes = std::move(frame.notes);
  node.standing = std::move(frame.standing);
  if (!frame.host) return;
  for (const auto& [rank, room] : frame.host->rooms) pipeline_.engine().set_device_room(rank, room);
  node.host = std::move(*frame.host);
}

NodeInbox::Answer NodeInbox::take(std::string_view bytes, uint64_t now_ns) {
  auto frame = decode_frame(bytes);
  if (!frame) {
    const auto version = frame_version(bytes);
    const bool other = version && *version != kNodeFrameVersion;
    return {other ? Outcome::kOtherVersion : Outcome::kNoFrame, frame.error().message};
  }
  if (!run_.empty() && frame->run != run_)
    return {Outcome::kOtherRun, "node frame: of another run; each run needs an aggregator of its own"};
  const auto [found, fresh] = nodes_.try_emplace(frame->node);
  if (fresh && nodes_.size() > kMostNodes) {
    nodes_.erase(found);
    return {Outcome::kTooMany, "node frame: of more than " + std::to_string(kMostNodes) + " nodes"};
  }
  Node& node = found->second;
  NodeState& state = node.state;
  if (fresh) {
    state.node = frame->node, state.hostname = frame->hostname;
    node.taken = frame->sequence - 1;
    state.before = node.taken - std::min(node.taken, frame->dropped_frames);
  }
  state.heard_ns = now_ns;
  state.bytes += bytes.size();
  ++state.frames;
  set_clock(node, *frame, now_ns);

  const bool newest = frame->sequence > node.taken;
  const bool missed = node.missing.erase(frame->sequence) > 0;
  NodeAnswer answer{.aggregator = aggregator_, .now_ns = static_cast<int64_t>(now_ns)};
  if (newest) {
    state.missing += frame->sequence - node.taken - 1;
    const uint64_t from = std::max(node.taken + 1, frame->sequence - std::min<uint64_t>(frame->sequence, kMostMissing));
    for (uint64_t number = from; number < frame->sequence; ++number) node.missing.insert(number);
    while (node.missing.size() > kMostMissing) node.missing.erase(node.missing.begin());
    if (frame->sequence > node.taken + 1) answer.tell_all = true;
    node.taken = frame->sequence;
    state.dropped_frames = frame->dropped_frames;
    state.over = frame->last;
    take_sight(node, *frame);
  } else if (missed) {
    --state.missing;
  }
  if (newest || missed)
    for (ProcessNews& news : frame->processes) take_process(node, std::move(news), newest, now_ns, answer.tell_all);
  else
    ++state.duplicates;

  answer.taken = node.taken;
  for (const auto& [number, id] : node.processes) {
    if (!pipeline_.has(id)) continue;
    if (const auto until = pipeline_.remote(id)->take_request()) answer.stamps[number] = *until;
    if (pipeline_.remote(id)->wants_lines()) answer.lines.push_back(number);
  }
  return {Outcome::kTaken, encode(answer)};
}

JobStanding NodeInbox::standing(uint64_t now_ns) const {
  JobStanding job;
  for (const auto& [number, node] : nodes_) {
    const uint64_t age_ns = now_ns - std::min(now_ns, node.state.heard_ns);
    if (age_ns > kStandingNs) continue;
    const double age_s = static_cast<double>(age_ns) * 1e-9;
    std::set<int> told;
    if (node.standing) {
      job.world = std::max(job.world, node.standing->world);
      for (const auto& [id, group] : node.standing->groups) job.groups.try_emplace(id, group);
      for (RankStanding rank : node.standing->ranks) {
        told.insert(rank.rank);
        rank.silent_s += age_s;
        job.ranks.push_back(std::move(rank));
      }
    }
    // Its node sees no reason to look at it closely: it goes on, or is given time there.
    for (const auto& [process, id] : node.processes) {
      if (!pipeline_.has(id) || !pipeline_.counts_as_rank(id)) continue;
      const RankSource& source = pipeline_.tail(id);
      if (told.contains(source.identity().rank)) continue;
      const RankLife life = source.life();
      RankStanding rank{.rank = life.rank, .ended = life.ended, .clean = life.clean_exit};
      rank.patience_s = std::numeric_limits<double>::infinity();
      rank.exit_signal = life.exit_signal, rank.exit_code = life.exit_code;
      rank.exception = exception_words(life);
      rank.steps = life.steps;
      rank.phase = life.open_phase;
      rank.no_stack = "its node has not looked";
      if (life.ended) rank.silent_s = static_cast<double>(static_cast<int64_t>(now_ns) - life.end_ns) * 1e-9;
      job.world = std::max({job.world, life.world_size, life.rank + 1});
      job.ranks.push_back(std::move(rank));
    }
  }
  return job;
}

bool NodeInbox::more_to_come(uint64_t now_ns) const {
  return std::ranges::any_of(nodes_, [&](const auto& entry) {
    const NodeState& state = entry.second.state;
    return !state.over && now_ns < state.heard_ns + kSilentNs;
  });
}

void NodeInbox::judge(Engine& engine) const {
  for (const auto& [number, node] : nodes_)
    for (const Finding& finding : node.host.findings) engine.add_external(finding);
}

bool NodeInbox::hears_from(const std::string& hostname) const {
  return std::ranges::any_of(nodes_, [&](const auto& known) { return known.second.state.hostname == hostname; });
}

std::vector<NodeInbox::NodeState> NodeInbox::states() const {
  std::vector<NodeState> out;
  for (const auto& [node, known] : nodes_) out.push_back(known.state);
  return out;
}

std::string NodeInbox::silence_of(const Node& node, uint64_t now_ns) const {
  if (node.state.over || now_ns < node.state.heard_ns + kSilentNs) return "";
  uint64_t ranks = 0, since = ~uint64_t{0};
  for (const auto& [number, id] : node.processes) {
    if (!pipeline_.has(id) || !pipeline_.counts_as_rank(id)) continue;
    const RankSource& rank = pipeline_.tail(id);
    if (rank.life().ended) continue;
    ++ranks;
    since = std::min(since, rank.steps());
  }
  if (ranks == 0) return "";
  return formatted("node {} has not been heard for {:.0f} s; its {} {} unseen since step {}", node.state.hostname,
                   static_cast<double>(now_ns - node.state.heard_ns) * 1e-9, plural(ranks, "rank"),
                   ranks == 1 ? "is" : "are", since);
}

std::string NodeInbox::losses_of(const Node& node) const {
  uint64_t unsent = 0, dropped = 0, lost = 0, records = 0;
  for (const auto& [number, id] : node.processes) {
    if (!pipeline_.has(id)) continue;
    const RankSource& rank = pipeline_.tail(id);
    const RemoteRank& remote = *pipeline_.remote(id);
    unsent += remote.unsent(), dropped += remote.dropped();
    lost += rank.totals().lost + rank.totals().torn, records += rank.totals().read;
  }
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (node.state.before > 0)
    add(plural(node.state.before, "frame") + " went to an aggregator before this one and will not come again");
  if (node.state.missing > 0) add(plural(node.state.missing, "frame") + " never came");
  if (unsent > 0) add(plural(unsent, "step") + " were dropped there before they could be sent");
  if (dropped > 0) add(plural(dropped, "step") + " came too late");
  if (lost > 0) add(formatted("{} of {} records were lost", lost, lost + records));
  return text.empty() ? "" : "node " + node.state.hostname + ": " + text;
}

void NodeInbox::fill(RunContext& context, uint64_t now_ns) const {
  std::vector<std::string> silent, losses;
  for (const auto& [number, node] : nodes_) {
    if (std::string text = silence_of(node, now_ns); !text.empty()) silent.push_back(std::move(text));
    if (std::string text = losses_of(node); !text.empty()) losses.push_back(std::move(text));
    for (const std::string& note : node.notes) losses.push_back("node " + node.state.hostname + ": " + note);
    context.processes.insert(context.processes.end(), node.host.uses.begin(), node.host.uses.end());
  }
  for (auto* lines : {&silent, &losses}) {
    for (size_t i = 0; i < std::min(lines->size(), kMostTold); ++i) context.note((*lines)[i]);
    if (lines->size() > kMostTold)
      context.note(formatted("and {} more nodes {}", lines->size() - kMostTold,
                             lines == &silent ? "that have not been heard" : "with losses"));
  }
}

}  // namespace stepscope
