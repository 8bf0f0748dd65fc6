// What a training writes while a view covers the terminal: kept byte by byte, to be shown afterwards. All of it goes
// into a file where there is one; the newest kMaxBytes stay in memory, and with the file beyond that nothing is lost.
// Failure (disk full): the file ends where it ends, which show() says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"

namespace stepscope {

class KeptOutput {
 public:
  static constexpr size_t kMaxBytes = 1u << 20;

  // `path` "": memory only. The file is made with the first byte.
  explicit KeptOutput(std::string path) : path_(std::move(path)) {}

  void add(std::string_view bytes);
  bool empty() const { return total_ == 0; }

  // Everything to `fd`; of more than kMaxBytes the newest, from the beginning of a line. Returns what is to be said of
  // the rest, "" = it was all.
  std::string show(int fd);

 private:
  std::string path_, newest_;
  Fd file_;
  uint64_t total_ = 0, in_file_ = 0;
};

}  // namespace stepscope
