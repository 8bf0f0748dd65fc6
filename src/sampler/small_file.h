// Reads the kernel's small text files into one reused buffer and picks numbers out of them. Every parser here takes any
// bytes: what does not parse is nullopt, never a crash and never a guess.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

// One thread. A view that read() returned is valid until the next read().
class SmallFile {
 public:
  // The file `name` in the folder `dir_fd` (AT_FDCWD for absolute names); nullopt when it cannot be opened or read,
  // with errno in error(). Files beyond 1 MiB are cut.
  std::optional<std::string_view> read(int dir_fd, const char* name);
  int error() const { return error_; }

 private:
  std::vector<char> buffer_ = std::vector<char>(8192);
  int error_ = 0;
};

// Unsigned decimal at the begin of `text` (spaces and tabs skipped); consumes it. nullopt: no digit, or beyond 64 bit.
std::optional<uint64_t> take_u64(std::string_view& text);
// The next word (separated by blanks or line ends); empty at the end.
std::string_view take_word(std::string_view& text);
// The next line without its end; consumes it.
std::string_view take_line(std::string_view& text);
// Number after `key` at the begin of a line: "MemTotal:  123 kB", "nr_throttled 5".
std::optional<uint64_t> value_of(std::string_view text, std::string_view key);
// How many numbers a kernel list such as "0-3,8,10-11" holds.
std::optional<int> count_list(std::string_view list);

}  // namespace stepscope
