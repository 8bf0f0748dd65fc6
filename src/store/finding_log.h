// The table finding: one row per diagnosis (kind, ranks, phase) of an attempt, with the steps between which the rules
// said it. One that comes back opens its row again.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "diagnose/finding.h"
#include "store/part.h"

namespace stepscope::store {

class FindingLog : public Part {
 public:
  static constexpr size_t kMaxFindings = 4096;

  explicit FindingLog(std::string (*to_json)(const Finding&)) : to_json_(to_json) {}
  // Returns how many findings were too many.
  uint64_t put(int32_t attempt, const std::vector<Finding>& findings, int64_t step);
  Status write(Database& db) override;
  void committed() override;
  void rolled_back() override {}
  uint64_t give_up() override;
  bool waits() const { return waits_; }

 private:
  struct Entry {
    Finding finding;
    int64_t opened_step = -1, closed_step = -1;
    bool open = true, changed = true;
  };
  using Key =
      std::tuple<int32_t, std::string, std::string, std::string>;  // attempt, kind, ranks as JSON, phase or cause
  Status upsert(Statement& statement, const Key& key, const Entry& entry, Database& db);

  std::string (*to_json_)(const Finding&);
  std::map<Key, Entry> entries_;
  bool waits_ = false;
};

}  // namespace stepscope::store
