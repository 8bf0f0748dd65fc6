#include "agent/node_frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "agent/sight_wire.h"
#include "agent/step_wire.h"
#include "agent/wire_words.h"
#include "store/pack.h"

namespace stepscope {
namespace {

constexpr char kMagic[4] = {'S', 'S', 'N', 'F'}, kAnswerMagic[4] = {'S', 'S', 'N', 'A'};
constexpr size_t kSentAt = sizeof kMagic + 2 + 1 + 4, kHeadBytes = kSentAt + 8 + 8, kCheckBytes = 4;
constexpr int64_t kNotKnown = INT64_MIN;
constexpr size_t kMostText = 4096, kMostName = 256, kMostItems = 4096, kMostRanks = 1u << 20;
constexpr uint32_t kLeastUnitNs = 8, kMostUnitNs = 131072;
enum Form : uint8_t { kPlain, kPacked };

// ---- How each struct lies in the body: read and written by one function.

template <class A>
void ledger(A& wire, LedgerNs& ns) {
  uint32_t mask = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) mask |= uint32_t{ns[c] != 0} << c;
  wire.num(mask);
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (mask >> c & 1)
      wire.num(ns[c]);
    else if constexpr (!A::kWrites)
      ns[c] = 0;
  }
}

template <class A>
void identity(A& wire, blackbox::Identity& who) {
  wire.raw(who.run_nonce, sizeof who.run_nonce);
  for (int32_t* number : {&who.attempt, &who.rank, &who.local_rank, &who.world_size, &who.node_rank, &who.pid})
    wire.num(*number);
  for (uint64_t* number : {&who.pid_start_ticks, &who.process_start_ns, &who.anchor_monotonic_ns,
                           &who.anchor_realtime_ns, &who.evidence, &who.life, &who.life_changed_ns})
    wire.num(*number);
  wire.text(who.hostname, kMostName);
}
static_assert(sizeof(blackbox::Identity) == 16 + 6 * 4 + 7 * 8 + sizeof(std::string), "a new word of a process?");

// What ProcessNow and Identity tell is left out: steps, records, ranks, names.
template <class A>
void life(A& wire, RankLife& l) {
  for (int64_t* at :
       {&l.first_step_ns, &l.end_ns, &l.init_begin_ns, &l.init_end_ns, &l.exception_ns, &l.leaving_ns, &l.dropped_ns})
    wire.num(*at);
  for (bool* bit : {&l.ended, &l.clean_exit, &l.stopped, &l.teardown_begun, &l.group_destroyed}) wire.flag(*bit);
  wire.num(l.exit_signal);
  wire.num(l.exit_code);
  wire.word(l.oom_kill, 4);
  wire.text(l.exception, kMostText);
  wire.text(l.exception_frames, kMostText);
  wire.text(l.open_detail, kMostText);
  ledger(wire, l.startup);
  ledger(wire, l.teardown);
  wire.num(l.dropped_batches);
  wire.num(l.device_memory_bytes);
  wire.list(l.out_of_memory, kMostItems, [&](OutOfMemory& o) {
    for (uint64_t* bytes :
         {&o.requested_bytes, &o.allocated_bytes, &o.reserved_bytes, &o.capacity_bytes, &o.largest_free_block_bytes,
          &o.device_free_bytes, &o.inactive_split_bytes, &o.grown_bytes, &o.step})
      wire.num(*bytes);
    wire.word(o.phase, kCategoryCount);
  });
  wire.list(l.sync_sites, RankLife::kMaxSyncSites, [&](SyncSite& site) {
    wire.text(site.site, kMostText);
    wire.num(site.count);
    wire.num(site.total_ns);
  });
  wire.list(l.startup_meetings, RankLife::kMaxStartupMeetings, [&](StartupMeeting& meeting) {
    wire.num(meeting.group);
    wire.num(meeting.sequence);
    wire.flag(meeting.waited);
    wire.num(meeting.begin_ns);
    wire.num(meeting.end_ns);
  });
  wire.list(l.unavailable, kMostItems, [&](std::string& text) { wire.text(text, kMostText); });
  wire.list(l.configuration, kMostItems, [&](ConfigFact& fact) {
    wire.text(fact.subject, kMostName);
    wire.num(fact.id);
    table(wire, fact.values, kMostItems, [&](std::string& key, std::string& value) {
      wire.text(key, kMostName);
      wire.text(value, kMostText);
    });
  });
  wire.list(l.training_loaders, kMostItems, [&](uint64_t& loader) { wire.num(loader); });
  wire.text(l.device, kMostName);
}

