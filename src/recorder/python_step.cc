// Optimizer steps, GradScaler.step, and what is due at a step boundary.
#include <stdlib.h>

#include <algorithm>
#include <bit>

#include "blackbox/layout.h"
#include "python_hooks.h"

namespace stepscope::recorder {

constinit HookState g_hooks;
constinit thread_local ThreadState t_hooks;

namespace {

constexpr uint64_t kUsageEveryNs = 1'000'000;  // a getrusage costs 0.3 to 1 us: at most 0.1 % of any step
constexpr uint64_t kTickShownNs = 1'000'000;   // our own work at a boundary is named in the ledger from here on
constexpr uint64_t kTickPhase = 0x7374657073636f70;

// Optimizers that have a name in the ring. Fixed: one optimizer per parameter makes hundreds, more stay nameless.
struct KnownOptimizers {
  static constexpr int kMost = 256, kSlots = 512;
  uint64_t ids[kSlots] = {};
  int count = 0;

  bool add(uint64_t id) {
    for (int i = 0; i < kSlots; ++i) {
      uint64_t& slot = ids[((id >> 4) + static_cast<uint64_t>(i)) % kSlots];
      if (slot == id) return false;
      if (slot != 0) continue;
      if (count >= kMost) return false;
      slot = id, ++count;
      return true;
    }
    return false;
  }
};
constinit KnownOptimizers g_known;
constexpr Py_ssize_t kMostGroups = 64;  // more are not counted in each step
PyObject *g_str_name = nullptr, *g_str_step_count = nullptr, *g_str_enabled = nullptr, *g_str_param_groups = nullptr,
         *g_str_lr = nullptr, *g_str_state = nullptr, *g_str_params = nullptr;

int32_t environment(const char* variable, int32_t fallback) {
  const char* text = getenv(variable);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  const long value = strtol(text, &end, 10);
  return *end || value < 0 || value > INT32_MAX ? fallback : static_cast<int32_t>(value);
}

void name_optimizer(PyObject* optimizer) {
  if (!active() || !g_known.add(id_of(optimizer))) return;
  KeepError keep;
  const Ref text = attribute(reinterpret_cast<PyObject*>(Py_TYPE(optimizer)), g_str_name);
  name(NameKind::kOptimizer, id_of(optimizer), utf8(text.get()));
}

// Tensors that have been stepped with, as the optimizer's state tells; one that keeps no state has groups.
uint64_t trained_tensors(PyObject* optimizer, PyObject* groups) {
  const Ref state = attribute(optimizer, g_str_state);
  if (state && PyDict_Check(state.get()) && PyDict_Size(state.get()) > 0)
    return static_cast<uint64_t>(PyDict_Size(state.get()));
  uint64_t count = 0;
  const Py_ssize_t looked_at = std::min<Py_ssize_t>(PyList_Size(groups), kMostGroups);
  for (Py_ssize_t i = 0; i < looked_at; ++i) {
    PyObject* group = PyList_GetItem(groups, i);
    PyObject* tensors = PyDict_CheckExact(group) ? PyDict_GetItemWithError(group, g_str_params) : nullptr;
    if (tensors && PyList_CheckExact(tensors)) count += static_cast<uint64_t>(PyList_Size(tensors));
  }
  return count;
}

// A rate in a tensor would have to be read from a device; it is left alone.
void learning_rate_mark(PyObject* optimizer) {
  const KeepError keep;
  const Ref groups = attribute(optimizer, g_str_param_groups);
  if (!groups || !PyList_CheckExact(groups.get()) || PyList_Size(groups.get()) == 0) return;
  PyObject* first = PyList_GetItem(groups.get(), 0);
  PyObject* rate = PyDict_CheckExact(first) ? PyDict_GetItemWithError(first, g_str_lr) : nullptr;
  if (!rate || !PyFloat_Check(rate)) return drop_error();
  mark(Kind::kScalar, Edge::kMark, static_cast<uint64_t>(ScalarOf::kLearningRate),
       std::bit_cast<uint64_t>(PyFloat_AsDouble(rate)), 0, trained_tensors(optimizer, groups.get()));
  drop_error();
}

void usage_sometimes() {
  const uint64_t now_ns = monotonic_ns();
  if (now_ns - g_hooks.last_usage_ns < kUsageEveryNs) return;
  g_hooks.last_usage_ns = now_ns;
  usage_mark();
}

PyObject* optimizer_pre(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return none();
  if (may_open()) [[unlikely]]
    open_by_hook();
  ++g_hooks.optimizer_begins;
  if (active()) {
    name_optimizer(args[0]);
    boundary_mark(Kind::kOptimizer, Edge::kBegin, id_of(args[0]));
  }
  return none();
}

PyObject* optimizer_post(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return none();
  ++g_hooks.optimizer_ends;
  if (active()) {
    learning_rate_mark(args[0]);
    boundary_mark(Kind::kOptimizer, Edge::kEnd, id_of(args[0]));
    usage_sometimes();
  }
  evidence(blackbox::kEvidenceOptimizer);
  g_hooks.stepping = args[0];
  step_boundary();
  g_hooks.stepping = nullptr;
  return none();
}

// GradScaler.step(self, optimizer, …): an optimizer that is skipped after an overflow is a step too.
PyObject* scaler_step(const Call& call) {
  PyObject* optimizer = call.argument(1, "optimizer");
  boundary_mark(Kind::kScalerStep, Edge::kBegin, id_of(optimizer));
  PyObject* result = call.proceed();
  uint16_t flags = 0;
  if (active()) {
    const KeepError keep;
    if (attribute(call.argument(0, "self"), g_str_enabled).get() == Py_False) flags = kScalerOff;
  }
  boundary_mark(Kind::kScalerStep, Edge::kEnd, id_of(optimizer), flags);
  return give(result);
}

// wrap_scaler(GradScaler) replaces the class attribute `step`.
PyObject* wrap_scaler(PyObject*, PyObject* type) {
  return stand_in_method(type, "step", scaler_step) ? none() : nullptr;
}

// LRScheduler.step(self, epoch=None)
PyObject* scheduler_step(const Call& call) {
  PyObject* result = call.proceed();
  if (!result || !active()) return result;
  PyObject* scheduler = call.argument(0, "self");
  PyObject* epoch = call.argument(1, "epoch");
  const Ref count = attribute(scheduler, g_str_step_count);
  mark(Kind::kScheduler, Edge::kMark, id_of(scheduler), as_u64(count.get()), 0, 0,
       epoch && epoch != Py_None ? kSchedulerSet : 0);
  return give(result);
}

PyObject* wrap_scheduler(PyObject*, PyObject* type) {
  return stand_in_method(type, "step", scheduler_step) ? none() : nullptr;
}

// ---- trace_step, trace_phase, log ----

PyObject* step_begin(PyObject*, PyObject*) {
  evidence(blackbox::kEvidenceInit);
  boundary_mark(Kind::kStep, Edge::kBegin, 0);
  return none();
}

PyObject* step_end(PyObject*, PyObject*) {
  if (!active()) return none();
  boundary_mark(Kind::kStep, Edge::kEnd, 0);
  usage_sometimes();
  step_boundary();
  return none();
}

// span(kind, edge, id)
PyObject* span(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n >= 3 && active())
    boundary_mark(static_cast<Kind>(as_u64(args[0])), static_cast<Edge>(as_u64(args[1])), as_u64(args[2]));
  return none();
}

// value(id, number)
PyObject* value(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const double number = n >= 2 ? PyFloat_AsDouble(args[1]) : 0;
  if (PyErr_Occurred()) return nullptr;
  if (n >= 2) mark(Kind::kValue, Edge::kMark, as_u64(args[0]), std::bit_cast<uint64_t>(number));
  return none();
}

void run_tick(uint32_t bits) {
  g_hooks.in_tick = true;
  const uint64_t begin_ns = monotonic_ns();
  const Ref argument(PyLong_FromUnsignedLong(bits));
  call_quietly(g_hooks.tick, argument.get());
  if (monotonic_ns() - begin_ns >= kTickShownNs) {
    name(NameKind::kPhase, kTickPhase, "stepscope");
    mark_at(begin_ns, Kind::kUserPhase, Edge::kBegin, kTickPhase);
    mark(Kind::kUserPhase, Edge::kEnd, kTickPhase);
  }
  g_hooks.in_tick = false;
}

uint32_t control_bits() {
  const blackbox::Control* c = control();
  const bool stamp = c && c->stamp_until_step.load(std::memory_order_relaxed) > g_hooks.optimizer_ends;
  uint32_t bits = 0;
  if (stamp != g_hooks.stamping) {
    g_hooks.stamping = stamp;
    bits |= kTickStamps;
  }
  if (!c) return bits;
  const uint64_t words[2] = {c->capture_request.load(std::memory_order_relaxed),
                             c->layer_mode.load(std::memory_order_relaxed)};
  for (int i = 0; i < 2; ++i)
    if (words[i] != g_hooks.control_seen[i]) {
      g_hooks.control_seen[i] = words[i];
      bits |= kTickControl;
    }
  return bits;
}

// ---- set-up calls from Python ----

PyObject* set_hook(PyObject*, PyObject* const* args, Py_ssize_t n) {
  static constexpr struct {
    const char* name;
    PyObject* HookState::* slot;
  } slots[] = {
      {"tick", &HookState::tick},
      {"set_eval_frame", &HookState::set_eval_frame},
      {"pg_map", &HookState::pg_map},
      {"pre_hooks", &HookState::pre_hooks},
      {"compile_callbacks", &HookState::compile_callbacks},
      {"is_grad_enabled", &HookState::is_grad_enabled},
      {"queue_callback", &HookState::queue_callback},
      {"graph_task", &HookState::graph_task},
      {"tensor_type", &HookState::tensor_type},
      {"int64", &HookState::int64},
      {"disabled_torch_function", &HookState::disabled_torch_function},
  };
  const char* key = n > 0 ? utf8(args[0]) : "";
  PyObject* value = n > 1 && args[1] != Py_None ? args[1] : nullptr;
  for (const auto& s : slots)
    if (std::string_view(key) == s.name) {
      hold(g_hooks.*s.slot, value);
      return none();
    }
  PyErr_Format(PyExc_KeyError, "%s", key);
  return nullptr;
}

PyObject* set_groups(PyObject*, PyObject* const* args, Py_ssize_t n) {
  g_hooks.pg_count = n > 0 ? static_cast<Py_ssize_t>(as_u64(args[0])) : 0;
  g_hooks.own_end = g_hooks.pg_count > 0;
  if (n > 1) g_hooks.default_group = as_u64(args[1]);
  return none();
}

PyObject* request_tick(PyObject*, PyObject*) {
  g_hooks.tick_bits |= kTickRequested;
  return none();
}

PyObject* after_fork(PyObject*, PyObject*) {
  reset_hooks_after_fork();
  return none();
}

PyObject* counters(PyObject*, PyObject*) {
  return Py_BuildValue("(KKK)", static_cast<unsigned long long>(g_hooks.optimizer_ends),
                       static_cast<unsigned long long>(g_hooks.backward_ends),
                       static_cast<unsigned long long>(g_hooks.forwards));
}

// Not null only while its hook runs, in whichever thread: alive as long.
PyObject* stepping(PyObject*, PyObject*) { return Py_NewRef(g_hooks.stepping ? g_hooks.stepping : Py_None); }

PyObject* boundary(PyObject*, PyObject*) {
  step_boundary();
  return none();
}

PyMethodDef g_functions[] = {
    {"optimizer_pre", as_method(optimizer_pre), METH_FASTCALL, "Global optimizer pre hook."},
    {"optimizer_post", as_method(optimizer_post), METH_FASTCALL, "Global optimizer post hook."},
    {"wrap_scaler", as_method(wrap_scaler), METH_O, "wrap_scaler(GradScaler): marks around its step()."},
    {"wrap_scheduler", as_method(wrap_scheduler), METH_O, "wrap_scheduler(LRScheduler): a mark after its step()."},
    {"step_begin", as_method(step_begin), METH_NOARGS, "trace_step begins."},
    {"step_end", as_method(step_end), METH_NOARGS, "trace_step ends: a step boundary."},
    {"span", as_method(span), METH_FASTCALL, "span(kind, edge, id): a phase boundary, on the GPU's stream as well."},
    {"value", as_method(value), METH_FASTCALL, "value(id, number)"},
    {"set_hook", as_method(set_hook), METH_FASTCALL, "set_hook(key, object): what the hooks need of torch."},
    {"set_groups", as_method(set_groups), METH_FASTCALL, "set_groups(count, default_group_id)"},
    {"request_tick", as_method(request_tick), METH_NOARGS, "Calls `tick` at the next step boundary."},
    {"after_fork", as_method(after_fork), METH_NOARGS, "To be run in a forked child."},
    {"counters", as_method(counters), METH_NOARGS, "(optimizer ends, backward ends, root forwards) so far."},
    {"stepping", as_method(stepping), METH_NOARGS, "The optimizer at whose step the boundary is, or None."},
    {"boundary", as_method(boundary), METH_NOARGS, "What is due at a step boundary."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void open_by_hook() noexcept {
  g_hooks.open_tried = true;
  if (!active() && open()) g_hooks.tick_bits |= kTickOpened;
}

void evidence_slow(uint64_t bit) noexcept {
  g_hooks.evidence |= bit;
  if (g_hooks.role != Role::kUndecided) return;
  if (!active() && may_open()) open_by_hook();
  if (!active()) return;
  add_evidence(bit);
  if (g_hooks.identity_known) return;
  g_hooks.identity_known = true;
  const int32_t rank = environment("RANK", 0);
  set_identity(rank, environment("LOCAL_RANK", rank), environment("WORLD_SIZE", 1), environment("GROUP_RANK", 0),
               environment("TORCHELASTIC_RESTART_COUNT", 0));
}

void step_boundary() noexcept {
  if (g_hooks.in_tick || !g_hooks.tick || !active()) return;
  uint32_t bits = g_hooks.tick_bits | control_bits();
  if (g_hooks.pg_map && PyObject_Size(g_hooks.pg_map) != g_hooks.pg_count) bits |= kTickGroups;
  if (g_hooks.compile_callbacks && PyObject_Size(g_hooks.compile_callbacks) == 0) bits |= kTickCompileLost;
  if (bits == 0) [[likely]]
    return;
  g_hooks.tick_bits = 0;
  run_tick(bits);
}

Ref call_quietly(PyObject* function, PyObject* argument) noexcept {
  const Ref one(function ? PyTuple_Pack(1, argument) : nullptr);
  return one ? call_quietly_with(function, one.get()) : Ref();
}

Ref call_quietly_with(PyObject* function, PyObject* arguments) noexcept {
  const KeepError keep;
  if (PyErr_CheckSignals() != 0) keep_error();
  Ref previous;
  if (g_hooks.set_eval_frame) previous = Ref(PyObject_CallFunctionObjArgs(g_hooks.set_eval_frame, Py_None, nullptr));
  drop_error();
  Ref result(PyObject_Call(function, arguments, nullptr));
  drop_error();
  if (previous) Ref(PyObject_CallFunctionObjArgs(g_hooks.set_eval_frame, previous.get(), nullptr));
  return result;
}

// A child of a rank is no rank: it is a loader worker or a helper. A child of a launcher may become one.
void reset_hooks_after_fork() noexcept {
  const bool of_a_rank = g_hooks.evidence != 0;
  if (g_hooks.role == Role::kUndecided && of_a_rank) g_hooks.role = Role::kDead;
  g_hooks.open_tried = false;
  g_hooks.identity_known = false;
  g_hooks.evidence = 0;
  g_hooks.backwards_open = 0;
  t_hooks = {};
  g_hooks.tick_bits = 0;
  g_hooks.in_tick = false;
  g_hooks.stamping = false;
  g_known = KnownOptimizers();
  last_issue() = LastIssue();
}

int add_step_functions(PyObject* module) {
  g_str_name = PyUnicode_InternFromString("__name__");
  g_str_step_count = PyUnicode_InternFromString("_step_count");
  g_str_enabled = PyUnicode_InternFromString("_enabled");
  g_str_param_groups = PyUnicode_InternFromString("param_groups");
  g_str_lr = PyUnicode_InternFromString("lr");
  g_str_state = PyUnicode_InternFromString("state");
  g_str_params = PyUnicode_InternFromString("params");
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
