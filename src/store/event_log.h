// The table event. Bounded: beyond kMaxEvents the oldest of the most frequent kind go.
#pragma once

#include <vector>

#include "store/part.h"
#include "store/run_record.h"

namespace stepscope::store {

class EventLog : public Part {
 public:
  static constexpr size_t kMaxEvents = 65536, kMaxWaiting = 4096;

  explicit EventLog(int64_t start_ns) : start_ns_(start_ns) {}
  bool add(RunEvent event);
  Status write(Database& db) override;
  void committed() override { waiting_.clear(); }
  void rolled_back() override {}
  uint64_t give_up() override;
  bool waits() const { return !waiting_.empty(); }

 private:
  int64_t start_ns_;
  std::vector<RunEvent> waiting_;
};

}  // namespace stepscope::store