// What is new in a life must be told, too.
static_assert(sizeof(RankLife) == 784, "a new word of a life?");

template <class A>
void now(A& wire, ProcessNow& n) {
  for (uint64_t* count : {&n.steps, &n.records, &n.lost, &n.torn, &n.damaged, &n.optimizer_ends, &n.unsent})
    wire.num(*count);
  wire.num(n.stopped_ns);
  wire.num(n.active_ns);
  wire.num(n.last_step_ns);
  wire.word(n.open_phase, kCategoryCount);
  wire.flag(n.numbers_certain);
}

template <class A>
void steps(A& wire, std::vector<RankStep>& all, size_t& left) {
  if constexpr (A::kWrites) {
    const size_t count = std::min(all.size(), left);
    wire.num(count);
    if (count == 0) return;
    int64_t longest_ns = 0;
    for (const RankStep& step : all) longest_ns = std::max(longest_ns, step.wall_ns());
    const uint32_t unit_ns = StepWire::time_unit_ns(std::min(all.front().wall_ns(), longest_ns));
    wire.num(unit_ns);
    StepWire coder(unit_ns);
    for (size_t i = 0; i < count; ++i) coder.put(wire, all[i]);
    left -= count;
  } else {
    const size_t count = wire.count(left, sizeof(RankStep));
    all.clear();
    if (count == 0) return;
    uint32_t unit_ns = 0;
    wire.num(unit_ns);
    if (unit_ns < kLeastUnitNs || unit_ns > kMostUnitNs || (unit_ns & (unit_ns - 1)) != 0) return wire.fail();
    StepWire coder(unit_ns);
    for (size_t i = 0; i < count && wire.ok(); ++i) coder.take(wire, all.emplace_back());
    left -= count;
  }
}

template <class A>
void process(A& wire, ProcessNews& news, size_t& steps_left) {
  wire.num(news.number);
  now(wire, news.now);
  wire.maybe(news.identity, [&](blackbox::Identity& who) { identity(wire, who); });
  wire.maybe(news.life, [&](RankLife& l) {
    life(wire, l);
    wire.text(news.ended_thread, kMostText);
  });
  table(wire, news.groups, kMostItems, [&](uint64_t& id, ProcessGroup& group) {
    wire.num(id);
    wire.text(group.description, kMostText);
    int32_t before = 0;  // mostly one after the other
    wire.list(group.ranks, kMostRanks, [&](int& rank) {
      auto ahead = static_cast<int32_t>(static_cast<uint32_t>(rank) - static_cast<uint32_t>(before));
      wire.num(ahead);
      if constexpr (!A::kWrites)
        rank = static_cast<int32_t>(static_cast<uint32_t>(before) + static_cast<uint32_t>(ahead));
      before = rank;
    });
  });
  table(wire, news.communicators, kMostItems, [&](uint64_t& id, size_t& size) {
    wire.num(id);
    wire.num(size);
  });
  table(wire, news.facts, kMostItems, [&](std::pair<uint16_t, uint64_t>& key, std::string& text) {
    wire.num(key.first);
    wire.num(key.second);
    wire.text(text, kMostText);
  });
  wire.list(news.code, kMostItems, [&](CodeSample& sample) { sight_wire::code(wire, sample); });
  steps(wire, news.steps, steps_left);
}

template <class A>
void frame(A& wire, NodeFrame& f) {
  wire.text(f.run, kMostName);
  wire.num(f.node);
  wire.num(f.sequence);
  wire.num(f.oldest);
  wire.text(f.hostname, kMostName);
  wire.num(f.dropped_frames);
  wire.flag(f.last);
  wire.maybe(f.load, [&](HostLoad& load) {
    for (double* number : {&load.cores, &load.rank_cores, &load.worker_cores, &load.others_cores, &load.run_delay})
      wire.real(*number);
  });
  wire.list(f.notes, kMostItems, [&](std::string& note) { wire.text(note, kMostText); });
  wire.maybe(f.host, [&](HostSight& sight) { sight_wire::host(wire, sight); });
  wire.maybe(f.standing, [&](JobStanding& job) { sight_wire::standing(wire, job); });
  size_t left = kMaxFrameSteps;
  wire.list(f.processes, kMaxFrameProcesses, [&](ProcessNews& news) { process(wire, news, left); });
}

