// Issue of collectives: process-group pre hooks (torch 2.14 and newer), one C callable per group.
//
// A group counts its own collectives (and, apart, point-to-point operations per peer and direction): torch's op_id only
// advances while a hook is registered. All ranks register at the same place of the program, so the counts agree.
#include "python_hooks.h"
#include "work_table.h"

#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace stepscope::recorder {
namespace {

constexpr Py_ssize_t kMostTensors = 256;  // bytes of longer lists are extrapolated

struct Group {
  uint64_t id = 0;
  uint64_t sequence = 0;
  std::vector<int32_t> ranks;            // global rank of each member
  std::vector<uint64_t> sent, received;  // next sequence per member
};

struct Done {  // what a completion callback says
  LastIssue issue;
};

// c10d's HookOpName by number (stable: it is a pybind enum; checked against the names when hooks are set up).
CollectiveOp g_op_of[64] = {};
bool g_scales_with_group[64] = {};  // input is one member's share of the message
bool g_enum_by_memory = false;
constinit thread_local LastIssue t_last{};

WorkTable<LastIssue> g_works;

PyObject *g_str_name = nullptr, *g_str_async = nullptr, *g_str_root = nullptr, *g_str_inputs = nullptr,
         *g_str_outputs = nullptr, *g_str_nbytes = nullptr, *g_str_work = nullptr, *g_str_get_future = nullptr,
         *g_str_add_done = nullptr;

int op_number(PyObject* name) {
  if (g_enum_by_memory) {  // pybind enum: a pointer to the C++ value; reading it saves half a microsecond
    const uint64_t at = pybind_key(name);
    if (at) return *reinterpret_cast<const uint8_t*>(at);
  }
  const Ref number(name ? PyNumber_Long(name) : nullptr);
  if (!number) drop_error();
  return static_cast<int>(as_u64(number.get(), 63));
}

// The plain fields of PreHookArgs. Each property of a pybind object costs 0.1 to 0.4 us, more than all the rest, so
// they are read from the C++ object {uint8 name; bool async_op; 2 vectors; int64 root; …} once the first kChecks calls
// have shown that this gives the same. One difference, and the properties are used for good.
struct Fields {
  int number = 63;
  bool async = false;
  int64_t root = -1;
  bool operator==(const Fields&) const = default;
};
constexpr int kChecks = 32;
constexpr size_t kRootOffset = 8 + 2 * sizeof(std::vector<void*>);
int g_checks_left = kChecks;
bool g_fields_in_memory = true;

Fields fields_by_property(PyObject* args) {
  Fields f;
  f.number = op_number(attribute(args, g_str_name).get()) & 63;
  f.async = attribute(args, g_str_async).get() == Py_True;
  const Ref root = attribute(args, g_str_root);
  f.root = static_cast<int64_t>(as_u64(root.get(), ~0ull));
  return f;
}

Fields fields_by_memory(uint64_t at) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(at);
  Fields f{bytes[0] & 63, bytes[1] == 1, -1};
  std::memcpy(&f.root, bytes + kRootOffset, sizeof f.root);
  return f;
}

Fields fields_of(PyObject* args) {
  const uint64_t at = g_fields_in_memory && g_enum_by_memory ? pybind_key(args) : 0;
  if (at && g_checks_left == 0) [[likely]]
    return fields_by_memory(at);
  const Fields f = fields_by_property(args);
  if (at && g_checks_left > 0) {
    --g_checks_left;
    if (!(fields_by_memory(at) == f)) g_fields_in_memory = false;
  }
  return f;
}

uint64_t bytes_of(PyObject* tensors) {
  if (!tensors || !PyList_Check(tensors)) return 0;
  const Py_ssize_t n = PyList_Size(tensors);
  uint64_t bytes = 0;
  for (Py_ssize_t i = 0; i < n && i < kMostTensors; ++i)
    bytes += as_u64(attribute(PyList_GetItem(tensors, i), g_str_nbytes).get());
  return n > kMostTensors ? bytes / kMostTensors * static_cast<uint64_t>(n) : bytes;
}

uint64_t next_p2p(Group& group, CollectiveOp op, int64_t member) {
  auto& counts = op == CollectiveOp::kSend ? group.sent : group.received;
  if (member < 0 || static_cast<size_t>(member) >= counts.size()) return 0;
  return counts[static_cast<size_t>(member)]++;
}

