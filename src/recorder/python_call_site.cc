#include "recorder/python_call_site.h"

#include <cstring>
#include <string>

#include "recorder/recorder.h"

namespace stepscope::recorder {
namespace {

constexpr int kMaxDepth = 24;
constexpr size_t kCached = 512;  // power of two
constexpr size_t kProbes = 8;

struct Site {
  PyObject* code = nullptr;  // owned: a freed code object's address may come back as another's
  int line = 0;
  bool library = false;
  std::string text;
};
struct CachedName {
  const Site *user = nullptr, *inner = nullptr;
  uint64_t id = 0;
};

Site* g_sites[kCached];
CachedName g_names[kCached];

uint64_t fnv(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h | 1;  // 0 means unknown
}

const char* tail(const char* path, int parts) {
  const char* p = path + std::strlen(path);
  while (p > path && parts > 0)
    if (*--p == '/' && --parts == 0) return p + 1;
  return path;
}

bool is_library(const char* path) {
  return std::strstr(path, "/site-packages/") || std::strstr(path, "/dist-packages/") || std::strstr(path, "/torch/") ||
         std::strstr(path, "/stepscope/") || path[0] == '<';
}

// Entries stay for ever: a program has few lines that block, and names in the ring cannot be taken back.
const Site* site_of(PyObject* frame) {
  const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame))));
  const int line = PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame));
  const uint64_t hash = (id_of(code.get()) >> 4) * 0x9e3779b97f4a7c15ull ^ static_cast<uint64_t>(line);
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Site*& slot = g_sites[(hash + probe) & (kCached - 1)];
    if (slot && (slot->code != code.get() || slot->line != line)) continue;
    if (slot) return slot;
    const Ref file(PyObject_GetAttrString(code.get(), "co_filename"));
    if (!file) return drop_error(), nullptr;
    const char* path = utf8(file.get());
    const bool library = is_library(path);
    slot = new Site{code.get(), line, library, std::string(tail(path, library ? 3 : 1)) + ":" + std::to_string(line)};
    Py_INCREF(code.get());
    return slot;
  }
  return nullptr;
}

uint64_t name_of(const Site* user, const Site* inner) {
  const uint64_t hash = id_of(user) >> 4 ^ id_of(inner) >> 7;
  for (size_t probe = 0; probe < kProbes; ++probe) {
    CachedName& cached = g_names[(hash + probe) & (kCached - 1)];
    if (cached.id && (cached.user != user || cached.inner != inner)) continue;
    if (cached.id) return cached.id;
    const std::string text = inner != user ? user->text + " (" + inner->text + ")" : user->text;
    const uint64_t id = fnv(text);
    if (name(NameKind::kCallSite, id, text)) cached = {user, inner, id};
    return id;
  }
  return 0;
}

}  // namespace

namespace {

uint64_t find_call_site() {
  PyFrameObject* top = PyEval_GetFrame();  // borrowed
  if (!top) return 0;
  Py_INCREF(top);
  Ref frame(reinterpret_cast<PyObject*>(top));
  const Site *inner = nullptr, *user = nullptr;
  for (int depth = 0; depth < kMaxDepth && frame && frame.get() != Py_None; ++depth) {
    const Site* site = site_of(frame.get());
    if (!site) break;
    if (!inner) inner = site;
    if (!site->library) {
      user = site;
      break;
    }
    frame = Ref(PyObject_GetAttrString(frame.get(), "f_back"));
  }
  drop_error();
  if (!inner) return 0;
  return name_of(user ? user : inner, inner);
}

}  // namespace

uint64_t call_site() noexcept {
  const KeepError keep;
  try {
    return find_call_site();
  } catch (...) {  // no memory: a pause without a name
    return 0;
  }
}

}  // namespace stepscope::recorder
