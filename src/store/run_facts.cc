#include "store/run_facts.h"

#include <zstd.h>

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "align/config_fact.h"
#include "align/rank_state.h"
#include "store/json_lists.h"

namespace stepscope::store {
namespace {

using nlohmann::json;

constexpr size_t kPlainSnapshotBytes = 256u << 10;
constexpr size_t kMaxRankGroups = 4096, kMaxLives = 1u << 17;

json ledger_json(const LedgerNs& ledger) {
  json out = json::object();
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (ledger[c] != 0) out[std::string(kCategoryNames[c])] = ledger[c];
  return out;
}

void read_ledger(const json& from, LedgerNs& ledger) {
  if (!from.is_object()) return;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    const auto found = from.find(std::string(kCategoryNames[c]));
    if (found != from.end() && found->is_number_integer()) ledger[c] = found->get<int64_t>();
  }
}

template <class T>
void read_number(const json& from, const char* key, T& to) {
  const auto found = from.find(key);
  if (found == from.end()) return;
  if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) to = found->get<bool>();
  } else if (found->is_number_integer()) {
    to = found->get<T>();
  }
}

std::optional<double> seconds(int64_t time_ns, int64_t start_ns) {
  return time_ns == 0 ? std::nullopt : std::optional(static_cast<double>(time_ns - start_ns) * 1e-9);
}

constexpr size_t kMaxLoaders = 64;

// "5|loader|workers=4;batch=16"
void read_fact(const std::string& text, RankLife& life) {
  const size_t bar = text.find('|');
  if (bar == std::string::npos) return;
  keep_config_fact(life.configuration,
                   parse_config_fact(std::strtoull(text.c_str(), nullptr, 10), std::string_view(text).substr(bar + 1)));
}

}  // namespace

constexpr uint64_t OutOfMemory::* kOomBytes[] = {
    &OutOfMemory::requested_bytes,          &OutOfMemory::allocated_bytes,
    &OutOfMemory::reserved_bytes,           &OutOfMemory::capacity_bytes,
    &OutOfMemory::largest_free_block_bytes, &OutOfMemory::device_free_bytes,
    &OutOfMemory::inactive_split_bytes,     &OutOfMemory::grown_bytes};
constexpr const char* kOomNames[] = {
    "requested_bytes",          "allocated_bytes",   "reserved_bytes",       "capacity_bytes",
    "largest_free_block_bytes", "device_free_bytes", "inactive_split_bytes", "grown_bytes"};
constexpr size_t kMaxOoms = 16;

json oom_json(const OutOfMemory& oom) {
  json out = {{"step", oom.step}, {"phase", static_cast<int>(oom.phase)}};
  for (size_t i = 0; i < std::size(kOomBytes); ++i) out[kOomNames[i]] = oom.*kOomBytes[i];
  return out;
}

void read_ooms(const json& list, std::vector<OutOfMemory>& out) {
  if (!list.is_array()) return;
  for (const json& item : list) {
    if (!item.is_object() || out.size() >= kMaxOoms) continue;
    OutOfMemory oom;
    read_number(item, "step", oom.step);
    int phase = -1;
    read_number(item, "phase", phase);
    if (phase >= 0 && phase < static_cast<int>(kCategoryCount)) oom.phase = static_cast<Category>(phase);
    for (size_t i = 0; i < std::size(kOomBytes); ++i) read_number(item, kOomNames[i], oom.*kOomBytes[i]);
    out.push_back(oom);
  }
}

