// The texts that a rank's records refer to, by kind and id, and what is read out of them: groups and facts about the
// device.
//
// A plain single-threaded object. A text that comes again replaces the former one; its size is that of the ring's
// names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "align/rank_step.h"
#include "blackbox/event_kind.h"

namespace stepscope {

struct ProcessGroup {
  std::string description;
  std::vector<int> ranks;
};

class NameBook {
 public:
  using Names = std::map<std::pair<uint16_t, uint64_t>, std::string>;

  // `kind`: NameKind. Facts, unavailable signals and configuration go into `life` as well.
  void add(uint16_t kind, uint64_t id, const std::string& text, RankLife& life);

  const std::string* find(NameKind kind, uint64_t id) const;  // nullptr: never told
  const std::map<uint64_t, ProcessGroup>& groups() const { return groups_; }
  const Names& all() const { return names_; }

 private:
  void add_fact(const std::string& text, RankLife& life);

  Names names_;
  std::map<uint64_t, ProcessGroup> groups_;
};

}  // namespace stepscope
