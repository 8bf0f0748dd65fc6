#include "cli/python_env.h"

#include <limits.h>
#include <unistd.h>

#include <vector>

#include "base/file.h"

namespace stepscope {
namespace {

std::string parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_inject_folder(const std::string& path) { return is_file(path_join(path, "sitecustomize.py")); }

}  // namespace

std::string own_binary_path() {
  char buffer[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", buffer, sizeof buffer - 1);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
}

std::string find_python(const std::string& own_binary) {
  for (const char* name : {"python", "python3"}) {
    const std::string path = path_join(parent(own_binary), name);
    if (!own_binary.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return "python3";
}

std::string find_inject_folder(const std::string& own_binary, const std::string& hint) {
  std::vector<std::string> candidates;
  if (!hint.empty()) {
    candidates = {hint, path_join(hint, "_inject"), path_join(hint, "stepscope/_inject")};
  } else {
    const std::string prefix = parent(parent(own_binary));
    for (const char* lib : {"lib", "lib64"}) {
      const std::string folder = path_join(prefix, lib);
      auto names = list_dir(folder, 4096);
      if (!names) continue;
      for (const std::string& name : *names) {
        if (name.starts_with("python3")) candidates.push_back(folder + "/" + name + "/site-packages/stepscope/_inject");
      }
    }
    // A checkout: the binary lies somewhere below its root (.venv/bin, build/<preset>/src/cli).
    std::string at = parent(own_binary);
    for (int level = 0; level < 6 && at.size() > 1; ++level, at = parent(at)) {
      candidates.push_back(path_join(at, "python/stepscope/_inject"));
    }
  }
  for (const std::string& path : candidates) {
    if (is_inject_folder(path)) return path;
  }
  return "";
}

std::string python_path(const std::string& inject_folder, const std::string& users_path) {
  std::string result = inject_folder;
  if (!users_path.empty()) result += ":" + users_path;  // an empty part would mean the current folder
  return result;
}

}  // namespace stepscope
