// Set-up and tear-down of communicators, masks, windows. The callbacks of the hot path are in nccl_callbacks.cc.
#include "recorder/nccl_plugin.h"

#include <pthread.h>

#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "base/clock.h"
#include "recorder/gpu_state.h"
#include "recorder/nccl_names.h"
#include "recorder/recorder.h"

namespace stepscope::recorder::nccl {
namespace {

std::atomic<Plugin*> g_plugin{nullptr};
constexpr uint64_t kFirstWindowStep = 8;  // steps before it are warm-up

void on_span(uint64_t cookie, uint64_t begin_ns, uint64_t end_ns) {
  Plugin::instance().span_resolved(cookie, begin_ns, end_ns);
}

}  // namespace

std::atomic<bool> g_forked{false};

Plugin* Plugin::find_or_make() noexcept {
  Plugin* plugin = g_plugin.load(std::memory_order_acquire);
  if (plugin) [[likely]]
    return plugin;
  static std::once_flag once;
  std::call_once(once,
                 [] { ::pthread_atfork(nullptr, nullptr, [] { g_forked.store(true, std::memory_order_relaxed); }); });
  auto* fresh = new (std::nothrow) Plugin;
  if (!fresh || g_plugin.compare_exchange_strong(plugin, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return plugin;
}

void Plugin::reset_for_test() noexcept {
  static auto* retired = new std::vector<Plugin*>;  // NOLINT(bugprone-unhandled-exception-at-new): tests alone
  retired->push_back(g_plugin.exchange(nullptr));
}

void Plugin::init(void** context, int* mask, const CommView& view) noexcept {
  *context = nullptr;
  __atomic_store_n(mask, 0, __ATOMIC_RELAXED);
  Comm* comm = nullptr;
  try {
    join(context, mask, view, comm);
  } catch (...) {  // no memory: this communicator stays unseen
    const std::scoped_lock lock(setup_);
    if (comm) comms_.remove(comm->number.load(std::memory_order_relaxed));
    if (mask_ == mask) mask_ = nullptr;
    __atomic_store_n(mask, 0, __ATOMIC_RELAXED);
  }
}

void Plugin::join(void** context, int* mask, const CommView& view, Comm*& comm) {
  if (g_forked.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(setup_);
  if (!published_) {
    choice_ = choose_mode(view.api);
    if (!gpu_has_reader()) choice_.mode = Mode::kOff, choice_.reason = "the recorder is off";
    chain_.load(view.api);
  }
  api_ = view.api;
  mode_.store(static_cast<int>(choice_.mode));
  comm = comms_.create(view.hash, view.rank, view.size, view.nodes, view.api);
  if (!comm) return;  // more communicators than anyone has: this one stays unseen
  if (choice_.mode == Mode::kEvents || choice_.mode == Mode::kEndEvents) {
    gpu_set_span_handler(on_span);
    // The device timeline starts with the first boundary on it; only who asked for every step gets it and all its
    // events now.
    if (choice_.timed_every == 1 && gpu_try_start()) gpu_reserve(kGpuSlots);
    comm->events_allowed = true;
  }
  // Two ranks of one communicator in this process: an event on one could wait for the launch of the other.
  comms_.each([&](Comm& other) {
    if (&other == comm || view.hash == 0 || other.hash != view.hash) return;
    other.events_allowed = false;
    comm->events_allowed = false;
  });
  if (chain_.active()) comm->chain = chain_.init(view.hash, view.name, view.nodes, view.size, view.rank, view.log);
  mask_ = mask;
  apply_mask();
  publish_mode(view.api);
  if (view.hash != 0) announce(*comm, view.name);
  *context = reinterpret_cast<void*>(comm->number.load(std::memory_order_relaxed));
}

void Plugin::finalize(void* context) noexcept {
  if (g_forked.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(setup_);
  const auto handle = reinterpret_cast<Handle>(context);
  Comm* comm = comms_.find(handle);
  if (!comm) return;
  close_launch(*comm);
  void* chained = comm->chain;
  const uint64_t hash = comm->hash;
  gpu_write(monotonic_ns(), Kind::kNcclComm, Edge::kEnd, hash, static_cast<uint64_t>(comm->rank),
            static_cast<uint64_t>(comm->size), static_cast<uint64_t>(comm->nodes), 0);
  comms_.remove(handle);
  if (chain_.active()) chain_.finalize(chained);
  if (comms_.live() == 0) mask_ = nullptr;  // NCCL may unload us now, and itself
}

void Plugin::announce(Comm& comm, const char* label) noexcept {
  if (comm.announced.swap(true) || choice_.mode == Mode::kOff) return;
  const uint64_t hash = comm.hash;
  gpu_write(monotonic_ns(), Kind::kNcclComm, Edge::kBegin, hash, static_cast<uint64_t>(comm.rank),
            static_cast<uint64_t>(comm.size), static_cast<uint64_t>(comm.nodes), 0);
  if (!label || !*label) return;
  char text[320];
  std::snprintf(text, sizeof text, "nccl_comm=%016llx|%.256s", static_cast<unsigned long long>(hash), label);
  name(NameKind::kFact, hash, text);
}

void Plugin::publish_mode(int api) {
  if (published_ || !gpu_has_reader()) return;  // the recorder may be opened later
  published_ = true;
  const int version = loaded_nccl_version();
  // 2.8 and older counted in hundreds; nothing that old loads a profiler.
  const std::string nccl = version ? std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                                         std::to_string(version % 100)
                                   : "unknown";
  std::string mode = name_of(choice_.mode);
  const bool can_run = gpu_state() != GpuState::kOff && gpu_state() != GpuState::kStopped;
  if ((choice_.mode == Mode::kEvents || choice_.mode == Mode::kEndEvents) && !can_run) mode = "host";
  const std::string every = mode != "host" && choice_.timed_every > 1
                                ? ", 1 of " + std::to_string(choice_.timed_every) + " steps and those asked for"
                                : "";
  name(NameKind::kFact, 0, "nccl_mode=" + mode + " (" + choice_.reason + every + ")");
  name(NameKind::kFact, 0, "nccl=" + nccl);
  name(NameKind::kFact, 0, "nccl_profiler_api=" + std::to_string(api));
  if (choice_.kernel_clock)
    name(NameKind::kFact, 0,
         "nccl_kernel_clock=" + std::to_string(choice_.window_steps) + "/" + std::to_string(choice_.window_period) +
             " steps");
  if (chain_.what() != "none") name(NameKind::kFact, 0, "nccl_chain=" + chain_.what());
  if (choice_.mode == Mode::kOff)
    name(NameKind::kUnavailable, 0, "nccl: " + choice_.reason);
  else if (mode == "host" && choice_.mode != Mode::kHost)
    name(NameKind::kUnavailable, 0, std::string("nccl device times: ") + gpu_reason());
}

void Plugin::apply_mask() noexcept {
  if (!mask_) return;
  const int own = mask_of(static_cast<Mode>(mode_.load()), api_, window_.load());
  __atomic_store_n(mask_, own | chain_.mask(), __ATOMIC_RELAXED);
}

void Plugin::step_end(bool stamping) noexcept {
  const uint64_t step = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  timed_.store(stamping || step % choice_.timed_every == 0, std::memory_order_relaxed);
  if (!choice_.kernel_clock || step < kFirstWindowStep) return;
  const bool open = step % choice_.window_period < choice_.window_steps;
  if (open == window_.load(std::memory_order_relaxed) || !setup_.try_lock()) return;
  window_.store(open);
  apply_mask();
  setup_.unlock();
}

void step_end(bool stamping) noexcept {
  if (Plugin* plugin = g_plugin.load(std::memory_order_acquire)) plugin->step_end(stamping);
}

Plugin::Counts Plugin::counts() noexcept {
  return {.comms = comms_.live(),
          .ops = ops_.load(),
          .launches = launches_.load(),
          .refused = refused_.load(),
          .stride = stride_.load(),
          .window = window_.load()};
}

}  // namespace stepscope::recorder::nccl