void issue(Group& group, PyObject* args) {
  const Fields fields = fields_of(args);
  const CollectiveOp op = g_op_of[fields.number];
  if (op == CollectiveOp::kUnknown && fields.number != 63) return;  // SPLIT, NEW_WINDOW: no communication of data
  const bool p2p = op == CollectiveOp::kSend || op == CollectiveOp::kRecv;
  const bool async = fields.async;
  LastIssue last{.group = group.id, .detail = static_cast<uint64_t>(op), .fresh = !async};
  if (p2p) {
    const int64_t member = fields.root;
    const bool known = member >= 0 && static_cast<size_t>(member) < group.ranks.size();
    const uint64_t peer = known ? static_cast<uint64_t>(group.ranks[static_cast<size_t>(member)]) : 0xffff;
    last.sequence = next_p2p(group, op, member);
    last.detail |= (peer & 0xffffffff) << 16;
  } else {
    last.sequence = group.sequence++;
  }
  last.flags = static_cast<uint16_t>((async ? kCollectiveAsync : 0) | (p2p ? kCollectiveP2p : 0));
  // Of a scatter only the root has inputs.
  const bool by_output = op == CollectiveOp::kRecv || op == CollectiveOp::kScatter;
  uint64_t bytes = bytes_of(attribute(args, by_output ? g_str_outputs : g_str_inputs).get());
  if (op == CollectiveOp::kRecv && bytes == 0) bytes = bytes_of(attribute(args, g_str_inputs).get());
  if (g_scales_with_group[fields.number]) bytes *= group.ranks.size();
  mark(Kind::kCollective, Edge::kMark, last.group, last.sequence, bytes, last.detail, last.flags);
  t_last = last;
}

Group* group_of(PyObject* self) { return static_cast<Group*>(PyCapsule_GetPointer(self, "stepscope.group")); }

PyObject* collective_pre(PyObject* self, PyObject* args) {
  if (active())
    if (Group* group = group_of(self)) issue(*group, args);
  drop_error();
  return none();
}

// Future done-callback: called on a thread of the backend, with the GIL; what it raises is only printed.
PyObject* collective_done(PyObject* self, PyObject*) {
  if (const auto* done = static_cast<Done*>(PyCapsule_GetPointer(self, "stepscope.done")))
    mark(Kind::kCollectiveDone, Edge::kMark, done->issue.group, done->issue.sequence, 0, done->issue.detail,
         done->issue.flags);
  drop_error();
  Py_RETURN_NONE;
}
PyMethodDef g_done_def = {"stepscope_done", as_method(collective_done), METH_O, nullptr};

void delete_done(PyObject* capsule) { delete static_cast<Done*>(PyCapsule_GetPointer(capsule, "stepscope.done")); }

// reduce_scatter, send and recv have no future on gloo: Work.wait stamps those.
void stamp_when_done(PyObject* work) {
  const Ref get_future = attribute(work, g_str_get_future);
  const Ref future(get_future ? PyObject_CallFunctionObjArgs(get_future.get(), nullptr) : nullptr);
  if (!future) return drop_error();
  std::unique_ptr<Done> done(new (std::nothrow) Done{t_last});
  if (!done) return;
  const Ref capsule(PyCapsule_New(done.get(), "stepscope.done", delete_done));
  if (!capsule) return drop_error();
  done.release();
  const Ref callback(PyCFunction_NewEx(&g_done_def, capsule.get(), nullptr));
  const Ref add = attribute(future.get(), g_str_add_done);
  if (callback && add) Ref(PyObject_CallFunctionObjArgs(add.get(), callback.get(), nullptr));
  drop_error();
}

// Runs right after the pre hook on the same thread: joins the Work object to the collective it belongs to.
PyObject* collective_post(PyObject* self, PyObject* args) {
  Group* group = active() ? group_of(self) : nullptr;
  if (group && t_last.group == group->id) {
    const Ref work = attribute(args, g_str_work);
    if (work && work.get() != Py_None) {
      remember_work(pybind_key(work.get()), t_last);  // synchronous ones too: addresses are used again
      if (g_hooks.stamping) stamp_when_done(work.get());
    }
  }
  drop_error();
  return none();
}

PyMethodDef g_pre_def = {"stepscope_collective_pre", as_method(collective_pre), METH_O, nullptr};
PyMethodDef g_post_def = {"stepscope_collective_post", as_method(collective_post), METH_O, nullptr};

void delete_group(PyObject* capsule) { delete static_cast<Group*>(PyCapsule_GetPointer(capsule, "stepscope.group")); }

