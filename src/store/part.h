// One part of what the run file holds, as the writer drives it: gathered in memory, written inside a transaction, and
// only forgotten in memory when that transaction is on disk.
#pragma once

#include "store/sql.h"

namespace stepscope::store {

class Part {
 public:
  virtual ~Part() = default;
  // Writes what waits. May be called again with the same content after rolled_back().
  virtual Status write(Database& db) = 0;
  virtual void committed() = 0;
  virtual void rolled_back() = 0;
  // Forgets what waits; returns how many items were lost.
  virtual uint64_t give_up() = 0;
};

}  // namespace stepscope::store
