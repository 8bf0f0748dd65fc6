#include "agent/node_outbox.h"

#include <algorithm>
#include <random>
#include <set>

namespace stepscope {
namespace {

constexpr size_t kClockAnswers = 32;                      // answers that the clocks are judged by
constexpr size_t kMostFrameMemory = kMaxFrameMemory / 4;  // of steps, where they are read

size_t memory_of(const RankStep& step) {
  size_t bytes = sizeof step + step.stalls.size() * sizeof(Stall) + 3 * step.segments.size() * sizeof(LedgerNs) +
                 step.collectives.size() * sizeof(CollectiveIssue) + step.device_ops.size() * sizeof(DeviceOp);
  if (step.gpu) bytes += step.gpu->stalls.size() * sizeof(Stall) + 3 * step.gpu->segments.size() * sizeof(LedgerNs);
  return bytes;
}

ProcessNow now_of(const RankSource& source, const RankLife& life) {
  const blackbox::ReadStats totals = source.totals();
  ProcessNow now;
  now.steps = source.steps();
  now.records = totals.read, now.lost = totals.lost, now.torn = totals.torn, now.damaged = totals.damaged;
  now.optimizer_ends = source.optimizer_ends();
  now.active_ns = source.active_ns();
  now.last_step_ns = life.last_step_ns;
  now.open_phase = life.open_phase;
  now.numbers_certain = source.numbers_certain();
  now.stopped_ns = source.stopped_ns();
  return now;
}

}  // namespace

NodeOutbox::NodeOutbox(Options options, Pipeline& pipeline) : options_(std::move(options)), pipeline_(pipeline) {
  if (options_.node == 0) options_.node = std::random_device{}() | uint64_t{std::random_device{}()} << 32 | 1;
  pipeline_.copy_steps(true);
  pipeline_.on_code([this](TailId id, const CodeSample& sample) {
    const auto known = processes_.find(id);
    if (known != processes_.end() && known->second.code.size() < kMostCode) known->second.code.push_back(sample);
  });
  pipeline_.on_away([this](TailId id, RankSource& source) {
    if (!active_ || !source.local() || !source.is_rank()) return;
    read(id, source);
    processes_.at(id).gone = true;
  });
}

NodeOutbox::~NodeOutbox() {
  pipeline_.copy_steps(false);
  pipeline_.on_away(nullptr);
  pipeline_.on_code(nullptr);
}

void NodeOutbox::set_standing(std::optional<JobStanding> standing) {
  if (standing.has_value() != standing_.has_value()) due_ns_ = std::min(due_ns_, made_ns_ + kSoonestNs);
  standing_ = std::move(standing);
}

NodeOutbox::Here NodeOutbox::ranks_here() const {
  std::set<int> here;
  int world = 0;
  for (const TailId id : pipeline_.tails()) {
    const RankTail* ring = pipeline_.ring(id);
    if (!ring || !ring->is_rank()) continue;
    here.insert(ring->identity().rank);
    world = std::max(world, ring->identity().world_size);
  }
  if (here.empty()) return Here::kNone;
  return world > static_cast<int>(here.size()) ? Here::kSome : Here::kAll;
}

// The ranks of this node appear one after the other: that some are missing may turn out to be wrong.
void NodeOutbox::stop() {
  active_ = false;
  processes_.clear(), kept_.clear(), lines_wanted_.clear();
  kept_bytes_ = 0, under_way_ = false;
}

void NodeOutbox::look(uint64_t now_ns) {
  if (closed_) return;
  const Here here = ranks_here();
  const bool missing = here == Here::kSome;
  pipeline_.copy_steps(here != Here::kAll || active_);
  if (active_ && !missing && aggregator_ == 0) stop();
  if (missing && !active_) active_ = true, due_ns_ = now_ns;
  for (const TailId id : pipeline_.tails()) {
    RankTail* ring = pipeline_.ring(id);
    if (!ring || !ring->is_rank()) continue;
    if (active_)
      read(id, *ring);
    else
      (void)ring->take_copies();
  }
  if (!active_) return;
  if (now_ns < due_ns_) return;
  due_ns_ = now_ns + kEveryNs;
  while (make_frame(now_ns, false)) {}
}

void NodeOutbox::close(uint64_t now_ns) {
  if (!active_ || closed_) return;
  due_ns_ = 0;
  look(now_ns);
  closed_ = true;
  make_frame(now_ns, true);
}

void NodeOutbox::read(TailId id, RankSource& source) {
  const auto [found, fresh] = processes_.try_emplace(id);
  Process& process = found->second;
  if (fresh) process.number = next_number_++;
  if (RankTail* ring = source.local()) {
    for (RankStep& step : ring->take_copies()) {
      sum_up_stalls(step);
      process.steps.push_back(std::move(step));
    }
  }
  process.identity = source.identity();
  process.life = source.life();
  process.ended_thread = source.ended_thread();
  const uint64_t unsent = process.now.unsent;
  process.now = now_of(source, process.life);
  process.now.unsent = unsent;
  for (const auto& [group, members] : source.groups()) {
    if (std::exchange(process.group_sizes[group], members.ranks.size() + 1) != members.ranks.size() + 1)
      process.groups[group] = members;
  }
  for (const auto& [communicator, size] : source.communicators())
    if (std::exchange(process.communicator_sizes[communicator], size + 1) != size + 1)
      process.communicators[communicator] = size;
  for (const auto& [key, text] : source.names()) {
    if (key.first != static_cast<uint16_t>(NameKind::kFact)) continue;
    if (std::exchange(process.fact_sizes[key], text.size() + 1) != text.size() + 1) process.facts[key] = text;
  }
}

// What is new of a process; false where nothing is. `room`: memory that steps may take.
bool NodeOutbox::tell(Process& process, ProcessNews& news, uint64_t now_ns, size_t& room) {
  news.number = process.number;
  news.now = process.now;
  bool any = !process.told || process.now != process.now_told;
  if (std::string words = words_of(process.identity); words != process.identity_told) {
    news.identity = process.identity;
    process.identity_told = std::move(words);
    any = true;
  }
  // What grows with every step is told now and then.
  RankLife rough = process.life;
  rough.sync_sites.clear();
  std::string words = words_of(rough), whole = words_of(process.life);
  const bool due = now_ns >= process.whole_life_ns + kWholeLifeNs && whole != process.whole_life_told;
  if (words != process.life_told || due) {
    news.life = process.life;
    news.ended_thread = process.ended_thread;
    process.life_told = std::move(words), process.whole_life_told = std::move(whole);
    process.whole_life_ns = now_ns;
    any = true;
  }
  news.groups = std::exchange(process.groups, {});
  news.communicators = std::exchange(process.communicators, {});
  news.facts = std::exchange(process.facts, {});
  news.code = std::exchange(process.code, {});
  size_t count = 0;
  for (; count < process.steps.size(); ++count) {
    const size_t bytes = memory_of(process.steps[count]);
    if (bytes > room) break;
    room -= bytes;
  }
  const auto end = process.steps.begin() + static_cast<std::ptrdiff_t>(count);
  news.steps.assign(std::make_move_iterator(process.steps.begin()), std::make_move_iterator(end));
  process.steps.erase(process.steps.begin(), end);
  process.told = true;
  process.now_told = process.now;
  return any || count > 0 || !news.code.empty() || !news.groups.empty() || !news.communicators.empty() ||
         !news.facts.empty();
}

// Returns whether something is left for another one.
bool NodeOutbox::make_frame(uint64_t now_ns, bool last) {
  NodeFrame frame;
  frame.run = options_.run, frame.node = options_.node, frame.hostname = options_.hostname;
  frame.sequence = ++sequence_;
  frame.oldest = kept_.empty() ? sequence_ : kept_.front().sequence;
  frame.sent_ns = static_cast<int64_t>(now_ns);
  frame.dropped_frames = totals_.dropped_frames;
  frame.last = last;
  frame.load = load_;
  frame.host = std::exchange(host_, std::nullopt);
  frame.standing = standing_;
  made_ns_ = now_ns;
  Kept kept{.sequence = sequence_};
  size_t room = kMostFrameMemory;
  bool more = false;
  for (auto& [id, process] : processes_) {
    if (frame.processes.size() == kMaxFrameProcesses) break;
    ProcessNews news;
    if (!tell(process, news, now_ns, room)) continue;
    more = more || !process.steps.empty();
    kept.steps[process.number] = news.steps.size();
    totals_.steps += news.steps.size();
    frame.processes.push_back(std::move(news));
  }
  std::erase_if(processes_, [](const auto& entry) { return entry.second.gone && entry.second.steps.empty(); });
  kept.bytes = encode(frame);
  ++totals_.frames;
  totals_.bytes += kept.bytes.size();
  kept_bytes_ += kept.bytes.size();
  kept_.push_back(std::move(kept));
  const size_t first = under_way_ ? 1 : 0;
  while (kept_bytes_ > options_.most_kept && kept_.size() > first + 1) forget(first);
  return more;
}

// What it told is told again as far as it still stands; its steps are lost to the aggregator.
void NodeOutbox::forget(size_t at) {
  const Kept& kept = kept_[at];
  for (const auto& [number, steps] : kept.steps) {
    totals_.dropped_steps += steps;
    for (auto& [id, process] : processes_)
      if (process.number == number) process.now.unsent += steps;
  }
  ++totals_.dropped_frames;
  kept_bytes_ -= kept.bytes.size();
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(at));
  tell_all_again();
}