template <class A>
void answer(A& wire, NodeAnswer& a) {
  wire.num(a.aggregator);
  wire.num(a.taken);
  wire.flag(a.tell_all);
  wire.num(a.now_ns);
  table(wire, a.stamps, kMaxFrameProcesses, [&](uint64_t& number, uint64_t& until) {
    wire.num(number);
    wire.num(until);
  });
  wire.list(a.lines, kMaxFrameProcesses, [&](uint64_t& number) { wire.num(number); });
}

// ---- The envelope.

void put_fixed(std::string& out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}
uint64_t fixed(std::string_view bytes, size_t at, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

void put_sent(std::string& bytes, int64_t sent_ns, std::optional<int64_t> least_ns) {
  std::string words;
  put_fixed(words, static_cast<uint64_t>(sent_ns), 8);
  put_fixed(words, static_cast<uint64_t>(least_ns.value_or(kNotKnown)), 8);
  bytes.replace(kSentAt, words.size(), words);
}

std::string wrap(const char (&magic)[4], const std::string& body, int64_t sent_ns = 0,
                 std::optional<int64_t> least_ns = std::nullopt) {
  const std::optional<std::string> packed = store::pack(body);
  std::string out(magic, sizeof magic);
  put_fixed(out, kNodeFrameVersion, 2);
  put_fixed(out, packed ? kPacked : kPlain, 1);
  put_fixed(out, body.size(), 4);
  out.append(kHeadBytes - kSentAt, '\0');
  put_sent(out, sent_ns, least_ns);
  out.append(packed ? *packed : body);
  put_fixed(out, XXH32(out.data(), out.size(), 0), kCheckBytes);
  return out;
}

Result<std::string> unwrap(const char (&magic)[4], std::string_view bytes) {
  const std::string what = magic[3] == kMagic[3] ? "node frame: " : "answer of an aggregator: ";
  if (bytes.size() > kMaxFrameBytes) return fail(what + "too large");
  if (bytes.size() < kHeadBytes + kCheckBytes || bytes.substr(0, sizeof magic) != std::string_view(magic, sizeof magic))
    return fail(what + "these bytes are none");
  if (const uint64_t version = fixed(bytes, sizeof magic, 2); version != kNodeFrameVersion)
    return fail(what + "of version " + std::to_string(version) + ", here is " + std::to_string(kNodeFrameVersion) +
                ": install the same stepscope on all nodes");
  const size_t end = bytes.size() - kCheckBytes;
  if (fixed(bytes, end, kCheckBytes) != XXH32(bytes.data(), end, 0))
    return fail(what + "damaged, its check word does not fit");
  const auto form = static_cast<Form>(fixed(bytes, sizeof magic + 2, 1));
  const size_t length = fixed(bytes, sizeof magic + 3, 4);
  const std::string_view body = bytes.substr(kHeadBytes, end - kHeadBytes);
  if (length > kMaxFrameBody) return fail(what + "too large when unpacked");
  if (form == kPlain && length == body.size()) return std::string(body);
  if (form != kPacked) return fail(what + "damaged, its length does not fit");
  auto out = store::unpack(body, length);
  if (!out) return fail(what + "damaged, it cannot be unpacked");
  return std::move(*out);
}

}  // namespace

std::string encode(const NodeFrame& told) {
  WireOut out;
  frame(out, const_cast<NodeFrame&>(told));
  return wrap(kMagic, out.bytes(), told.sent_ns, told.least_offset_ns);
}

