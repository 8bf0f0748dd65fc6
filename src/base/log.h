// The agent's own log: one line per event with its time, in a file that is made by the first line. Never to the user's
// terminal. A log that cannot be written is dropped without a word: it must not be a reason to fail. Bounded: after
// kMaxLines the rest is counted only. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace stepscope {

class Log {
 public:
  static constexpr uint32_t kMaxLines = 2000;

  explicit Log(std::string path = "") : path_(std::move(path)) {}
  void line(std::string_view text);

 private:
  std::string path_;
  Fd fd_;
  uint32_t lines_ = 0;
};

}  // namespace stepscope