void NodeOutbox::tell_all_again() {
  for (auto& [id, process] : processes_) {
    process.told = false;
    process.identity_told.clear(), process.life_told.clear();
    process.group_sizes.clear(), process.communicator_sizes.clear(), process.fact_sizes.clear();
  }
}

std::optional<std::string> NodeOutbox::next(uint64_t now_ns) {
  if (kept_.empty()) return std::nullopt;
  under_way_ = true;
  std::optional<int64_t> least;
  if (!offsets_ns_.empty()) least = *std::max_element(offsets_ns_.begin(), offsets_ns_.end());
  set_sent(kept_.front().bytes, static_cast<int64_t>(now_ns), least);
  return kept_.front().bytes;
}

void NodeOutbox::answered(std::string_view bytes, uint64_t now_ns) {
  const auto answer = decode_answer(bytes);
  if (kept_.empty()) return;
  if (!answer || answer->taken < kept_.front().sequence) return refused();
  under_way_ = false;
  kept_bytes_ -= kept_.front().bytes.size();
  kept_.pop_front();
  ++totals_.answered;
  const bool other = std::exchange(aggregator_, answer->aggregator) != answer->aggregator;
  if (other) offsets_ns_.clear();
  offsets_ns_.push_back(answer->now_ns - static_cast<int64_t>(now_ns));
  if (offsets_ns_.size() > kClockAnswers) offsets_ns_.pop_front();
  if (answer->tell_all) tell_all_again();
  lines_wanted_.clear();
  for (const auto& [id, process] : processes_) {
    if (std::ranges::find(answer->lines, process.number) != answer->lines.end()) lines_wanted_.insert(id);
    const auto asked = answer->stamps.find(process.number);
    if (asked == answer->stamps.end() || !pipeline_.has(id)) continue;
    if (RankTail* ring = pipeline_.ring(id)) ring->ask_stamps(asked->second);
  }
}

void NodeOutbox::refused() {
  if (kept_.empty()) return;
  under_way_ = false;
  forget(0);
}

}  // namespace stepscope
