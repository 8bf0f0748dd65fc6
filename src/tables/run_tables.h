// The tables of a run file, by name. Failure: one line that names the file. A source reads by a connection of its own,
// so that several may be read at once, each by one thread at a time; the run's writer is never kept waiting.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "store/run_reader.h"
#include "tables/batch_source.h"

namespace stepscope::tables {

struct TableInfo {
  std::string_view name, about;
};
std::span<const TableInfo> run_tables();

// Pieces of the file that were damaged and left out of what was read, over all sources that were given this.
struct Damage {
  std::atomic<uint64_t> pieces{0};
  std::atomic<std::shared_ptr<const std::string>> first;  // what was wrong with the first; null: nothing
};

struct OpenTable {
  std::unique_ptr<BatchSource> source;
  Notes notes;  // which table of which run
};

// `path`: a run.db; a reader becomes the table's own. `damage` may be null.
Result<OpenTable> open_table(const std::string& path, std::string_view table, std::shared_ptr<Damage> damage = nullptr);
Result<OpenTable> open_table(RunReader reader, std::string_view table, std::shared_ptr<Damage> damage = nullptr);

// What the table holds, without a file. Words of columns are left out.
Result<std::vector<Field>> fields_of(std::string_view table);

}  // namespace stepscope::tables