// Null without memory.
std::unique_ptr<Group> make_group(uint64_t id, PyObject* ranks) {
  try {
    auto group = std::make_unique<Group>();
    group->id = id;
    for (Py_ssize_t i = 0; i < PyList_Size(ranks); ++i)
      group->ranks.push_back(static_cast<int32_t>(as_u64(PyList_GetItem(ranks, i))));
    group->sent.resize(group->ranks.size());
    group->received.resize(group->ranks.size());
    return group;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// group_hooks(id, ranks) -> (pre, post): `ranks` lists the global rank of each member.
PyObject* group_hooks(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2 || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "group_hooks(id, [global ranks])");
    return nullptr;
  }
  std::unique_ptr<Group> group = make_group(as_u64(args[0]), args[1]);
  if (!group) return PyErr_NoMemory();
  const Ref capsule(PyCapsule_New(group.get(), "stepscope.group", delete_group));
  if (!capsule) return nullptr;
  group.release();
  g_hooks.has_group_hooks = true;
  const Ref pre(PyCFunction_NewEx(&g_pre_def, capsule.get(), nullptr));
  const Ref post(PyCFunction_NewEx(&g_post_def, capsule.get(), nullptr));
  return pre && post ? PyTuple_Pack(2, pre.get(), post.get()) : nullptr;
}

// set_op(number, CollectiveOp, scales): one entry of the table from HookOpName to ours.
PyObject* set_op(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const uint64_t number = n > 0 ? as_u64(args[0]) : 64;
  if (n < 3 || number > 62) return none();
  g_op_of[number] = static_cast<CollectiveOp>(as_u64(args[1]));
  g_scales_with_group[number] = args[2] == Py_True;
  return none();
}

// trust_pybind(head_bytes, [(enum member, number), …]) -> bool: reading through the object must give every number.
PyObject* trust_pybind(PyObject*, PyObject* const* args, Py_ssize_t n) {
  g_enum_by_memory = false;
  g_hooks.pybind_head = n > 0 ? static_cast<Py_ssize_t>(as_u64(args[0])) : 0;
  if (n < 2 || !PyList_Check(args[1]) || g_hooks.pybind_head == 0) Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; i < PyList_Size(args[1]); ++i) {
    PyObject* pair = PyList_GetItem(args[1], i);
    const uint64_t at = pybind_key(PyTuple_GetItem(pair, 0));
    if (at == 0 || *reinterpret_cast<const uint8_t*>(at) != as_u64(PyTuple_GetItem(pair, 1))) Py_RETURN_FALSE;
  }
  g_enum_by_memory = PyList_Size(args[1]) > 0;
  return PyBool_FromLong(g_enum_by_memory);
}

// An address says which collective a Work belongs to only as long as every Work is announced.
PyObject* forget_works(PyObject*, PyObject*) {
  g_works.clear();
  return none();
}

PyMethodDef g_functions[] = {
    {"group_hooks", as_method(group_hooks), METH_FASTCALL, "group_hooks(id, ranks) -> (pre, post)"},
    {"set_op", as_method(set_op), METH_FASTCALL, "set_op(number, op, scales_with_group)"},
    {"forget_works", as_method(forget_works), METH_NOARGS, "To be called when the post hooks are taken off."},
    {"trust_pybind", as_method(trust_pybind), METH_FASTCALL, "trust_pybind(head_bytes, members) -> bool"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

LastIssue& last_issue() noexcept { return t_last; }

bool next_issue(PyObject* process_group, LastIssue& issue) noexcept {
  if (!g_hooks.pre_hooks || !process_group) return false;
  const Ref key(PyLong_FromVoidPtr(process_group));
  PyObject* pre = key ? PyDict_GetItem(g_hooks.pre_hooks, key.get()) : nullptr;  // borrowed
  const Group* group = pre ? group_of(PyCFunction_GetSelf(pre)) : nullptr;
  drop_error();
  if (!group) return false;
  issue.group = group->id;
  issue.sequence = group->sequence;
  return true;
}

void remember_work(uint64_t key, const LastIssue& issue) noexcept { g_works.remember(key, issue); }

bool find_work(uint64_t key, LastIssue& issue) noexcept {
  const LastIssue* known = g_works.find(key);
  if (known) issue = *known;
  return known != nullptr;
}

int add_collective_functions(PyObject* module) {
  g_str_name = PyUnicode_InternFromString("name");
  g_str_async = PyUnicode_InternFromString("async_op");
  g_str_root = PyUnicode_InternFromString("root");
  g_str_inputs = PyUnicode_InternFromString("input_tensors");
  g_str_outputs = PyUnicode_InternFromString("output_tensors");
  g_str_nbytes = PyUnicode_InternFromString("nbytes");
  g_str_work = PyUnicode_InternFromString("work");
  g_str_get_future = PyUnicode_InternFromString("get_future");
  g_str_add_done = PyUnicode_InternFromString("add_done_callback");
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
