#include "sampler/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"

namespace stepscope {
namespace {

constexpr size_t kMaxBytes = 1u << 20;
constexpr uint64_t kMaxListed = 1u << 20;

bool blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

std::optional<std::string_view> SmallFile::read(int dir_fd, const char* name) {
  const Fd fd(::openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    error_ = errno;
    return std::nullopt;
  }
  size_t size = 0;
  for (;;) {
    if (size == buffer_.size()) {
      if (buffer_.size() >= kMaxBytes) break;
      buffer_.resize(buffer_.size() * 2);
    }
    const ssize_t n = ::read(fd.get(), buffer_.data() + size, buffer_.size() - size);
    if (n < 0) {
      if (errno == EINTR) continue;
      error_ = errno;
      return std::nullopt;
    }
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  error_ = 0;
  return std::string_view(buffer_.data(), size);
}

std::optional<uint64_t> take_u64(std::string_view& text) {
  size_t i = 0;
  while (i < text.size() && blank(text[i])) ++i;
  const size_t begin = i;
  uint64_t value = 0;
  bool overflow = false;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    const auto digit = static_cast<uint64_t>(text[i] - '0');
    overflow |= __builtin_mul_overflow(value, uint64_t{10}, &value) || __builtin_add_overflow(value, digit, &value);
  }
  if (i == begin) return std::nullopt;
  text.remove_prefix(i);
  return overflow ? std::nullopt : std::optional(value);
}

std::string_view take_word(std::string_view& text) {
  size_t i = 0;
  while (i < text.size() && (blank(text[i]) || text[i] == '\n')) ++i;
  size_t end = i;
  while (end < text.size() && !blank(text[end]) && text[end] != '\n') ++end;
  const std::string_view word = text.substr(i, end - i);
  text.remove_prefix(end);
  return word;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::optional<uint64_t> value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (!line.empty() && line.front() == ':')
      line.remove_prefix(1);
    else if (line.empty() || !blank(line.front()))
      continue;
    return take_u64(line);
  }
  return std::nullopt;
}

std::optional<int> count_list(std::string_view list) {
  uint64_t count = 0;
  bool any = false;
  while (!list.empty() && list.front() != '\n') {
    const auto first = take_u64(list);
    if (!first) return std::nullopt;
    uint64_t last = *first;
    if (!list.empty() && list.front() == '-') {
      list.remove_prefix(1);
      const auto end = take_u64(list);
      if (!end || *end < *first) return std::nullopt;
      last = *end;
    }
    if (last - *first >= kMaxListed || count > kMaxListed) return std::nullopt;
    count += last - *first + 1;
    any = true;
    if (!list.empty() && list.front() == ',')
      list.remove_prefix(1);
    else if (!list.empty() && list.front() != '\n')
      return std::nullopt;
  }
  return any ? std::optional(static_cast<int>(count)) : std::nullopt;
}

}  // namespace stepscope
