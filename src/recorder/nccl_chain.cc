#include "recorder/nccl_chain.h"

#include <dlfcn.h>
#include <strings.h>

#include <cstdlib>
#include <cstring>

namespace stepscope::recorder::nccl {
namespace {

constexpr uint64_t kBelowColl = kProxyOp | kProxyStep | kKernelCh | kNetPlugin;
constexpr uint64_t kCe = kCeColl | kCeSync | kCeBatch;

// NCCL also emits the parents of what was asked for.
uint64_t asked_by(uint64_t type) {
  switch (type) {
    case kGroupApi: return kGroupApi | kP2pApi | kCollApi | kKernelLaunch | kGroup | kColl | kP2p | kBelowColl | kCe;
    case kCollApi: return kCollApi | kColl | kBelowColl | kCe;
    case kP2pApi: return kP2pApi | kP2p | kBelowColl;
    case kGroup: return kGroup | kColl | kP2p | kBelowColl;
    case kColl: return kColl | kBelowColl;
    case kP2p: return kP2p | kBelowColl;
    case kProxyOp: return kProxyOp | kProxyStep | kNetPlugin;
    case kProxyStep: return kProxyStep | kNetPlugin;
    case kCeColl: return kCe;
    default: return type;
  }
}

void* open_named(const char* name) {
  // As NCCL: a path or a file name first, then libnccl-profiler-<name>.so.
  if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  if (std::strchr(name, '/')) return nullptr;
  return ::dlopen((std::string("libnccl-profiler-") + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* open_default() {
  if (void* library = ::dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL)) return library;
  const char* net = std::getenv("NCCL_NET_PLUGIN");
  void* library = ::dlopen(net && *net ? net : "libnccl-net.so", RTLD_NOW | RTLD_NOLOAD);
  if (!library && net && *net && !std::strchr(net, '/'))
    library = ::dlopen((std::string("libnccl-net-") + net + ".so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  return library;
}

void* symbol(void* library, int version) {
  return ::dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str());
}

bool is_ours(void* table) {
  // Chaining ourselves would be an endless loop.
  Dl_info theirs, ours;
  return ::dladdr(table, &theirs) && ::dladdr(reinterpret_cast<void*>(&is_ours), &ours) &&
         theirs.dli_fbase == ours.dli_fbase;
}

DescriptorV4 as_v4(const DescriptorV5& from, void* parent) {
  DescriptorV4 to{};
  to.type = static_cast<uint8_t>(from.type);
  to.parent = parent;
  to.rank = from.rank;
  if (from.type == kColl) {
    const CollV5& c = from.coll;
    to.coll = {c.sequence, c.func, c.send, c.recv, c.count, c.root, c.datatype, c.channels, c.warps, c.algo, c.proto};
  } else if (from.type == kP2p) {
    const P2pV5& p = from.p2p;
    to.p2p = {p.func, p.buffer, p.datatype, p.count, p.peer, p.channels};
  } else {
    std::memcpy(&to.coll, &from.coll, sizeof to.coll);  // the other members are the same in both versions
  }
  return to;
}

}  // namespace

int chain_version(const char* path_or_name) noexcept {
  if (!path_or_name || !*path_or_name) return 0;
  try {
    void* library = open_named(path_or_name);
    for (int version = 6; library && version >= 1; --version)
      if (symbol(library, version)) return version;
  } catch (...) {  // no memory
  }
  return 0;
}

bool Chain::load(int api) {
  if (tried_) return active();
  tried_ = true;
  nccl_api_ = api;
  const char* name = std::getenv("STEPSCOPE_NCCL_CHAIN");
  const bool named = name && *name;
  if (named && ::strcasecmp(name, "none") == 0) return false;
  void* library = named ? open_named(name) : open_default();
  if (!library) {
    if (named) what_ = std::string("cannot load ") + name;
    return false;
  }
  if (!take_symbols(library, api)) {
    if (named) what_ = std::string(name) + " has no interface version that fits";
    return false;
  }
  what_ = std::string(named ? name : "default plugin") + " v" + std::to_string(api_);
  active_.store(true, std::memory_order_release);
  return true;
}

bool Chain::take_symbols(void* library, int api) {
  const int oldest = api >= 4 ? 4 : 3;
  for (int version = api; version >= oldest; --version) {
    void* table = symbol(library, version);
    if (!table || is_ours(table)) continue;
    table_ = table;
    api_ = version;
    return true;
  }
  return false;
}

void* Chain::init(uint64_t hash, const char* name, int nodes, int ranks, int rank, LogFunction log) noexcept {
  void* context = nullptr;
  if (api_ >= 5) static_cast<TableV5*>(table_)->init(&context, hash, &mask_, name, nodes, ranks, rank, log);
  if (api_ == 4) static_cast<TableV4*>(table_)->init(&context, &mask_, name, hash, nodes, ranks, rank, log);
  if (api_ == 3) static_cast<TableV3*>(table_)->init(&context, &mask_);
  return context;
}

void Chain::finalize(void* context) noexcept {
  if (api_ >= 5) static_cast<TableV5*>(table_)->finalize(context);
  if (api_ == 4) static_cast<TableV4*>(table_)->finalize(context);
  if (api_ == 3) static_cast<TableV3*>(table_)->finalize(context);
}

bool Chain::wants(uint64_t type) const noexcept {
  if (!active()) return false;
  if (api_ < 6 && (type & kCe)) return false;
  if (api_ < 5 && (type & (kGroupApi | kCollApi | kP2pApi | kKernelLaunch))) return false;
  return (static_cast<uint64_t>(static_cast<uint32_t>(mask())) & asked_by(type)) != 0;
}

void* Chain::start(void* context, const void* descriptor, void* parent, void* parent_group) noexcept {
  void* handle = nullptr;
  if (nccl_api_ == 3) {
    DescriptorV3 copy = *static_cast<const DescriptorV3*>(descriptor);
    copy.parent = parent;
    static_cast<TableV3*>(table_)->start_event(context, &handle, &copy);
  } else if (nccl_api_ == 4) {
    DescriptorV4 copy = *static_cast<const DescriptorV4*>(descriptor);
    copy.parent = parent;
    static_cast<TableV4*>(table_)->start_event(context, &handle, &copy);
  } else if (api_ == 4) {
    const auto& from = *static_cast<const DescriptorV5*>(descriptor);
    const bool op = from.type == kColl || from.type == kP2p;
    DescriptorV4 copy = as_v4(from, op ? parent_group : parent);
    static_cast<TableV4*>(table_)->start_event(context, &handle, &copy);
  } else {
    DescriptorV6 copy = *static_cast<const DescriptorV6*>(descriptor);
    copy.parent = parent;
    if (copy.type == kColl) copy.coll.parent_group = parent_group;
    if (copy.type == kP2p) copy.p2p.parent_group = parent_group;
    static_cast<TableV6*>(table_)->start_event(context, &handle, &copy);
  }
  return handle;
}

void Chain::stop(void* handle) noexcept {
  if (api_ >= 5) static_cast<TableV5*>(table_)->stop_event(handle);
  if (api_ == 4) static_cast<TableV4*>(table_)->stop_event(handle);
  if (api_ == 3) static_cast<TableV3*>(table_)->stop_event(handle);
}

void Chain::record_state(void* handle, int state, StateArgs* args) noexcept {
  if (api_ >= 5) static_cast<TableV5*>(table_)->record_state(handle, state, args);
  if (api_ == 4) static_cast<TableV4*>(table_)->record_state(handle, state, args);
  if (api_ == 3) static_cast<TableV3*>(table_)->record_state(handle, state, args);
}

}  // namespace stepscope::recorder::nccl