Result<NodeFrame> decode_frame(std::string_view bytes) {
  const auto body = unwrap(kMagic, bytes);
  if (!body) return std::unexpected(body.error());
  WireIn in(*body, kMaxFrameMemory);
  NodeFrame told;
  frame(in, told);
  if (!in.ok() || !in.at_end()) return fail("node frame: damaged, what it tells does not fit");
  told.sent_ns = static_cast<int64_t>(fixed(bytes, kSentAt, 8));
  const auto least_ns = static_cast<int64_t>(fixed(bytes, kSentAt + 8, 8));
  if (least_ns != kNotKnown) told.least_offset_ns = least_ns;
  return told;
}

void set_sent(std::string& bytes, int64_t sent_ns, std::optional<int64_t> least_offset_ns) {
  if (bytes.size() < kHeadBytes + kCheckBytes) return;
  put_sent(bytes, sent_ns, least_offset_ns);
  bytes.resize(bytes.size() - kCheckBytes);
  put_fixed(bytes, XXH32(bytes.data(), bytes.size(), 0), kCheckBytes);
}

std::string words_of(const blackbox::Identity& who) {
  WireOut out;
  identity(out, const_cast<blackbox::Identity&>(who));
  return out.bytes();
}

std::string words_of(const RankLife& told) {
  WireOut out;
  life(out, const_cast<RankLife&>(told));
  return out.bytes();
}

std::optional<uint16_t> frame_version(std::string_view bytes) {
  if (bytes.size() < kHeadBytes || bytes.substr(0, sizeof kMagic) != std::string_view(kMagic, sizeof kMagic))
    return std::nullopt;
  return static_cast<uint16_t>(fixed(bytes, sizeof kMagic, 2));
}

std::string encode(const NodeAnswer& told) {
  WireOut out;
  answer(out, const_cast<NodeAnswer&>(told));
  return wrap(kAnswerMagic, out.bytes());
}

Result<NodeAnswer> decode_answer(std::string_view bytes) {
  const auto body = unwrap(kAnswerMagic, bytes);
  if (!body) return std::unexpected(body.error());
  WireIn in(*body, kMaxFrameMemory);
  NodeAnswer told;
  answer(in, told);
  if (!in.ok() || !in.at_end()) return fail("answer of an aggregator: damaged, what it tells does not fit");
  return told;
}

void sum_up_stalls(RankStep& step) {
  const auto sum_up = [](std::vector<Stall>& stalls, std::vector<LedgerNs>& segments) {
    if (stalls.size() <= kMostSingleStalls || segments.size() != stalls.size() + 1) return;
    const auto same = [](const Stall& a, const Stall& b) {
      return a.group == b.group && a.phase == b.phase && a.sync_point.peer == b.sync_point.peer &&
             a.sync_point.sends == b.sync_point.sends && a.sync_point.counted == b.sync_point.counted;
    };
    // Each stands where the last of its kind stood.
    std::vector<Stall> kept;
    std::vector<int64_t> summed;
    for (size_t i = stalls.size(); i-- > 0;) {
      const auto known = std::find_if(kept.begin(), kept.end(), [&](const Stall& s) { return same(s, stalls[i]); });
      if (known == kept.end())
        kept.push_back(stalls[i]);
      else
        known->duration_ns += stalls[i].duration_ns;
    }
    std::reverse(kept.begin(), kept.end());
    std::vector<LedgerNs> own(kept.size() + 1, LedgerNs{});
    size_t place = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      for (size_t c = 0; c < kCategoryCount; ++c) own[place][c] += segments[i][c];
      if (i < stalls.size() && place < kept.size() && same(kept[place], stalls[i]) &&
          kept[place].sequence == stalls[i].sequence && kept[place].begin_ns == stalls[i].begin_ns)
        ++place;
    }
    stalls = std::move(kept);
    segments = std::move(own);
  };
  sum_up(step.stalls, step.segments);
  if (step.gpu) sum_up(step.gpu->stalls, step.gpu->segments);
  // Of gradients' collectives the first name the region that is late; what comes behind them is counted alone.
  size_t buckets = 0;
  int64_t last_ns = -1;
  for (CollectiveIssue& issue : step.collectives) {
    if (issue.since_backward_ns < 0) continue;
    if (++buckets > kMostBuckets) issue.since_backward_ns = last_ns;
    last_ns = issue.since_backward_ns;
  }
}

}  // namespace stepscope
