#include "recorder/fake_nccl.h"

#include <dlfcn.h>
#include <unistd.h>

namespace stepscope::recorder {

using namespace nccl;

namespace {

constexpr int kChannels = 2;
constexpr uint64_t kBelow = kProxyOp | kProxyStep | kKernelCh | kNetPlugin;

template <class Coll>
void fill_coll(Coll& coll, const FakeNccl::Op& op, uint64_t sequence) {
  coll.sequence = sequence;
  coll.func = op.func.c_str();
  coll.count = op.count;
  coll.root = op.peer;
  coll.datatype = op.datatype.c_str();
  coll.channels = kChannels;
  coll.warps = 16;
  coll.algo = "RING";
  coll.proto = "LL128";
}
template <class P2p>
void fill_p2p(P2p& p2p, const FakeNccl::Op& op) {
  p2p.func = op.func.c_str();
  p2p.datatype = op.datatype.c_str();
  p2p.count = op.count;
  p2p.peer = op.peer;
}

}  // namespace

bool FakeNccl::load(const std::string& path) {
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) return error_ = ::dlerror(), false;
  const std::string symbol = "ncclProfiler_v" + std::to_string(api_);
  table_ = ::dlsym(library_, symbol.c_str());
  if (!table_) error_ = path + " has no " + symbol;
  return table_ != nullptr;
}

void FakeNccl::unload() {
  if (library_) ::dlclose(library_);
  library_ = nullptr;
  table_ = nullptr;
}

FakeNccl::Comm* FakeNccl::comm_init(uint64_t hash, int rank, int size, const char* label, int nodes) {
  comms_.push_back(std::make_unique<Comm>());
  Comm* comm = comms_.back().get();
  comm->hash = hash;
  comm->rank = rank;
  comm->size = size;
  if (label) comm->label = label;
  int rc = 0;
  if (api_ >= 5)
    rc = static_cast<TableV5*>(table_)->init(&comm->context, hash, &mask_, label, nodes, size, rank, nullptr);
  if (api_ == 4)
    rc = static_cast<TableV4*>(table_)->init(&comm->context, &mask_, label, hash, nodes, size, rank, nullptr);
  if (api_ == 3) rc = static_cast<TableV3*>(table_)->init(&comm->context, &mask_);
  check(rc);
  return comm;
}

void FakeNccl::comm_finalize(Comm* comm) {
  if (!comm->context) return;
  if (api_ >= 5) check(static_cast<TableV5*>(table_)->finalize(comm->context));
  if (api_ == 4) check(static_cast<TableV4*>(table_)->finalize(comm->context));
  if (api_ == 3) check(static_cast<TableV3*>(table_)->finalize(comm->context));
}

void* FakeNccl::start(Comm* comm, uint64_t type, void* parent, const Op* op, void* stream, bool captured,
                      void* parent_group, uint64_t gpu_timer) {
  void* handle = nullptr;
  const Op none;
  const Op& o = op ? *op : none;
  const auto sequence = [&] { return comm->sequence[o.func]; };
  const auto common = [&](auto& d) {
    using Type = decltype(d.type);
    d.type = static_cast<Type>(type);
    d.parent = parent;
    d.rank = comm->rank;
    if (type == kKernelCh) d.kernel_ch = {0, gpu_timer};
    if (type == kProxyOp) d.proxy_op = {static_cast<int>(::getpid()), 0, 1, 4, 1024, 1};
  };
  if (api_ == 3) {
    DescriptorV3 d{};
    common(d);
    if (type == kColl) fill_coll(d.coll, o, sequence()), d.coll.comm_hash = comm->hash, d.coll.comm_name = "c";
    if (type == kP2p) fill_p2p(d.p2p, o), d.p2p.comm_hash = comm->hash;
    check(static_cast<TableV3*>(table_)->start_event(comm->context, &handle, &d));
  } else if (api_ == 4) {
    DescriptorV4 d{};
    common(d);
    if (type == kColl) fill_coll(d.coll, o, sequence());
    if (type == kP2p) fill_p2p(d.p2p, o), d.p2p.channels = kChannels;
    check(static_cast<TableV4*>(table_)->start_event(comm->context, &handle, &d));
  } else {
    DescriptorV6 d{};
    common(d);
    if (type == kColl) fill_coll(d.coll, o, sequence()), d.coll.parent_group = parent_group;
    if (type == kP2p) fill_p2p(d.p2p, o), d.p2p.channels = kChannels, d.p2p.parent_group = parent_group;
    if (type == kGroupApi) d.group_api = {captured, 1};
    if (type == kCollApi) d.coll_api = {o.func.c_str(), o.count, o.datatype.c_str(), 0, stream, captured};
    if (type == kP2pApi) d.p2p_api = {o.func.c_str(), o.count, o.datatype.c_str(), stream, captured};
    if (type == kKernelLaunch) d.kernel_launch = {stream};
    if (type == kCeColl) {
      d.ce_coll.sequence = sequence();
      d.ce_coll.func = o.func.c_str();
      d.ce_coll.count = o.count;
      d.ce_coll.datatype = o.datatype.c_str();
      d.ce_coll.stream = stream;
    }
    // The same layout in both versions.
    check(static_cast<TableV6*>(table_)->start_event(comm->context, &handle, &d));
  }
  return handle;
}

