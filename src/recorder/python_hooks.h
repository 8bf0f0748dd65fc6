// State and entry points of the hooks that torch calls (python_step.cc, python_forward.cc, …): all C functions, because
// torch.compile looks into Python functions and breaks graphs over them (docs/decisions, hooks).
//
// One process, one interpreter. Everything here is guarded by the GIL. References held in the state are never released
// at exit: a hook may still be called while the interpreter goes down.
#pragma once

#include "python_stand_in.h"
#include "python_support.h"

#include <cstdint>

#include "base/clock.h"
#include "blackbox/event_kind.h"
#include "recorder/python_gpu.h"
#include "recorder/recorder.h"

namespace stepscope::recorder {

// Why the Python side is called at a step boundary (bits of the argument of `tick`).
enum Tick : uint32_t {
  kTickOpened = 1 << 0,       // the recorder was opened by a hook: names may be written now
  kTickGroups = 1 << 1,       // the number of process groups changed
  kTickCompileLost = 1 << 2,  // torch._dynamo.reset() dropped the compile callbacks
  kTickRequested = 1 << 3,    // asked for by request_tick()
  kTickStamps = 1 << 4,       // the agent asked for completion stamps, or no longer does
  kTickWorkKeys = 1 << 5,     // a Work was waited for that no post hook has announced
  kTickControl = 1 << 6,      // another control word changed
};

enum class Role : uint8_t {
  kUndecided,  // a rank as soon as there is evidence
  kWorker,     // loader worker: only WorkerFetch
  kDead,       // forked from a rank: nothing
};

struct HookState {
  Role role = Role::kUndecided;
  bool allowed = false;  // the Python side agrees to opening (STEPSCOPE_DISABLE is not set)
  bool open_tried = false;
  bool identity_known = false;
  uint64_t evidence = 0;

  // step boundary
  uint64_t optimizer_begins = 0, optimizer_ends = 0, backward_ends = 0, forwards = 0;
  uint64_t last_usage_ns = 0;
  uint64_t control_seen[2] = {};
  uint32_t tick_bits = 0;
  bool in_tick = false;
  PyObject* tick = nullptr;               // callable(bits)
  PyObject* set_eval_frame = nullptr;     // torch._C._dynamo.eval_frame.set_eval_frame
  PyObject* pg_map = nullptr;             // torch.distributed.distributed_c10d._world.pg_map
  Py_ssize_t pg_count = 0;                // groups that the Python side has seen
  PyObject* pre_hooks = nullptr;          // {id(group): its pre hook}
  PyObject* compile_callbacks = nullptr;  // list that must not be empty

  // forward
  PyObject* is_grad_enabled = nullptr;
  bool watch_fired = false;
  int fired_count = 0;
  uint64_t fired[64] = {};

  // backward
  PyObject* stepping = nullptr;        // borrowed: the optimizer whose boundary it is
  int backwards_open = 0;              // outermost ones, of all threads
  PyObject* graph_task = nullptr;      // torch._C._current_graph_task_id: -1 unless the thread works for a backward
  PyObject* queue_callback = nullptr;  // Variable._execution_engine.queue_callback
  PyObject* tensor_type = nullptr;     // torch.Tensor
  PyObject* int64 = nullptr;           // torch.int64
  PyObject* disabled_torch_function = nullptr;
  bool own_end = false;  // mark the end of own backward (there are process groups)

