#include "tables/run_tables.h"

#include <algorithm>
#include <array>

#include "blackbox/text.h"
#include "tables/fact_sources.h"
#include "tables/step_source.h"

namespace stepscope::tables {
namespace {

Source steps_source(SharedReader reader, const StoredRun& run) { return step_source(std::move(reader), run.start_ns); }

struct Table {
  TableInfo info;
  Source (*open)(SharedReader, const StoredRun&);
};

constexpr std::array kTables = {
    Table{{"steps", "one row per step and rank: every metric that is kept"}, steps_source},
    Table{{"ledger", "time by rank and category, summed over all steps, thinned ones included"}, ledger_source},
    Table{{"collectives", "operations by group, as the newest summary in the file has them"}, collectives_source},
    Table{{"samples", "what was sampled of hosts, processes and devices"}, samples_source},
    Table{{"findings", "what the rules said, and from which step to which"}, findings_source},
    Table{{"ranks", "processes: where they ran, how they ended"}, ranks_source},
    Table{{"groups", "process groups and their ranks"}, groups_source},
    Table{{"events", "what happened when"}, events_source},
};

constexpr auto kInfos = [] {
  std::array<TableInfo, kTables.size()> out;
  for (size_t i = 0; i < kTables.size(); ++i) out[i] = kTables[i].info;
  return out;
}();

Result<const Table*> find(std::string_view name) {
  const auto found = std::ranges::find(kTables, name, [](const Table& t) { return t.info.name; });
  if (found != kTables.end()) return &*found;
  std::string known;
  for (const Table& table : kTables) known += (known.empty() ? "" : ", ") + std::string(table.info.name);
  return fail("no table is called '" + std::string(name) + "': " + known);
}

// Adds up what its reader had to leave out.
class CountedSource : public BatchSource {
 public:
  CountedSource(std::unique_ptr<BatchSource> source, SharedReader reader, std::shared_ptr<Damage> damage)
      : source_(std::move(source)), reader_(std::move(reader)), damage_(std::move(damage)) {}

  const std::vector<Field>& fields() const override { return source_->fields(); }

  Result<std::optional<Batch>> next() override {
    auto batch = source_->next();
    const uint64_t pieces = reader_->damaged();
    if (pieces > counted_) {
      damage_->pieces += pieces - counted_;
      counted_ = pieces;
      std::shared_ptr<const std::string> none;
      damage_->first.compare_exchange_strong(none, std::make_shared<const std::string>(reader_->damage()));
    }
    return batch;
  }

 private:
  std::unique_ptr<BatchSource> source_;
  SharedReader reader_;
  std::shared_ptr<Damage> damage_;
  uint64_t counted_ = 0;
};

}  // namespace

std::span<const TableInfo> run_tables() { return kInfos; }

Result<OpenTable> open_table(const std::string& path, std::string_view name, std::shared_ptr<Damage> damage) {
  if (const auto table = find(name); !table) return std::unexpected(table.error());
  auto reader = RunReader::open(path);
  if (!reader) return std::unexpected(reader.error());
  return open_table(std::move(*reader), name, std::move(damage));
}

Result<OpenTable> open_table(RunReader opened, std::string_view name, std::shared_ptr<Damage> damage) {
  const auto table = find(name);
  if (!table) return std::unexpected(table.error());
  const auto reader = std::make_shared<RunReader>(std::move(opened));
  const auto run = reader->run();
  if (!run) return std::unexpected(run.error());
  auto source = (*table)->open(reader, *run);
  if (!source) return std::unexpected(source.error());
  OpenTable out{std::move(*source), {{"table", std::string(name)}}};
  if (damage) out.source = std::make_unique<CountedSource>(std::move(out.source), reader, std::move(damage));
  for (const auto& [key, text] :
       {std::pair("run", &run->name), {"run_id", &run->run_id}, {"started_at", &run->started_at}})
    if (!text->empty()) out.notes.emplace_back(key, blackbox::printable(*text));
  return out;
}

Result<std::vector<Field>> fields_of(std::string_view name) {
  const auto table = find(name);
  if (!table) return std::unexpected(table.error());
  auto source = (*table)->open(nullptr, {});
  if (!source) return std::unexpected(source.error());
  return (*source)->fields();
}

}  // namespace stepscope::tables
