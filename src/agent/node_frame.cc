#include "agent/node_frame.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "store/column_codec.h"
#include "store/segment.h"
#include "store/varint.h"

namespace stepscope {
namespace {

using store::ColumnCodec, store::put_varint, store::take_varint, store::zigzag, store::unzigzag;

constexpr std::string_view kMagic = "SSNF";
constexpr int64_t kUnitNs = 1000;
constexpr int64_t kLongestUnits = int64_t{1} << 52;

enum Column : size_t {
#define STEP_FIELD(kind, member, ...) kFact_##member,
#define STEP_ONLY(kind, member, ...) kFact_##member,
#define FETCH_FIELD(kind, member, ...) kFetch_##member,
#define MEMORY_FIELD(kind, member, ...) kMemory_##member,
#include "align/step_fields.def"
  kKnown,  // which of the facts that may be missing are there
  kLongestFetch,
  kDeviceAllocs,
  kStep,
  kEnd,
  kHasGpu,
  kGpuEnd,
  kHostBound,
  kOwn,
  kGpuOwn = kOwn + kCategoryCount,
  kLaunching = kGpuOwn + kCategoryCount,
  kStalls = kLaunching + kCategoryCount,  // how many, then of each
  kStallGroup,
  kStallSequence,
  kStallTime,
  kStallPhase,
  kStallPeer,
  kStallBits,
  kIssues,
  kIssueGroup,
  kIssueSequence,
  kIssueBytes,
  kIssueOp,
  kIssuePeer,
  kIssueP2p,
  kIssueSinceBackward,
  kIssueTime,
  kIssueDone,
  kOps,
  kOpGroup,
  kOpSequence,
  kOpBytes,
  kOpOp,
  kOpPeer,
  kOpBegin,
  kOpTime,
  kColumns
};

// Both ways have one description (tell…): what is written is what is read.
class FrameWriter {
 public:
  static constexpr bool kReads = false;
  bool ok() const { return true; }

  template <class T>
  void number(const T& value) {
    put_varint(text_, zigzag(static_cast<int64_t>(value)));
  }
  void text(const std::string& value) {
    const std::string_view part = std::string_view(value).substr(0, NodeFrame::kMaxText);
    put_varint(text_, part.size());
    text_ += part;
  }
  template <class List, class Visit>
  void list(List& items, size_t most, Visit visit) {
    size_t left = std::min(items.size(), most);
    put_varint(text_, left);
    for (auto& item : items) {
      if (left-- == 0) break;
      visit(item);
    }
  }
  void column(size_t c, int64_t& value) { columns_[c].push_back(value); }

  std::string finish() {
    ColumnCodec codec;
    std::string out(kMagic);
    out += static_cast<char>(NodeFrame::kVersion & 255);
    out += static_cast<char>(NodeFrame::kVersion >> 8);
    put_varint(out, text_.size());
    out += text_;
    for (const auto& values : columns_) {
      put_varint(out, values.size());
      if (values.empty()) continue;
      const std::string bytes = codec.encode(values, values.size());
      const bool nothing = std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
      put_varint(out, nothing ? 0 : bytes.size());
      if (!nothing) out += bytes;
    }
    return store::seal(std::move(out));
  }

 private:
  std::string text_;
  std::array<std::vector<int64_t>, kColumns> columns_;
};

class FrameReader {
 public:
  static constexpr bool kReads = true;

  Status open(std::string_view bytes) {
    bytes.remove_prefix(kMagic.size() + 2);
    const auto size = take_varint(bytes);
    if (!size || *size > bytes.size()) return fail("damaged frame: its head is cut short");
    text_ = bytes.substr(0, *size);
    bytes.remove_prefix(*size);
    ColumnCodec codec;
    size_t all = 0;
    for (auto& values : columns_) {
      const auto count = take_varint(bytes);
      if (!count || *count > store::kMaxColumnValues || (all += *count) > NodeFrame::kMaxValues)
        return fail("damaged frame: too many values");
      if (*count == 0) continue;
      const auto length = take_varint(bytes);
      if (!length || *length > bytes.size()) return fail("damaged frame: a column is cut short");
      if (*length == 0)
        values.assign(*count, 0);
      else if (Status status = codec.decode(bytes.substr(0, *length), *count, *count, values); !status)
        return status;
      bytes.remove_prefix(*length);
    }
    return bytes.empty() ? Status() : fail("damaged frame: bytes left over");
  }
  bool ok() const { return ok_; }
  bool all_read() const {
    for (size_t c = 0; c < kColumns; ++c)
      if (at_[c] != columns_[c].size()) return false;
    return text_.empty();
  }

