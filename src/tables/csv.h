// A table as CSV (RFC 4180, lines end in \n): a line of names, then a line per row. A missing value is empty, numbers
// are the shortest that read back the same, lists are JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "tables/column.h"

namespace stepscope::tables {

std::string csv_head(const std::vector<Field>& fields);
std::string csv_rows(const std::vector<Field>& fields, const Batch& batch);

}  // namespace stepscope::tables
