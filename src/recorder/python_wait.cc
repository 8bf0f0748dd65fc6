// Time blocked on a collective: torch.distributed.Work.wait (eager and FSDP2 operations, synchronous ones included),
// the functional collectives' wait_tensor, and functions of c10d that wait for their operations in C++. DDP's backward
// waits in C++ too and passes none of them: its stall is the tail of backward.
#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

// The collective that this wait is for: the one whose post hook announced this Work, else the synchronous one just
// issued by this thread, else the last one issued here (the same on all ranks that run the same program). Post hooks
// are not registered before a wait of the third kind was seen: most jobs never need them.
LastIssue waited_for(PyObject* work) {
  LastIssue& last = last_issue();
  LastIssue found = last;
  const bool announced = work && find_work(pybind_key(work), found);
  if (!announced && !last.fresh && work && g_hooks.pybind_head) g_hooks.tick_bits |= kTickWorkKeys;
  last.fresh = false;
  if (found.group == 0) {  // no process-group hooks in this torch: count the waits themselves
    found.group = g_hooks.default_group;
    found.sequence = g_hooks.waits++;
  }
  return found;
}

void wait_mark(Edge edge, const LastIssue& issue) {
  mark(Kind::kWait, edge, issue.group, issue.sequence, 0, issue.detail, issue.flags);
}

PyObject* work_wait(const Call& call) {
  if (!active()) return call.proceed();
  const LastIssue issue = waited_for(call.argument(0, "self"));
  wait_mark(Edge::kBegin, issue);
  gpu_wait_point(GpuWaitPoint::kWork, Edge::kBegin);
  PyObject* result = call.proceed();
  gpu_wait_point(GpuWaitPoint::kWork, Edge::kEnd);
  wait_mark(Edge::kEnd, issue);
  if (g_hooks.stamping && result)
    mark(Kind::kCollectiveDone, Edge::kMark, issue.group, issue.sequence, 0, issue.detail, issue.flags);
  return result;
}

PyObject* wrap_work_wait(PyObject*, PyObject* type) {
  return stand_in_method(type, "wait", work_wait) ? none() : nullptr;
}

PyObject* wait_tensor(const Call& call) {
  if (!active()) return call.proceed();
  const LastIssue issue = waited_for(nullptr);
  wait_mark(Edge::kBegin, issue);
  PyObject* result = call.proceed();
  wait_mark(Edge::kEnd, issue);
  return result;
}

PyObject* wrap_wait_tensor(PyObject*, PyObject* original) { return stand_in(original, wait_tensor); }

// The call issues its operations and waits for them; the wait is told as one for the first of them.
template <CollectiveOp op>
PyObject* group_call(const Call& call) {
  if (!active()) return call.proceed();
  LastIssue issue{.detail = static_cast<uint64_t>(op)};
  if (!next_issue(call.argument(0, "process_group"), issue)) issue = waited_for(nullptr);
  wait_mark(Edge::kBegin, issue);
  gpu_wait_point(GpuWaitPoint::kWork, Edge::kBegin);
  PyObject* result = call.proceed();
  gpu_wait_point(GpuWaitPoint::kWork, Edge::kEnd);
  wait_mark(Edge::kEnd, issue);
  return result;
}

PyObject* wrap_broadcast(PyObject*, PyObject* original) {
  return stand_in(original, group_call<CollectiveOp::kBroadcast>);
}
PyObject* wrap_all_gather(PyObject*, PyObject* original) {
  return stand_in(original, group_call<CollectiveOp::kAllGather>);
}

// tell_issue(group, sequence, op): what this thread is about to wait for, from who has counted it; group 0 = no more.
PyObject* tell_issue(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) {
    PyErr_SetString(PyExc_TypeError, "tell_issue(group, sequence, op)");
    return nullptr;
  }
  LastIssue issue{.group = PyLong_AsUnsignedLongLong(args[0]),
                  .sequence = PyLong_AsUnsignedLongLong(args[1]),
                  .detail = PyLong_AsUnsignedLongLong(args[2])};
  if (PyErr_Occurred()) return nullptr;
  issue.fresh = issue.group != 0;
  last_issue() = issue;
  return none();
}

PyMethodDef g_functions[] = {
    {"wrap_work_wait", as_method(wrap_work_wait), METH_O, "wrap_work_wait(Work): marks around its wait()."},
    {"wrap_wait_tensor", as_method(wrap_wait_tensor), METH_O, "wrap_wait_tensor(original) -> wait_tensor"},
    {"wrap_broadcast", as_method(wrap_broadcast), METH_O,
     "wrap_broadcast(original): marks around a function of c10d that broadcasts in the group of its first argument."},
    {"tell_issue", as_method(tell_issue), METH_FASTCALL,
     "tell_issue(group, sequence, op): what this thread is about to wait for; group 0 = nothing that is known."},
    {"wrap_all_gather", as_method(wrap_all_gather), METH_O, "wrap_all_gather(original): the same of one that gathers."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_wait_functions(PyObject* module) { return PyModule_AddFunctions(module, g_functions); }

}  // namespace stepscope::recorder