  template <class T>
  void number(T& value) {
    const auto raw = take_varint(text_);
    if (!raw) ok_ = false;
    value = raw ? static_cast<T>(unzigzag(*raw)) : T{};
  }
  void text(std::string& value) {
    const auto size = take_varint(text_);
    if (!size || *size > text_.size() || *size > NodeFrame::kMaxText) {
      ok_ = false;
      return;
    }
    value = text_.substr(0, *size);
    text_.remove_prefix(*size);
  }
  // Each item takes a byte at least, so that the bytes bound the list.
  template <class List, class Visit>
  void list(List& items, size_t most, Visit visit) {
    const auto count = take_varint(text_);
    if (!count || *count > most || *count > text_.size()) {
      ok_ = false;
      return;
    }
    for (size_t i = 0; i < *count && ok_; ++i) {
      items.emplace_back();
      visit(items.back());
    }
  }
  void column(size_t c, int64_t& value) {
    if (at_[c] >= columns_[c].size())
      ok_ = false;
    else
      value = columns_[c][at_[c]++];
  }
  void refuse() { ok_ = false; }

 private:
  std::string_view text_;
  std::array<std::vector<int64_t>, kColumns> columns_;
  std::array<size_t, kColumns> at_{};
  bool ok_ = true;
};

template <class Io, class T>
void whole(Io& io, size_t c, T& value) {
  auto raw = static_cast<int64_t>(value);
  io.column(c, raw);
  if constexpr (Io::kReads) value = static_cast<T>(raw);
}

// In microseconds.
template <class Io>
void coarse(Io& io, size_t c, int64_t& ns) {
  int64_t units = (ns + (ns < 0 ? -kUnitNs : kUnitNs) / 2) / kUnitNs;
  io.column(c, units);
  if constexpr (Io::kReads) ns = std::clamp(units, -kLongestUnits, kLongestUnits) * kUnitNs;
}

template <class Io>
void phase(Io& io, size_t c, Category& category) {
  auto raw = static_cast<int64_t>(category);
  io.column(c, raw);
  if constexpr (Io::kReads)
    category =
        raw >= 0 && raw < static_cast<int64_t>(kCategoryCount) ? static_cast<Category>(raw) : Category::kUnattributed;
}

// Numbers that are whole in single precision become short when their bytes are turned round.
template <class Io>
void real(Io& io, size_t c, double& value) {
  auto raw = static_cast<int64_t>(__builtin_bswap64(std::bit_cast<uint64_t>(value)));
  io.column(c, raw);
  if constexpr (Io::kReads) value = std::bit_cast<double>(__builtin_bswap64(static_cast<uint64_t>(raw)));
}

template <class Io, class T>
void fact(Io& io, size_t c, T& value) {
  if constexpr (std::is_same_v<T, std::optional<double>>) {
    int64_t known = value ? 1 : 0;
    io.column(kKnown, known);
    double number = value.value_or(0);
    if (known) real(io, c, number);
    if constexpr (Io::kReads) value = known ? std::optional(number) : std::nullopt;
  } else if constexpr (std::is_same_v<T, double>) {
    real(io, c, value);
  } else {
    whole(io, c, value);
  }
}

template <class Io>
void tell_facts(Io& io, StepFacts& facts) {
#define STEP_FIELD(kind, member, ...) fact(io, kFact_##member, facts.member);
#define STEP_ONLY(kind, member, ...) fact(io, kFact_##member, facts.member);
#define FETCH_FIELD(kind, member, ...) fact(io, kFetch_##member, facts.fetch.member);
#include "align/step_fields.def"
  whole(io, kLongestFetch, facts.fetch.longest_ns);
  int64_t known = !facts.memory ? 0 : facts.memory->near_top ? 2 : 1;
  io.column(kKnown, known);
  if (known == 0) return;
  if constexpr (Io::kReads) facts.memory.emplace().near_top = known == 2;
#define MEMORY_FIELD(kind, member, ...) fact(io, kMemory_##member, facts.memory->member);
#include "align/step_fields.def"
  whole(io, kDeviceAllocs, facts.memory->device_allocs);
}

template <class Io, class T, class Visit>
void tell_list(Io& io, size_t c, std::vector<T>& items, Visit visit) {
  auto count = static_cast<int64_t>(std::min(items.size(), NodeFrame::kMaxOfStep));
  io.column(c, count);
  if constexpr (Io::kReads) {
    if (count < 0 || count > static_cast<int64_t>(NodeFrame::kMaxOfStep)) return io.refuse();
    for (int64_t i = 0; i < count && io.ok(); ++i) visit(items.emplace_back());
  } else {
    for (int64_t i = 0; i < count; ++i) visit(items[static_cast<size_t>(i)]);
  }
}

// Own time, then the stalls. Returns the wall time.
template <class Io, class Timeline>
int64_t tell_timeline(Io& io, size_t own, Timeline& line) {
  int64_t wall_ns = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    coarse(io, own + c, line.own[c]);
    wall_ns += line.own[c];
  }
  tell_list(io, kStalls, line.stalls, [&](Stall& stall) {
    whole(io, kStallGroup, stall.group);
    whole(io, kStallSequence, stall.sequence);
    coarse(io, kStallTime, stall.duration_ns);
    phase(io, kStallPhase, stall.phase);
    whole(io, kStallPeer, stall.sync_point.peer);
    int64_t bits = (stall.sync_point.sends ? 1 : 0) + (stall.sync_point.counted ? 2 : 0);
    io.column(kStallBits, bits);
    if constexpr (Io::kReads) stall.sync_point.sends = bits & 1, stall.sync_point.counted = bits & 2;
    wall_ns += stall.duration_ns;
  });
  if constexpr (Io::kReads) {
    line.segments.assign(line.stalls.size() + 1, {});
    line.segments[0] = line.own;
  }
  return wall_ns;
}

template <class Timeline>
void place_stalls(Timeline& line) {
  int64_t at_ns = line.begin_ns;
  for (const int64_t part : line.own) at_ns += part;
  for (Stall& stall : line.stalls) {
    stall.begin_ns = at_ns;
    at_ns += stall.duration_ns;
  }
}

template <class Io>
void tell_step(Io& io, RankStep& step) {
  tell_facts(io, step);
  whole(io, kStep, step.step);
  coarse(io, kEnd, step.end_ns);
  const int64_t wall_ns = tell_timeline(io, kOwn, step);
  if constexpr (Io::kReads) {
    step.begin_ns = step.end_ns - wall_ns;
    place_stalls(step);
  }
  tell_list(io, kIssues, step.collectives, [&](CollectiveIssue& issue) {
    whole(io, kIssueGroup, issue.group);
    whole(io, kIssueSequence, issue.sequence);
    whole(io, kIssueBytes, issue.bytes);
    whole(io, kIssueOp, issue.op);
    whole(io, kIssuePeer, issue.peer);
    whole(io, kIssueP2p, issue.p2p);
    int64_t since_us = issue.since_backward_ns < 0 ? -1 : issue.since_backward_ns / kUnitNs;
    io.column(kIssueSinceBackward, since_us);
    int64_t at_ns = issue.time_ns == 0 ? 0 : issue.time_ns - step.end_ns;
    coarse(io, kIssueTime, at_ns);
    int64_t took_ns = issue.done_ns == 0 ? 0 : std::max<int64_t>(kUnitNs, issue.done_ns - issue.time_ns);
    coarse(io, kIssueDone, took_ns);
    if constexpr (Io::kReads) {
      issue.since_backward_ns = since_us < 0 ? -1 : std::min(since_us, kLongestUnits) * kUnitNs;
      issue.time_ns = step.end_ns + at_ns;
      issue.done_ns = took_ns > 0 ? issue.time_ns + took_ns : 0;
    }
  });
  tell_list(io, kOps, step.device_ops, [&](DeviceOp& op) {
    whole(io, kOpGroup, op.group);
    whole(io, kOpSequence, op.sequence);
    whole(io, kOpBytes, op.bytes);
    whole(io, kOpOp, op.op);
    whole(io, kOpPeer, op.peer);
    int64_t at_ns = op.begin_ns - step.end_ns, took_ns = op.end_ns - op.begin_ns;
    coarse(io, kOpBegin, at_ns);
    coarse(io, kOpTime, took_ns);
    if constexpr (Io::kReads) op.begin_ns = step.end_ns + at_ns, op.end_ns = op.begin_ns + took_ns;
  });
  int64_t has_gpu = step.gpu ? 1 + (step.gpu->captured ? 1 : 0) : 0;
  io.column(kHasGpu, has_gpu);
  if (has_gpu == 0) return;
  if constexpr (Io::kReads) step.gpu.emplace().captured = has_gpu == 2;
  GpuStep& gpu = *step.gpu;
  int64_t at_ns = gpu.begin_ns - step.end_ns;
  coarse(io, kGpuEnd, at_ns);
  whole(io, kHostBound, gpu.host_bound);
  for (size_t c = 0; c < kCategoryCount; ++c) coarse(io, kLaunching + c, gpu.launching[c]);
  const int64_t gpu_wall_ns = tell_timeline(io, kGpuOwn, gpu);
  if constexpr (Io::kReads) {
    gpu.begin_ns = step.end_ns + at_ns;
    gpu.wall_ns = gpu_wall_ns;
    place_stalls(gpu);
  }
}

template <class Io>
void tell_identity(Io& io, blackbox::Identity& who) {
  for (uint8_t& byte : who.run_nonce) io.number(byte);
  io.number(who.attempt), io.number(who.rank), io.number(who.local_rank), io.number(who.world_size);
  io.number(who.node_rank), io.number(who.pid), io.number(who.pid_start_ticks), io.text(who.hostname);
  io.number(who.process_start_ns), io.number(who.anchor_monotonic_ns), io.number(who.anchor_realtime_ns);
  io.number(who.evidence), io.number(who.life), io.number(who.life_changed_ns);
}

template <class Io>
void tell_ledger(Io& io, LedgerNs& ledger) {
  for (int64_t& part : ledger) io.number(part);
}

template <class Io>
void tell_phase(Io& io, Category& category) {
  io.number(category);
  if constexpr (Io::kReads)
    if (index(category) >= kCategoryCount) category = Category::kUnattributed;
}

template <class Io>
void tell_life(Io& io, RankLife& l) {
  io.number(l.rank), io.number(l.local_rank), io.number(l.world_size), io.number(l.node_rank), io.number(l.attempt);
  io.number(l.pid), io.text(l.hostname), io.number(l.process_start_ns), io.number(l.first_step_ns);
  io.number(l.last_step_ns), io.number(l.end_ns), io.number(l.init_begin_ns), io.number(l.init_end_ns);
  io.number(l.ended), io.number(l.clean_exit), io.number(l.stopped), io.number(l.teardown_begun);
  io.number(l.exit_signal), io.number(l.exit_code), io.text(l.exception), io.number(l.exception_ns);
  io.number(l.steps), tell_phase(io, l.open_phase), io.text(l.open_detail);
  tell_ledger(io, l.startup), tell_ledger(io, l.teardown);
  io.number(l.dropped_batches), io.number(l.dropped_ns), io.number(l.records), io.number(l.lost), io.number(l.torn);
  io.number(l.device_memory_bytes), io.text(l.device), io.number(l.group_destroyed);
  io.list(l.out_of_memory, NodeFrame::kMaxList, [&](OutOfMemory& o) {
    io.number(o.requested_bytes), io.number(o.allocated_bytes), io.number(o.reserved_bytes);
    io.number(o.capacity_bytes), io.number(o.largest_free_block_bytes), io.number(o.device_free_bytes);
    io.number(o.inactive_split_bytes), io.number(o.grown_bytes), io.number(o.step), tell_phase(io, o.phase);
  });
  io.list(l.sync_sites, RankLife::kMaxSyncSites,
          [&](SyncSite& s) { io.text(s.site), io.number(s.count), io.number(s.total_ns); });
  io.list(l.startup_meetings, RankLife::kMaxStartupMeetings, [&](StartupMeeting& m) {
    io.number(m.group), io.number(m.sequence), io.number(m.waited), io.number(m.begin_ns), io.number(m.end_ns);
  });
  io.list(l.unavailable, NodeFrame::kMaxList, [&](std::string& text) { io.text(text); });
  io.list(l.training_loaders, NodeFrame::kMaxList, [&](uint64_t& id) { io.number(id); });
  io.list(l.configuration, NodeFrame::kMaxList, [&](ConfigFact& f) {
    io.text(f.subject), io.number(f.id);
    std::vector<std::pair<std::string, std::string>> values(f.values.begin(), f.values.end());
    io.list(values, NodeFrame::kMaxList, [&](auto& entry) { io.text(entry.first), io.text(entry.second); });
    if constexpr (Io::kReads) f.values = {values.begin(), values.end()};
  });
}

template <class Io>
void tell_rank(Io& io, RankNews& rank) {
  io.number(rank.process), io.number(rank.active_ns), io.number(rank.optimizer_ends);
  io.number(rank.totals.read), io.number(rank.totals.lost), io.number(rank.totals.torn);
  io.number(rank.totals.damaged), io.number(rank.ended), io.number(rank.numbers_certain);
  bool named = rank.identity.has_value(), alive = rank.life.has_value();
  io.number(named), io.number(alive);
  if constexpr (Io::kReads) {
    if (named) rank.identity.emplace();
    if (alive) rank.life.emplace();
  }
  if (named) tell_identity(io, *rank.identity);
  if (alive) {
    tell_life(io, *rank.life);
    io.text(rank.ended_thread);
  }
  io.list(rank.groups, NodeFrame::kMaxList, [&](auto& group) {
    io.number(group.first), io.text(group.second.description);
    io.list(group.second.ranks, size_t{1} << 17, [&](int& member) { io.number(member); });
  });
  io.list(rank.communicators, NodeFrame::kMaxList, [&](auto& c) { io.number(c.first), io.number(c.second); });
  io.list(rank.facts, NodeFrame::kMaxList, [&](std::string& text) { io.text(text); });
  io.list(rank.steps, NodeFrame::kMaxSteps, [&](RankStep& step) {
    io.number(step.step);  // a byte for each, so that the bytes bound the list
    tell_step(io, step);
  });
}

template <class Io>
void tell_frame(Io& io, NodeFrame& frame) {
  io.text(frame.nonce), io.text(frame.hostname), io.number(frame.sequence), io.number(frame.now_ns);
  io.list(frame.ranks, NodeFrame::kMaxRanks, [&](RankNews& rank) { tell_rank(io, rank); });
}

}  // namespace

