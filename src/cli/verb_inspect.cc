#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "blackbox/ring_reader.h"
#include "cli/agent_link.h"
#include "cli/inspect_run_file.h"
#include "cli/load_run.h"
#include "cli/verbs.h"

namespace stepscope {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kChunkRecords = 4096;
constexpr const char* kEdges[] = {"mark", "begin", "end"};
constexpr const char* kNameKinds[] = {"?",         "module",      "optimizer", "loader", "group",     "phase", "value",
                                      "exception", "unavailable", "fact",      "mesh",   "call_site", "advice"};

Json identity_json(const blackbox::RingReader& reader) {
  const blackbox::Identity who = reader.identity();
  return {{"ring", reader.path()},
          {"pid", who.pid},
          {"rank", who.rank},
          {"local_rank", who.local_rank},
          {"world_size", who.world_size},
          {"attempt", who.attempt},
          {"hostname", who.hostname},
          {"capacity", reader.capacity()}};
}

Json name_json(const blackbox::Name& name) {
  const auto kind = static_cast<size_t>(name.kind);
  return {{"name", kind < std::size(kNameKinds) ? kNameKinds[kind] : "?"}, {"id", name.id}, {"text", name.text}};
}

Json record_json(const blackbox::Record& r) {
  const auto edge = static_cast<size_t>(edge_of(r.kind));
  return {{"time_ns", r.time_ns},
          {"kind", kind_name(kind_of(r.kind))},
          {"edge", edge < std::size(kEdges) ? kEdges[edge] : "?"},
          {"flags", r.flags},
          {"thread", r.thread},
          {"a", r.a},
          {"b", r.b},
          {"c", r.c},
          {"d", r.d}};
}

// One line each; invalid UTF-8 cannot occur, the reader makes texts printable.
template <typename Items, typename ToJson>
bool print(const Items& items, ToJson to_json) {
  std::string text;
  for (const auto& item : items) text += to_json(item).dump() + "\n";
  return static_cast<bool>(write_all(STDOUT_FILENO, text, "stdout"));
}

}  // namespace

int verb_inspect(const std::string& path) {
  const auto as_it_is = [](const Json& j) { return j; };
  if (is_run_file(path)) {
    const auto lines = inspect_run_file(path);
    if (!lines) return say(lines.error().message), kExitUsage;
    return print(*lines, as_it_is) ? 0 : 1;
  }
  auto reader = blackbox::RingReader::open(path);
  if (!reader) return say(reader.error().message), kExitUsage;
  std::vector<blackbox::Name> names;
  reader->read_names(names);
  if (!print(std::vector{identity_json(*reader)}, as_it_is) || !print(names, name_json)) return 1;
  for (;;) {
    std::vector<blackbox::Record> records;
    // A ring that is still written to has no end: what came after the first pass is left out.
    const bool all = reader->read(records, kChunkRecords, monotonic_ns()).read < kChunkRecords;
    if (!print(records, record_json)) return 1;
    if (all) break;
  }
  const blackbox::ReadStats sum = reader->totals();
  const Json end = {{"records", sum.read}, {"lost", sum.lost}, {"torn", sum.torn}};
  return print(std::vector{end}, as_it_is) ? 0 : 1;
}

}  // namespace stepscope
