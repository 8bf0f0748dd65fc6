#include "align/number_ranges.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace stepscope {

namespace {

constexpr size_t kMostNumbers = 1u << 20;  // a text from outside must not make millions of them

// The numbers of "3", "0-7" or "0-56:8" at `p`; advances it. False at anything else.
bool parse_one(const char*& p, std::vector<int>& numbers) {
  auto number = [&](long& value) {
    char* next = nullptr;
    value = std::strtol(p, &next, 10);
    const bool good = next != p && value >= 0 && value <= INT32_MAX;
    p = next;
    return good;
  };
  long first = 0, step = 1;
  if (!number(first)) return false;
  long last = first;
  if (*p == '-' && (++p, !number(last))) return false;
  if (*p == ':' && (++p, !number(step) || step == 0)) return false;
  for (long n = first; n <= last && numbers.size() < kMostNumbers; n += step) numbers.push_back(static_cast<int>(n));
  return true;
}

}  // namespace

std::vector<int> parse_ranges(const std::string& text) {
  std::vector<int> numbers;
  const char* p = text.c_str();
  while (*p && parse_one(p, numbers))
    if (*p) ++p;
  return numbers;
}

}  // namespace stepscope
