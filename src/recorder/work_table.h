// Which operation a Work belongs to, by the address of its C++ object. Addresses are used again: the newest entry of an
// address is the one that holds, and what nobody asks for any more is given up first within its set.
//
// kSets sets of kWays entries: of up to kWays works that are alive at once none is lost, of n of them a share of about
// (n / kSets)^4 / 24 (five must fall into one set). Constant time, no allocation. Not for several threads at
// once: its caller holds the GIL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stepscope::recorder {

template <class Issue>
class WorkTable {
 public:
  static constexpr size_t kSets = 256, kWays = 4;

  // Key 0 is no work.
  void remember(uint64_t key, const Issue& issue) {
    if (!key) return;
    Entry* place = nullptr;
    for (Entry& entry : set(key)) {
      if (entry.key == key) {
        place = &entry;
        break;
      }
      if (!place || entry.age < place->age) place = &entry;
    }
    *place = {key, ++newest_, issue};
  }

  // Null when it is not known.
  const Issue* find(uint64_t key) const {
    if (!key) return nullptr;
    for (const Entry& entry : sets_[index(key)])
      if (entry.key == key) return &entry.issue;
    return nullptr;
  }

  void clear() { *this = {}; }

 private:
  struct Entry {
    uint64_t key = 0, age = 0;
    Issue issue{};
  };
  using Set = std::array<Entry, kWays>;
  static size_t index(uint64_t key) { return (key * 0x9e3779b97f4a7c15ull) >> 56; }
  Set& set(uint64_t key) { return sets_[index(key)]; }

  std::array<Set, kSets> sets_{};
  uint64_t newest_ = 0;
};

}  // namespace stepscope::recorder