  // collectives
  bool stamping = false;
  bool has_group_hooks = false;
  Py_ssize_t pybind_head = 0;  // bytes before the C++ pointer in a pybind11 object; 0 = unknown
  uint64_t default_group = 0;
  uint64_t waits = 0;
};
extern constinit HookState g_hooks;

// What belongs to one thread: programs train in several, one model each.
struct ThreadState {
  int backward_depth = 0, compiling = 0;
  uint64_t backward_ends = 0;
};
extern constinit thread_local ThreadState t_hooks;

// Whether this thread computes for a backward that is under way: its own, or one that another thread began (on a GPU
// the engine's threads do the work, activation checkpointing and nested backwards included).
bool for_other_backward() noexcept;
inline bool in_backward() noexcept {
  if (t_hooks.backward_depth > 0) return true;
  return g_hooks.backwards_open > 0 && for_other_backward();
}

// Opens the recorder once if this process may be a rank; later calls are a flag test.
inline bool may_open() { return !g_hooks.open_tried && g_hooks.allowed && g_hooks.role == Role::kUndecided; }
void open_by_hook() noexcept;

void evidence_slow(uint64_t bit) noexcept;
inline void evidence(uint64_t bit) noexcept {
  if ((g_hooks.evidence & bit) == 0) [[unlikely]]
    evidence_slow(bit);
}

// The mark of a phase boundary, on the host and, where there is one, on the GPU's stream: both with the same time.
inline void boundary_mark(Kind kind, Edge edge, uint64_t id, uint16_t flags = 0, uint64_t detail = 0) noexcept {
  if (!g_gpu_armed.load(std::memory_order_relaxed)) [[likely]]
    return mark(kind, edge, id, detail, 0, 0, flags);
  const uint64_t now_ns = monotonic_ns();
  mark_at(now_ns, kind, edge, id, detail, 0, 0, flags);
  gpu_boundary(kind, edge, id, now_ns);
}

// What is due between two steps: control words, new groups, lost callbacks. About 15 ns when nothing is.
// What is due runs Python code of ours: a signal's exception from there waits for the caller's give().
void step_boundary() noexcept;

// Calls Python code of ours from a hook: torch.compile does not look at its frames, a pending error stays, errors go
// the way of drop_error(). Signals that came before are handled first: whatever their handlers raise is the program's.
// Null when it failed.
Ref call_quietly(PyObject* function, PyObject* argument) noexcept;
Ref call_quietly_with(PyObject* function, PyObject* arguments) noexcept;  // arguments: a tuple

// Seen by the forked child.
void reset_hooks_after_fork() noexcept;

int add_mark_functions(PyObject* module);
int add_step_functions(PyObject* module);
int add_forward_functions(PyObject* module);
int add_backward_functions(PyObject* module);
int add_collective_functions(PyObject* module);
int add_wait_functions(PyObject* module);
int add_loader_functions(PyObject* module);
int add_pause_functions(PyObject* module);
int add_stack_functions(PyObject* module);

// Rows and tokens of a batch as a loader yields it; 0 = not told by a look. Runs no code of the user's. About 0.2 µs.
struct BatchShape {
  uint64_t samples = 0, tokens = 0;
};
BatchShape shape_of_batch(PyObject* batch) noexcept;
// Elements of the plain tensors among a forward's positional inputs and in their lists, tuples and dictionaries, 24
// objects at most; 0 = none, or not told.
uint64_t elements_of_input(PyObject* inputs) noexcept;

// The collective that the calling thread issued last: what a synchronous call is about to wait for.
struct LastIssue {
  uint64_t group = 0, sequence = 0, detail = 0;  // detail: CollectiveOp | peer << 16
  uint16_t flags = 0;
  bool fresh = false;  // issued and not waited for yet, synchronous
};
LastIssue& last_issue() noexcept;
// What the next collective of a process group will be counted as. False where no hook counts them.
bool next_issue(PyObject* process_group, LastIssue& issue) noexcept;

// Identity of the C++ object behind a pybind11 object, 0 when not known. An opaque key, never followed.
inline uint64_t pybind_key(PyObject* object) noexcept {
  if (g_hooks.pybind_head == 0 || !object) return 0;
  return *reinterpret_cast<const uint64_t*>(reinterpret_cast<const char*>(object) + g_hooks.pybind_head);
}

// Which collective a Work belongs to, as its post hook said.
void remember_work(uint64_t key, const LastIssue& issue) noexcept;
bool find_work(uint64_t key, LastIssue& issue) noexcept;

}  // namespace stepscope::recorder