std::string encode_frame(const NodeFrame& frame) {
  FrameWriter writer;
  tell_frame(writer, const_cast<NodeFrame&>(frame));  // a writer changes nothing
  return writer.finish();
}

std::optional<uint16_t> frame_version(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + 2 || !bytes.starts_with(kMagic)) return std::nullopt;
  return static_cast<uint16_t>(static_cast<uint8_t>(bytes[4]) | static_cast<uint8_t>(bytes[5]) << 8);
}

Result<NodeFrame> decode_frame(std::string_view bytes) {
  const auto version = frame_version(bytes);
  if (!version || bytes.size() > NodeFrame::kMaxBytes) return fail("no frame of a node");
  if (*version != NodeFrame::kVersion)
    return fail("the node speaks version " + std::to_string(*version) + ", this one " +
                std::to_string(NodeFrame::kVersion) + ": install the same stepscope on all nodes");
  const auto body = store::unseal(bytes);
  if (!body) return std::unexpected(body.error());
  if (body->size() < kMagic.size() + 2) return fail("damaged frame: its head is cut short");
  FrameReader reader;
  if (Status status = reader.open(*body); !status) return std::unexpected(status.error());
  NodeFrame frame;
  tell_frame(reader, frame);
  if (!reader.ok() || !reader.all_read()) return fail("damaged frame: its parts do not fit");
  return frame;
}

}  // namespace stepscope
