// The table of epochs, as text and HTML views show it. Pure.
#pragma once

#include <string>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

struct EpochTable {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows;  // as wide as titles
  std::string note;                            // "6 of 90 epochs", "" when all are there
};

// At most `limit` epochs: the first ones, which differ by what is cold or compiled, and the newest. Columns of time
// that is nil in all of them are left out. Empty where epochs are not known.
EpochTable epoch_table(const Snapshot& snapshot, size_t limit);

}  // namespace stepscope
