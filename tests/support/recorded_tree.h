// A copy of a recorded /proc and /sys tree (tests/data/proc/<name>) that a test may change.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sampler/proc_root.h"
#include "scratch_folder.h"

namespace stepscope::testing {

class RecordedTree {
 public:
  explicit RecordedTree(const std::string& name) {
    if (!name.empty()) std::filesystem::copy(std::string(SS_SOURCE_DIR) + "/tests/data/proc/" + name, folder_.path(),
                                             std::filesystem::copy_options::recursive);
    std::filesystem::create_directories(folder_.path() + "/proc");
    std::filesystem::create_directories(folder_.path() + "/sys");
  }

  ProcRoot roots() const { return {folder_.path() + "/proc", folder_.path() + "/sys"}; }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << text;
  }
  // Replaces the first occurrence; false when there is none.
  bool edit(const std::string& name, const std::string& from, const std::string& to) {
    std::string text = read(name);
    const size_t at = text.find(from);
    if (at == std::string::npos) return false;
    write(name, text.replace(at, from.size(), to));
    return true;
  }
  // The line that begins with `key` gets a new rest.
  bool set(const std::string& name, const std::string& key, const std::string& rest) {
    const std::string text = read(name);
    size_t at = text.starts_with(key) ? 0 : text.find("\n" + key);
    if (at == std::string::npos) return false;
    if (at > 0) ++at;
    const size_t end = text.find('\n', at);
    write(name, text.substr(0, at) + key + rest + text.substr(end));
    return true;
  }
  void remove(const std::string& name) { std::filesystem::remove_all(path(name)); }

 private:
  ScratchFolder folder_;
};

}  // namespace stepscope::testing
