// The tables of the run file and how a file is told to be one. docs/formats/run_file.md explains every column.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "store/sql.h"

namespace stepscope::store {

// Files of another major version are refused; a newer minor version has only added tables or columns.
inline constexpr int kFormatMajor = 1, kFormatMinor = 0;
inline constexpr int64_t kApplicationId = 0x53537270;  // "SSrp"

// Makes every table and view in an empty database. Inside the caller's transaction.
Status create_schema(Database& db);

// Is this a run file that we can read? One line when not: no run file at all, another version, a table missing.
Status check_schema(Database& db, const char* name);

// For files that may come from anywhere: no SQL of theirs runs with our rights, sizes and time are bounded.
void distrust(Database& db);

}  // namespace stepscope::store
