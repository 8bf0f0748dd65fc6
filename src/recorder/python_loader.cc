// DataLoader: the time the training thread waits for a batch, and what the queue looked like.
#include "blackbox/layout.h"
#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

PyObject *g_new_loader = nullptr, *g_str_loader = nullptr, *g_str_workers = nullptr, *g_str_outstanding = nullptr,
         *g_str_queue = nullptr, *g_str_qsize = nullptr, *g_str_info = nullptr, *g_str_items = nullptr,
         *g_str_sem = nullptr, *g_str_semlock = nullptr, *g_str_get_value = nullptr, *g_str_maxsize = nullptr;

struct Queue {
  uint64_t in_flight = 0, ready = 0, out_of_order = 0;
};

// Batches that arrived before their turn: entries (worker, data) instead of (worker,).
uint64_t out_of_order(PyObject* task_info) {
  if (!task_info || !PyDict_Check(task_info)) return 0;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  uint64_t count = 0;
  while (PyDict_Next(task_info, &at, &key, &value))
    if (PyTuple_Check(value) && PyTuple_Size(value) == 2) ++count;
  return count;
}

// How a type of queue tells its length. The standard ones are read without their Python code: quicker, and no signal
// handler speaks in it.
enum class Way : uint8_t { kItems, kSemaphore, kAsk };

bool same_method(PyObject* type, PyObject* other, PyObject* name) {
  const Ref own = attribute(type, name);
  return own && own.get() == attribute(other, name).get();
}

Ref standard_type(const char* module, const char* name) {
  const Ref text(PyUnicode_FromString(module));
  const Ref found(text ? PyImport_GetModule(text.get()) : nullptr);
  Ref type(found ? PyObject_GetAttrString(found.get(), name) : nullptr);
  drop_error();
  return type;
}

Way way_of(PyObject* type) {
  static PyObject* known = nullptr;  // owned
  static Way way = Way::kAsk;
  if (type == known) return way;
  hold(known, type);
  const Ref threads = standard_type("queue", "Queue"), processes = standard_type("multiprocessing.queues", "Queue");
  way = same_method(type, threads.get(), g_str_qsize)     ? Way::kItems
        : same_method(type, processes.get(), g_str_qsize) ? Way::kSemaphore
                                                          : Way::kAsk;
  return way;
}

uint64_t waiting_in(PyObject* queue) {
  if (!queue) return 0;
  switch (way_of(reinterpret_cast<PyObject*>(Py_TYPE(queue)))) {
    case Way::kItems: {
      const Ref items = attribute(queue, g_str_items);
      const Py_ssize_t size = items ? PyObject_Size(items.get()) : 0;
      if (size < 0) drop_error();
      return size < 0 ? 0 : static_cast<uint64_t>(size);
    }
    case Way::kSemaphore: {
      const Ref get = attribute(attribute(attribute(queue, g_str_sem).get(), g_str_semlock).get(), g_str_get_value);
      const Ref left(get ? PyObject_CallFunctionObjArgs(get.get(), nullptr) : nullptr);
      if (!left) return drop_error(), 0;
      const uint64_t most = as_u64(attribute(queue, g_str_maxsize).get()), free = as_u64(left.get());
      return most > free ? most - free : 0;
    }
    case Way::kAsk: break;
  }
  const Ref qsize = attribute(queue, g_str_qsize);
  const Ref size(qsize ? PyObject_CallFunctionObjArgs(qsize.get(), nullptr) : nullptr);
  if (!size) drop_error();
  return as_u64(size.get());
}

Queue queue_of(PyObject* iterator) {
  Queue q;
  const Ref workers = attribute(iterator, g_str_workers);
  if (as_u64(workers.get()) == 0) return q;  // no queue in the process itself
  q.in_flight = as_u64(attribute(iterator, g_str_outstanding).get());
  q.out_of_order = out_of_order(attribute(iterator, g_str_info).get());
  q.ready = waiting_in(attribute(iterator, g_str_queue).get());
  return q;
}

uint64_t loader_of(PyObject* iterator) {
  const Ref known = attribute(iterator, g_str_loader);
  if (known) return as_u64(known.get());
  const Ref made = call_quietly(g_new_loader, iterator);  // an iterator that DataLoader.__iter__ did not make
  return made ? as_u64(made.get()) : id_of(iterator);
}

PyObject* loader_next(const Call& call) {
  PyObject* self = call.argument(0, "self");
  if (!active() || !self) return call.proceed();
  const uint64_t loader = loader_of(self);
  if (interrupted()) return nullptr;
  mark(Kind::kFetch, Edge::kBegin, loader);
  PyObject* batch = call.proceed();
  uint16_t flags = 0;
  if (!batch) flags = PyErr_ExceptionMatches(PyExc_StopIteration) ? kFetchStop : kFetchError;
  KeepError keep;
  const Queue q = queue_of(self);
  mark(Kind::kFetch, Edge::kEnd, loader, q.in_flight, q.ready, q.out_of_order, flags);
  if (const BatchShape shape = shape_of_batch(batch); shape.samples > 0)
    mark(Kind::kShape, Edge::kMark, shape.samples, shape.tokens);
  return batch;
}

// wrap_loader_next(type, new_loader): `new_loader(iterator)` gives an iterator its loader id.
PyObject* wrap_loader_next(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) {
    PyErr_SetString(PyExc_TypeError, "wrap_loader_next(type, new_loader)");
    return nullptr;
  }
  if (!stand_in_method(args[0], "__next__", loader_next)) return nullptr;
  hold(g_new_loader, args[1]);
  return none();
}

// become_worker(path) -> bool: this process writes WorkerFetch records into its parent's ring, and nothing else.
PyObject* become_worker(PyObject*, PyObject* path) {
  g_hooks.role = Role::kWorker;
  return PyBool_FromLong(adopt_as_worker(utf8(path)));
}

PyObject* py_worker_mark(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n >= 4) worker_mark(static_cast<Edge>(as_u64(args[0])), as_u64(args[1]), as_u64(args[2]), as_u64(args[3]));
  return none();
}

PyObject* may_be_rank(PyObject*, PyObject*) { return PyBool_FromLong(g_hooks.role == Role::kUndecided); }

PyMethodDef g_functions[] = {
    {"wrap_loader_next", as_method(wrap_loader_next), METH_FASTCALL, "Marks around _BaseDataLoaderIter.__next__."},
    {"become_worker", as_method(become_worker), METH_O, "become_worker(path) -> bool"},
    {"worker_mark", as_method(py_worker_mark), METH_FASTCALL, "worker_mark(edge, worker, loader, items)"},
    {"may_be_rank", as_method(may_be_rank), METH_NOARGS, "False in loader workers and children of a rank."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_loader_functions(PyObject* module) {
  g_str_loader = PyUnicode_InternFromString("_stepscope_loader");
  g_str_workers = PyUnicode_InternFromString("_num_workers");
  g_str_outstanding = PyUnicode_InternFromString("_tasks_outstanding");
  g_str_queue = PyUnicode_InternFromString("_data_queue");
  g_str_qsize = PyUnicode_InternFromString("qsize");
  g_str_info = PyUnicode_InternFromString("_task_info");
  g_str_items = PyUnicode_InternFromString("queue");
  g_str_sem = PyUnicode_InternFromString("_sem");
  g_str_semlock = PyUnicode_InternFromString("_semlock");
  g_str_get_value = PyUnicode_InternFromString("_get_value");
  g_str_maxsize = PyUnicode_InternFromString("_maxsize");
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