std::string life_detail(const RankLife& life) {
  json out = {{"process_start_ns", life.process_start_ns},
              {"first_step_ns", life.first_step_ns},
              {"last_step_ns", life.last_step_ns},
              {"end_ns", life.end_ns},
              {"init_begin_ns", life.init_begin_ns},
              {"init_end_ns", life.init_end_ns},
              {"exception_ns", life.exception_ns},
              {"leaving_ns", life.leaving_ns},
              {"ended", life.ended},
              {"clean_exit", life.clean_exit},
              {"stopped", life.stopped},
              {"teardown_begun", life.teardown_begun},
              {"torn", life.torn}};
  if (!life.open_detail.empty()) out["open_detail"] = life.open_detail;
  if (!life.unavailable.empty()) out["unavailable"] = life.unavailable;
  if (life.group_destroyed) out["group_destroyed"] = true;
  if (!life.device.empty()) out["device"] = life.device;
  if (!life.training_loaders.empty()) out["training_loaders"] = life.training_loaders;
  for (const ConfigFact& fact : life.configuration)
    out["configuration"].push_back(std::to_string(fact.id) + "|" + config_fact_text(fact));
  if (life.dropped_batches) {
    out["dropped_batches"] = life.dropped_batches;
    out["dropped_ns"] = life.dropped_ns;
  }
  for (const StartupMeeting& m : life.startup_meetings)
    out["startup_meetings"].push_back({{"group", m.group},
                                       {"sequence", m.sequence},
                                       {"waited", m.waited},
                                       {"begin_ns", m.begin_ns},
                                       {"end_ns", m.end_ns}});
  if (life.device_memory_bytes) out["device_memory_bytes"] = life.device_memory_bytes;
  for (const OutOfMemory& oom : life.out_of_memory) out["out_of_memory"].push_back(oom_json(oom));
  out["startup_ns"] = ledger_json(life.startup);
  out["teardown_ns"] = ledger_json(life.teardown);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

void read_life_detail(std::string_view text, RankLife& life) {
  if (text.size() > 1u << 20) return;
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 3; };
  const json from = json::parse(text, shallow, false);
  if (!from.is_object()) return;
  read_number(from, "process_start_ns", life.process_start_ns);
  read_number(from, "first_step_ns", life.first_step_ns);
  read_number(from, "last_step_ns", life.last_step_ns);
  read_number(from, "end_ns", life.end_ns);
  read_number(from, "init_begin_ns", life.init_begin_ns);
  read_number(from, "init_end_ns", life.init_end_ns);
  read_number(from, "exception_ns", life.exception_ns);
  read_number(from, "leaving_ns", life.leaving_ns);
  read_number(from, "ended", life.ended);
  read_number(from, "clean_exit", life.clean_exit);
  read_number(from, "stopped", life.stopped);
  read_number(from, "teardown_begun", life.teardown_begun);
  read_number(from, "torn", life.torn);
  read_number(from, "dropped_batches", life.dropped_batches);
  read_number(from, "dropped_ns", life.dropped_ns);
  read_number(from, "device_memory_bytes", life.device_memory_bytes);
  if (const auto found = from.find("out_of_memory"); found != from.end()) read_ooms(*found, life.out_of_memory);
  if (const auto found = from.find("open_detail"); found != from.end() && found->is_string())
    life.open_detail = found->get<std::string>();
  if (const auto found = from.find("unavailable"); found != from.end() && found->is_array())
    for (const json& item : *found)
      if (item.is_string()) life.unavailable.push_back(item.get<std::string>());
  read_number(from, "group_destroyed", life.group_destroyed);
  if (const auto found = from.find("device"); found != from.end() && found->is_string())
    life.device = found->get<std::string>();
  if (const auto found = from.find("startup_meetings"); found != from.end() && found->is_array())
    for (const json& item : *found) {
      if (!item.is_object() || life.startup_meetings.size() >= RankLife::kMaxStartupMeetings) break;
      StartupMeeting m;
      read_number(item, "group", m.group);
      read_number(item, "sequence", m.sequence);
      read_number(item, "waited", m.waited);
      read_number(item, "begin_ns", m.begin_ns);
      read_number(item, "end_ns", m.end_ns);
      life.startup_meetings.push_back(m);
    }
  if (const auto found = from.find("training_loaders"); found != from.end() && found->is_array())
    for (const json& item : *found)
      if (item.is_number_unsigned() && life.training_loaders.size() < kMaxLoaders)
        life.training_loaders.push_back(item.get<uint64_t>());
  if (const auto found = from.find("configuration"); found != from.end() && found->is_array())
    for (const json& item : *found)
      if (item.is_string()) read_fact(item.get<std::string>(), life);
  if (const auto found = from.find("startup_ns"); found != from.end()) read_ledger(*found, life.startup);
  if (const auto found = from.find("teardown_ns"); found != from.end()) read_ledger(*found, life.teardown);
}

void RunFacts::set_run(const RunInfo& run) {
  run_ = run;
  run_changed_ = true;
}