void FakeNccl::stop(void* handle) {
  if (!handle) return;
  if (api_ >= 5) check(static_cast<TableV5*>(table_)->stop_event(handle));
  if (api_ == 4) check(static_cast<TableV4*>(table_)->stop_event(handle));
  if (api_ == 3) check(static_cast<TableV3*>(table_)->stop_event(handle));
}

void FakeNccl::state(void* handle, int state, uint64_t gpu_timer) {
  if (!handle) return;
  StateArgs args{.gpu_timer = gpu_timer};
  if (api_ >= 5) check(static_cast<TableV5*>(table_)->record_state(handle, state, &args));
  if (api_ == 4) check(static_cast<TableV4*>(table_)->record_state(handle, state, &args));
  if (api_ == 3) check(static_cast<TableV3*>(table_)->record_state(handle, state, nullptr));
}

void FakeNccl::run(Comm* comm, const std::vector<Op>& ops, void* stream, bool captured, void (*launch)(void*)) {
  void* group_api = nullptr;
  std::vector<void*> calls(ops.size());
  if (api_ >= 5 && mask() != 0) group_api = start(comm, kGroupApi, nullptr, nullptr, nullptr, captured);
  for (size_t i = 0; api_ >= 5 && i < ops.size(); ++i) {
    const bool p2p = ops[i].p2p();
    if (!asked(p2p ? kP2pApi | kP2p | kBelow : kCollApi | kColl | kBelow)) continue;
    calls[i] = start(comm, p2p ? kP2pApi : kCollApi, group_api, &ops[i], stream, captured);
    stop(calls[i]);
  }
  void* kernel = nullptr;
  if (api_ >= 5 && asked(kKernelLaunch)) kernel = start(comm, kKernelLaunch, group_api, nullptr, stream);
  if (launch) launch(stream);
  stop(kernel);
  void* group = asked(kGroup | kColl | kP2p | kBelow) ? start(comm, kGroup, nullptr) : nullptr;
  // Interface 4 and older: children only if the plugin took the group.
  if (captured || (api_ < 5 && !group)) return stop(group), stop(group_api);
  std::vector<void*> handles(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    const bool p2p = ops[i].p2p();
    if (asked(p2p ? kP2p | kBelow : kColl | kBelow))
      handles[i] = start(comm, p2p ? kP2p : kColl, api_ >= 5 ? calls[i] : group, &ops[i], nullptr, false, group);
    if (!p2p) ++comm->sequence[ops[i].func];
    if (handles[i] && asked(kKernelCh)) tasks_.push_back({comm, handles[i], kChannels});
  }
  for (void* handle : handles) stop(handle);
  stop(group);
  stop(group_api);
}

void FakeNccl::replay_graph(Comm* comm, const Op& op) {
  void* group = start(comm, kGroup, nullptr);
  void* coll = start(comm, kColl, nullptr, &op, nullptr, false, group);
  stop(coll);
  stop(group);
}

void FakeNccl::copy_engine(Comm* comm, const Op& op, void* stream, void (*launch)(void*)) {
  void* ce = asked(kCeColl) ? start(comm, kCeColl, nullptr, &op, stream) : nullptr;
  if (launch) launch(stream);
  stop(ce);
  ++comm->sequence[op.func];
}

std::vector<FakeNccl::Task> FakeNccl::take_tasks() {
  std::vector<Task> tasks;
  tasks.swap(tasks_);
  return tasks;
}

void FakeNccl::report_channels(uint64_t gpu_begin_ns, uint64_t gpu_end_ns) {
  for (const Task& task : take_tasks()) {
    for (int c = 0; c < task.channels; ++c) {
      void* channel =
          start(task.comm, kKernelCh, task.handle, nullptr, nullptr, false, nullptr, gpu_begin_ns + c * 100u);
      state(channel, kStateKernelChStop, gpu_end_ns + c * 100u);
      stop(channel);
    }
  }
}

}  // namespace stepscope::recorder

// For tests in Python (ctypes).
#define FAKE_EXPORT __attribute__((visibility("default")))
extern "C" {
using stepscope::recorder::FakeNccl;
FAKE_EXPORT void* fake_nccl_open(const char* path, int api) {
  auto* nccl = new FakeNccl(api);
  if (nccl->load(path)) return nccl;
  delete nccl;
  return nullptr;
}
FAKE_EXPORT void* fake_nccl_comm(void* nccl, uint64_t hash, int rank, int size, const char* label) {
  return static_cast<FakeNccl*>(nccl)->comm_init(hash, rank, size, label);
}
FAKE_EXPORT void fake_nccl_run(void* nccl, void* comm, const char* func, uint64_t count, int peer, void* stream) {
  static_cast<FakeNccl*>(nccl)->run(static_cast<FakeNccl::Comm*>(comm), {{func, count, "ncclFloat32", peer}}, stream);
}
FAKE_EXPORT void fake_nccl_finalize(void* nccl, void* comm) {
  static_cast<FakeNccl*>(nccl)->comm_finalize(static_cast<FakeNccl::Comm*>(comm));
}
FAKE_EXPORT void fake_nccl_unload(void* nccl) { static_cast<FakeNccl*>(nccl)->unload(); }
FAKE_EXPORT int fake_nccl_mask(void* nccl) { return static_cast<FakeNccl*>(nccl)->mask(); }
FAKE_EXPORT int fake_nccl_failures(void* nccl) { return static_cast<FakeNccl*>(nccl)->failures(); }
}
