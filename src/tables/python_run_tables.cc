// stepscope._run_tables: run files as Arrow streams (limited API 3.10). A module of its own: it links the store room,
// SQLite and zstd, which training processes have no use for.
//
// What fails raises RunError with one line that names the file. The GIL is released while the file is read.
#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <new>
#include <string>

#include "blackbox/text.h"
#include "tables/arrow_export.h"
#include "tables/run_tables.h"

namespace {

using namespace stepscope;

PyObject* g_run_error = nullptr;

struct RunFile {
  std::string path;
  std::shared_ptr<tables::Damage> damage = std::make_shared<tables::Damage>();
};

struct RunFileObject {
  PyObject_HEAD;
  RunFile* file;
};

RunFile& file_of(PyObject* self) { return *reinterpret_cast<RunFileObject*>(self)->file; }

PyObject* text(std::string_view bytes) {
  const std::string sound = blackbox::printable(bytes);
  return PyUnicode_FromStringAndSize(sound.data(), static_cast<Py_ssize_t>(sound.size()));
}

// Paths in messages may be any bytes.
PyObject* raise(const Error& error) {
  const auto size = static_cast<Py_ssize_t>(error.message.size());
  if (PyObject* line = PyUnicode_DecodeFSDefaultAndSize(error.message.data(), size)) {
    PyErr_SetObject(g_run_error, line);
    Py_DECREF(line);
  }
  return nullptr;
}

// Runs `work` without the GIL; `work` touches nothing of Python's. nullopt: MemoryError is raised.
template <class Work>
auto unlocked(Work work) -> std::optional<decltype(work())> {
  std::optional<decltype(work())> result;
  Py_BEGIN_ALLOW_THREADS;
  try {
    result.emplace(work());
  } catch (const std::bad_alloc&) {
    result.reset();
  }
  Py_END_ALLOW_THREADS;
  if (!result) PyErr_NoMemory();
  return result;
}

// A capsule that releases what is in it unless a consumer has taken it over.
template <class Struct>
PyObject* capsule(std::unique_ptr<Struct> what, const char* name) {
  PyObject* out = PyCapsule_New(what.get(), name, [](PyObject* self) {
    auto* held = static_cast<Struct*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (!held) return PyErr_Clear();
    if (held->release) held->release(held);
    delete held;
  });
  if (out) return what.release(), out;
  if (what->release) what->release(what.get());
  return nullptr;
}

PyObject* make_run_file(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* path = nullptr;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return nullptr;
  const std::string text_of_path = PyBytes_AsString(path);
  Py_DECREF(path);
  const auto run = unlocked([&]() -> Result<StoredRun> {
    auto reader = RunReader::open(text_of_path);
    if (!reader) return std::unexpected(reader.error());
    return reader->run();
  });
  if (!run) return nullptr;
  if (!*run) return raise(run->error());
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* self = allocate(type, 0);
  if (self) reinterpret_cast<RunFileObject*>(self)->file = new RunFile{text_of_path};
  return self;
}

void free_run_file(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<RunFileObject*>(self)->file;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* stream(PyObject* self, PyObject* args) {
  const char* table = nullptr;
  if (!PyArg_ParseTuple(args, "s", &table)) return nullptr;
  const RunFile& file = file_of(self);
  auto opened = unlocked([&] { return tables::open_table(file.path, table, file.damage); });
  if (!opened) return nullptr;
  if (!*opened) return raise(opened->error());
  auto out = std::make_unique<ArrowArrayStream>();
  tables::export_stream(std::move((*opened)->source), std::move((*opened)->notes), out.get());
  return capsule(std::move(out), "arrow_array_stream");
}

PyObject* schema(PyObject* self, PyObject* args) {
  const char* table = nullptr;
  if (!PyArg_ParseTuple(args, "s", &table)) return nullptr;
  const RunFile& file = file_of(self);
  auto opened = unlocked([&] { return tables::open_table(file.path, table); });
  if (!opened) return nullptr;
  if (!*opened) return raise(opened->error());
  auto out = std::make_unique<ArrowSchema>();
  tables::export_schema((*opened)->source->fields(), (*opened)->notes, out.get());
  return capsule(std::move(out), "arrow_schema");
}

// Takes both references; false with an error pending.
bool put(PyObject* dict, const char* key, PyObject* value) {
  const bool done = value && PyDict_SetItemString(dict, key, value) == 0;
  Py_XDECREF(value);
  return done;
}

PyObject* list_of(const std::vector<std::string>& words) {
  PyObject* list = PyList_New(0);
  for (const std::string& word : words) {
    PyObject* item = list ? text(word) : nullptr;
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject* dict_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  PyObject* dict = PyDict_New();
  for (const auto& [key, value] : pairs)
    if (dict && !put(dict, blackbox::printable(key).c_str(), text(value))) Py_CLEAR(dict);
  return dict;
}

PyObject* or_none(int value) { return value < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(value); }

PyObject* run(PyObject* self, PyObject*) {
  const RunFile& file = file_of(self);
  const auto told = unlocked([&]() -> Result<StoredRun> {
    auto reader = RunReader::open(file.path);
    if (!reader) return std::unexpected(reader.error());
    return reader->run();
  });
  if (!told) return nullptr;
  if (!*told) return raise(told->error());
  const StoredRun& r = **told;
  PyObject* dict = PyDict_New();
  const bool done =
      dict && put(dict, "name", text(r.name)) && put(dict, "status", text(r.status)) &&
      put(dict, "started_at", text(r.started_at)) && put(dict, "duration_s", PyFloat_FromDouble(r.duration_s)) &&
      put(dict, "world_size", PyLong_FromLong(r.world_size)) && put(dict, "nodes", PyLong_FromLong(r.nodes)) &&
      put(dict, "attempts", PyLong_FromLong(r.attempts)) && put(dict, "exit_code", or_none(r.exit_code)) &&
      put(dict, "command", list_of(r.command)) && put(dict, "versions", dict_of(r.versions));
  if (!done) Py_CLEAR(dict);
  return dict;
}

PyObject* summary(PyObject* self, PyObject*) {
  const RunFile& file = file_of(self);
  const auto told = unlocked([&]() -> Result<std::optional<std::string>> {
    auto reader = RunReader::open(file.path);
    if (!reader) return std::unexpected(reader.error());
    return reader->snapshot();
  });
  if (!told) return nullptr;
  if (!*told) return raise(told->error());
  return **told ? text(***told) : Py_NewRef(Py_None);
}

PyObject* damage(PyObject* self, PyObject*) {
  const tables::Damage& damage = *file_of(self).damage;
  const auto first = damage.first.load();
  PyObject* what = text(first ? *first : "");
  if (!what) return nullptr;
  return Py_BuildValue("KN", static_cast<unsigned long long>(damage.pieces.load()), what);
}

PyObject* columns(PyObject*, PyObject* args) {
  const char* table = nullptr;
  if (!PyArg_ParseTuple(args, "s", &table)) return nullptr;
  const auto fields = tables::fields_of(table);
  if (!fields) return raise(fields.error());
  tables::Notes units;
  for (const tables::Field& field : *fields) units.emplace_back(field.name, field.unit);
  return dict_of(units);
}

PyObject* table_names(PyObject*, PyObject*) {
  tables::Notes all;
  for (const tables::TableInfo& table : tables::run_tables()) all.emplace_back(table.name, table.about);
  return dict_of(all);
}

PyMethodDef g_methods[] = {
    {"stream", stream, METH_VARARGS, "A fresh arrow_array_stream capsule of the table's rows."},
    {"schema", schema, METH_VARARGS, "An arrow_schema capsule of the table."},
    {"run", run, METH_NOARGS, "What the file says of the run."},
    {"summary", summary, METH_NOARGS, "The newest summary in the file as JSON, or None."},
    {"damage", damage, METH_NOARGS, "(pieces that were left out of what was read so far, what was wrong first)"},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot g_slots[] = {
    {Py_tp_doc, const_cast<char*>("One run.db; raises RunError where it cannot be read.")},
    {Py_tp_new, reinterpret_cast<void*>(make_run_file)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_run_file)},
    {Py_tp_methods, g_methods},
    {0, nullptr},
};

PyType_Spec g_type = {"stepscope._run_tables.RunFile", sizeof(RunFileObject), 0, Py_TPFLAGS_DEFAULT, g_slots};

PyMethodDef g_functions[] = {
    {"columns", columns, METH_VARARGS, "Names of a table's columns and their units."},
    {"tables", table_names, METH_NOARGS, "Names of the tables and what they hold."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef g_module = {
    PyModuleDef_HEAD_INIT,
    "stepscope._run_tables",
    "Run files as Arrow streams.",
    -1,
    g_functions,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

// Takes the reference.
bool add(PyObject* module, const char* name, PyObject* value) {
  if (value && PyModule_AddObject(module, name, value) == 0) return true;
  Py_XDECREF(value);
  return false;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__run_tables(void) {
  PyObject* module = PyModule_Create(&g_module);
  if (!module) return nullptr;
  g_run_error = PyErr_NewExceptionWithDoc(
      "stepscope.RunError", "A run file that cannot be read: one line that names it and says why.", nullptr, nullptr);
  Py_XINCREF(g_run_error);
  if (add(module, "RunError", g_run_error) && add(module, "RunFile", PyType_FromSpec(&g_type))) return module;
  Py_DECREF(module);
  return nullptr;
}
