// The hot path of the plugin: runs inside NCCL's enqueue and in its proxy thread. No allocation, no lock.
#include <unistd.h>

#include "base/clock.h"
#include "recorder/gpu_state.h"
#include "recorder/nccl_names.h"
#include "recorder/nccl_plugin.h"

namespace stepscope::recorder::nccl {

extern std::atomic<bool> g_forked;

namespace {

// An all-to-all over a thousand ranks is thousands of operations in one launch: the first ones stand for it.
constexpr uint32_t kMaxOpsPerLaunch = 64;
constexpr uint64_t kRateBlock = 1024;  // launches between two looks at the clock
constexpr uint64_t kMaxLaunchesPerS = 20'000;

bool is_op(uint64_t type) { return type == kColl || type == kP2p || type == kCeColl; }

uint64_t key_of(uint64_t sequence, int peer, CollectiveOp op) {
  return (sequence & ((1ull << 40) - 1)) | (static_cast<uint64_t>(peer) & 0xffff) << 40 |
         static_cast<uint64_t>(op) << 56;
}

}  // namespace

void Plugin::start(void* context, void** handle, const View& view, const void* descriptor) noexcept {
  *handle = nullptr;
  Comm* comm = comms_.find(reinterpret_cast<Handle>(context));
  if (!comm || g_forked.load(std::memory_order_relaxed)) [[unlikely]] {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Handle made = 0;
  if (mode_.load(std::memory_order_relaxed) != static_cast<int>(Mode::kOff)) {
    const uint64_t now = monotonic_ns();
    switch (view.type) {
      case kCollApi:
      case kP2pApi: made = api_call(*comm, view, now); break;
      case kKernelLaunch: made = launch(*comm, view, now); break;
      case kGroup: made = events_.create(kGroup, comm->number, now); break;
      case kColl:
      case kP2p: made = op(*comm, view, now); break;
      case kCeColl: made = copy_engine_op(*comm, view, now); break;
      case kKernelCh: made = channel(*comm, view, now); break;
      default: break;
    }
  }
  if (chain_.wants(view.type)) made = chain_start(*comm, made, view, descriptor);
  *handle = reinterpret_cast<void*>(made);
}

Handle Plugin::chain_start(Comm& comm, Handle handle, const View& view, const void* descriptor) noexcept {
  const bool own = handle != 0;
  if (!own) handle = events_.create(view.type, comm.number, 0);
  const auto chained = [&](Handle parent) -> void* {
    Event* event = events_.find(parent);
    return event ? static_cast<void*>(event->chain) : nullptr;
  };
  void* parent = chained(view.parent);
  // A proxy may work for another process, whose handles mean nothing here; the plugin tells by the pid.
  if (view.type == kProxyOp && view.pid != ::getpid()) parent = reinterpret_cast<void*>(view.parent);
  void* theirs = chain_.start(comm.chain, descriptor, parent, chained(view.parent_group));
  if (Event* event = events_.find(handle)) event->chain = theirs;
  return own || theirs ? handle : 0;
}

void Plugin::stop(void* handle) noexcept {
  Event* event = events_.find(reinterpret_cast<Handle>(handle));
  if (!event || !event->open.swap(false) || g_forked.load(std::memory_order_relaxed)) return;
  void* theirs = event->chain;
  if (Comm* comm = comms_.find(event->comm)) {
    switch (event->type) {
      case kKernelLaunch: launch_end(*comm); break;
      case kGroup: close_launch(*comm); break;
      case kCeColl:
        launch_end(*comm);
        close_launch(*comm);
        break;
      case kKernelCh: channel_end(*comm, *event); break;
      default: break;
    }
  }
  if (theirs) chain_.stop(theirs);
}

void Plugin::record_state(void* handle, int state, StateArgs* args) noexcept {
  Event* event = events_.find(reinterpret_cast<Handle>(handle));
  if (!event || g_forked.load(std::memory_order_relaxed)) return;
  void* theirs = event->chain;
  if (state == kStateKernelChStop && event->type == kKernelCh) {
    const uint64_t now = monotonic_ns();
    Comm* comm = comms_.find(event->comm);
    if (comm && comm->api >= 4 && args) {
      kernel_clock_.seen(args->gpu_timer, now);
      event->last_ns = args->gpu_timer;
    } else {
      event->last_ns = now;
    }
  }
  if (theirs) chain_.record_state(theirs, state, args);
}

Handle Plugin::api_call(Comm& comm, const View& view, uint64_t now) noexcept {
  const Handle handle = events_.create(view.type, comm.number, now);
  if (Event* event = events_.find(handle)) event->captured = view.captured;
  return handle;
}

bool Plugin::sampled(uint64_t launch_number) const noexcept {
  return (launch_number & (stride_.load(std::memory_order_relaxed) - 1)) == 0;
}

// Above the rate at which events would be felt, only every 2nd, 4th, … launch of a communicator carries them. The
// launches of a communicator are the same on all ranks, and the samples of a coarse stride lie among those of a fine
// one.
void Plugin::watch_rate() noexcept {
  const uint64_t count = launches_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (count % kRateBlock != 0) return;
  const uint64_t now = monotonic_ns();
  const uint64_t since = rate_since_ns_.exchange(now, std::memory_order_relaxed);
  if (since == 0 || now <= since) return;
  const uint64_t per_s = kRateBlock * 1'000'000'000ull / (now - since);
  uint64_t stride = 1;
  while (per_s / stride > kMaxLaunchesPerS && stride < 1024) stride *= 2;
  stride_.store(stride, std::memory_order_relaxed);
}

Handle Plugin::launch(Comm& comm, const View& view, uint64_t now) noexcept {
  close_launch(comm);
  watch_rate();
  const bool captured = gpu_running() && gpu_capturing(view.stream);
  const uint64_t number = comm.launches.add(1);
  comm.launch_ns = now;
  comm.stream = view.stream;
  comm.launch_captured = captured;
  comm.launch_ops = 0;
  comm.first_op = 0;
  comm.last_op = 0;
  comm.launch_open = true;
  const Handle handle = events_.create(view.type, comm.number, now);
  const Mode mode = static_cast<Mode>(mode_.load(std::memory_order_relaxed));
  comm.wants_end = !captured && comm.events_allowed && timed_.load(std::memory_order_relaxed) && sampled(number) &&
                   mode != Mode::kHost && gpu_context_is_ours();
  // Last of all, so that our own work is not inside.
  if (comm.wants_end && mode == Mode::kEvents) {
    comm.begin_slot = gpu_event(view.stream);
    comm.wants_end = comm.begin_slot != kNoSlot;
  }
  return handle;
}

void Plugin::launch_end(Comm& comm) noexcept {
  if (!comm.launch_open || !comm.wants_end.swap(false)) return;
  comm.end_slot = gpu_event(comm.stream);
}

void Plugin::close_launch(Comm& comm) noexcept {
  if (!comm.launch_open.swap(false)) return;
  const uint32_t begin = comm.begin_slot.swap(kNoSlot), end = comm.end_slot.swap(kNoSlot);
  const Handle first = comm.first_op.swap(0);
  comm.last_op = 0;
  if (first != 0 && end != kNoSlot) return gpu_submit_span(begin, end, comm.stream, first);
  gpu_return_event(begin);
  gpu_return_event(end);
}

Handle Plugin::op(Comm& comm, const View& view, uint64_t now) noexcept {
  const bool p2p = view.type == kP2p;
  const CollectiveOp what = op_of(view.func);
  if (view.comm_hash != 0 && !comm.announced) {  // version 3 tells who it is only here
    comm.hash = view.comm_hash;
    if (comm.rank < 0) comm.rank = view.rank;
    announce(comm, nullptr);
  }
  ops_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t sequence =
      p2p ? comms_.next_peer_sequence(comm, view.peer, what == CollectiveOp::kSend) : view.sequence;
  const bool in_launch = comm.launch_open;
  if (in_launch && comm.launch_ops >= kMaxOpsPerLaunch) return 0;

  const Event* call = events_.find(view.parent);
  const bool called = call && (call->type == kCollApi || call->type == kP2pApi) && call->comm == comm.number;
  // A graph that is replayed reports its ops without a launch of their own (version 5 and newer).
  const bool captured = in_launch
                            ? comm.launch_captured || (called && call->captured)
                            : comm.api >= 5 && mode_.load(std::memory_order_relaxed) != static_cast<int>(Mode::kHost);
  uint16_t flags = p2p ? kNcclP2p : 0;
  if (captured) flags |= kNcclCaptured;
  if (in_launch && comm.launch_ops > 0) flags |= kNcclGrouped;
  const uint64_t key = key_of(sequence, p2p ? view.peer : 0, what);
  const uint64_t launch_ns = in_launch ? static_cast<uint64_t>(comm.launch_ns) : now;
  write_op(comm, view, key, called && !captured ? static_cast<uint64_t>(call->time_ns) : launch_ns, launch_ns, flags);

  const Handle handle = events_.create(view.type, comm.number, now);
  if (Event* event = events_.find(handle)) {
    event->key = key;
    event->hash = comm.hash.get();
    event->captured = captured;
    event->channels = view.channels;
  }
  if (in_launch) link_op(comm, handle);
  return handle;
}

void Plugin::write_op(Comm& comm, const View& view, uint64_t key, uint64_t call_ns, uint64_t launch_ns,
                      uint16_t flags) noexcept {
  const uint64_t hash = comm.hash, op = key >> 56, sequence = key & ((1ull << 40) - 1), peer = key >> 40 & 0xffff;
  gpu_write(call_ns, Kind::kNcclOp, Edge::kMark, hash, sequence, view.count * datatype_bytes(view.datatype),
            op | peer << 16, flags);
  const uint64_t how = static_cast<uint64_t>(algo_of(view.algo)) | static_cast<uint64_t>(proto_of(view.proto)) << 8 |
                       static_cast<uint64_t>(view.channels) << 16;
  gpu_write(launch_ns, Kind::kNcclEnqueue, Edge::kMark, hash, key, how, reinterpret_cast<uint64_t>(comm.stream.get()),
            flags);
}

void Plugin::link_op(Comm& comm, Handle handle) noexcept {
  comm.launch_ops = comm.launch_ops + 1;
  if (comm.first_op == 0) comm.first_op = handle;
  if (Event* last = events_.find(comm.last_op)) last->next = handle;
  comm.last_op = handle;
}

// Copy engines: no kernel launch; the op's own start and stop enclose the work that it puts on the stream.
Handle Plugin::copy_engine_op(Comm& comm, const View& view, uint64_t now) noexcept {
  ops_.fetch_add(1, std::memory_order_relaxed);
  launch(comm, view, now);
  const CollectiveOp what = op_of(view.func);
  const uint64_t key = key_of(view.sequence, 0, what);
  const uint16_t flags = kNcclCopyEngine | (comm.launch_captured ? kNcclCaptured : 0);
  write_op(comm, view, key, now, now, flags);
  const Handle handle = events_.create(kCeColl, comm.number, now);
  if (Event* event = events_.find(handle)) {
    event->key = key;
    event->hash = comm.hash.get();
  }
  link_op(comm, handle);
  return handle;
}

Handle Plugin::channel(Comm& comm, const View& view, uint64_t now) noexcept {
  const Event* parent = events_.find(view.parent);
  if (!parent || !is_op(parent->type)) return 0;
  const Handle handle = events_.create(kKernelCh, comm.number, now);
  if (Event* event = events_.find(handle)) {
    event->parent = view.parent;
    event->first_ns = comm.api >= 4 ? view.gpu_timer : now;
  }
  return handle;
}

void Plugin::channel_end(Comm& comm, Event& event) noexcept {
  Event* op = events_.find(event.parent);
  const uint64_t first = event.first_ns, last = event.last_ns;
  if (!op || first == 0 || last == 0 || last < first) return;  // a stop without its end state: NCCL lost it
  op->first_ns.least(first);
  op->last_ns.most(last);
  if (op->channels_done.add(1) + 1 != op->channels) return;
  const bool clocked = comm.api >= 4;
  const uint64_t begin = clocked ? kernel_clock_.to_host(op->first_ns) : static_cast<uint64_t>(op->first_ns);
  const uint64_t end = clocked ? kernel_clock_.to_host(op->last_ns) : static_cast<uint64_t>(op->last_ns);
  gpu_write(end, Kind::kNcclTime, Edge::kMark, comm.hash, op->key, begin, end,
            static_cast<uint16_t>(clocked ? NcclTimeSource::kKernelClock : NcclTimeSource::kKernelPolled));
}

void Plugin::span_resolved(Handle cookie, uint64_t begin_ns, uint64_t end_ns) noexcept {
  const auto source = begin_ns ? NcclTimeSource::kOwnEvents : NcclTimeSource::kOwnEndEvent;
  for (uint32_t i = 0; i < kMaxOpsPerLaunch && cookie != 0; ++i) {
    const Event* op = events_.find(cookie);
    if (!op || !is_op(op->type)) return;  // 8192 events later: its slot was taken
    gpu_write(end_ns, Kind::kNcclTime, Edge::kMark, op->hash, op->key, begin_ns, end_ns, static_cast<uint16_t>(source));
    cookie = op->next;
  }
}

}  // namespace stepscope::recorder::nccl
