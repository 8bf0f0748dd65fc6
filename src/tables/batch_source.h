// A table on its way out: its fields, and its rows in batches of bounded size, worked out when they are asked for.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "tables/column.h"

namespace stepscope::tables {

inline constexpr size_t kBatchRows = 65536;           // a batch has as many, the last one of a table fewer
inline constexpr size_t kBatchTextBytes = 16u << 20;  // in one column: a batch that has more ends

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual const std::vector<Field>& fields() const = 0;
  // nullopt: that was all. After an Error there is nothing more.
  virtual Result<std::optional<Batch>> next() = 0;
};

}  // namespace stepscope::tables