void RunFacts::set_lives(int32_t attempt, const std::vector<RankLife>& lives) {
  for (const RankLife& life : lives)
    if (life.rank >= 0 && lives_.size() < kMaxLives) lives_.insert_or_assign({attempt, life.rank}, life);
}

void RunFacts::set_group(int32_t attempt, uint64_t id, const std::string& description, const std::vector<int>& ranks) {
  if (groups_.size() < kMaxRankGroups)
    groups_.insert_or_assign({attempt, id}, StoredGroup{attempt, id, description, ranks});
}

bool RunFacts::set_snapshot(std::string json, int64_t step, int64_t time_ns) {
  if (json.size() > kMaxSnapshotBytes) return false;
  snapshot_ = {std::move(json), step, time_ns};
  return true;
}

Status RunFacts::write_run(Database& db) {
  auto insert = db.prepare("INSERT OR REPLACE INTO run VALUES(1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  TextPairs versions(run_.versions.begin(), run_.versions.end());
  const bool ok = insert
                      ->bind(one_line(run_.name), one_line(run_.started_at), run_.duration_s, run_.world_size,
                             run_.nodes, run_.attempts, run_.status.empty() ? "running" : run_.status, run_.exit_code,
                             json_list(run_.command), json_object(versions), run_id_, start_ns_)
                      .run();
  return ok ? Status() : std::unexpected(db.last_error());
}

Status RunFacts::write_lives(Database& db) {
  auto insert =
      db.prepare("INSERT OR REPLACE INTO rank VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  for (const auto& [key, life] : lives_) {
    const std::optional<std::string> exception =
        life.exception.empty() ? std::nullopt : std::optional(one_line(life.exception));
    const bool ok = insert
                        ->bind(key.first, key.second, life.local_rank, life.node_rank, one_line(life.hostname),
                               life.pid, life.world_size, spelling(state_of(life)), life.steps,
                               seconds(life.process_start_ns, start_ns_), seconds(life.first_step_ns, start_ns_),
                               seconds(life.last_step_ns, start_ns_), seconds(life.end_ns, start_ns_),
                               null_if_negative(life.exit_code), null_if(life.exit_signal == 0, life.exit_signal),
                               exception, name(life.open_phase), life.records, life.lost, life_detail(life))
                        .run();
    if (!ok) return std::unexpected(db.last_error());
  }
  return {};
}

Status RunFacts::write_groups(Database& db) {
  auto insert = db.prepare("INSERT OR REPLACE INTO rank_group VALUES(?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  for (const auto& [key, group] : groups_)
    if (!insert->bind(group.attempt, group.id, one_line(group.description), json_list(group.ranks)).run())
      return std::unexpected(db.last_error());
  return {};
}

Status RunFacts::write_snapshot(Database& db) {
  auto insert = db.prepare("INSERT OR REPLACE INTO snapshot VALUES(1, ?, ?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  const SnapshotText& s = *snapshot_;
  const double at_s = static_cast<double>(s.time_ns - start_ns_) * 1e-9;
  bool ok;
  if (s.json.size() <= kPlainSnapshotBytes) {
    ok = insert->bind(at_s, s.step, s.json.size(), s.json, nullptr).run();
  } else {
    std::string packed(ZSTD_compressBound(s.json.size()), '\0');
    const size_t size = ZSTD_compress(packed.data(), packed.size(), s.json.data(), s.json.size(), 1);
    if (ZSTD_isError(size)) return fail("run file: the snapshot cannot be compressed");
    packed.resize(size);
    ok = insert->bind(at_s, s.step, s.json.size(), nullptr, AsBlob{packed}).run();
  }
  return ok ? Status() : std::unexpected(db.last_error());
}

Status RunFacts::write(Database& db) {
  Status status;
  if (run_changed_) status = write_run(db);
  if (status && !lives_.empty()) status = write_lives(db);
  if (status && !groups_.empty()) status = write_groups(db);
  if (status && snapshot_) status = write_snapshot(db);
  return status;
}

void RunFacts::committed() {
  run_changed_ = false;
  lives_.clear();
  groups_.clear();
  snapshot_.reset();
}

uint64_t RunFacts::give_up() {
  const uint64_t lost = snapshot_ ? 1 : 0;
  snapshot_.reset();
  return lost;
}

}  // namespace stepscope::store
