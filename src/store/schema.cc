#include "store/schema.h"

#include <sqlite3.h>

#include <string>

#include "store/metric.h"

namespace stepscope::store {
namespace {

constexpr const char* kTables[][2] = {
    {"meta", "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID"},
    {"run",
     "CREATE TABLE run(id INTEGER PRIMARY KEY CHECK(id = 1), name TEXT, started_at TEXT, duration_s REAL, world_size "
     "INTEGER, "
     "nodes INTEGER, attempts INTEGER, status TEXT, exit_code INTEGER, command TEXT, versions TEXT, run_id TEXT, "
     "start_ns INTEGER)"},
    {"rank",
     "CREATE TABLE rank(attempt INTEGER, rank INTEGER, local_rank INTEGER, node INTEGER, hostname TEXT, pid INTEGER, "
     "world_size INTEGER, "
     "state TEXT, steps INTEGER, start_s REAL, first_step_s REAL, last_step_s REAL, end_s REAL, exit_code INTEGER, "
     "exit_signal INTEGER, "
     "exception TEXT, open_phase TEXT, records INTEGER, lost INTEGER, detail TEXT, PRIMARY KEY(attempt, rank)) WITHOUT "
     "ROWID"},
    {"rank_group",
     "CREATE TABLE rank_group(attempt INTEGER, id INTEGER, description TEXT, ranks TEXT, PRIMARY KEY(attempt, id)) "
     "WITHOUT ROWID"},
    {"finding",
     "CREATE TABLE finding(id INTEGER PRIMARY KEY, attempt INTEGER, kind TEXT, severity TEXT, scope TEXT, ranks TEXT, "
     "victims TEXT, "
     "phase TEXT, cause TEXT, pattern TEXT, first_step INTEGER, last_step INTEGER, detected_step INTEGER, opened_step "
     "INTEGER, "
     "closed_step INTEGER, cost_share REAL, cost_seconds REAL, saves_share REAL, confidence REAL, coverage REAL, "
     "section TEXT, "
     "title TEXT, action TEXT, json TEXT, UNIQUE(attempt, kind, ranks, phase))"},
    {"event",
     "CREATE TABLE event(id INTEGER PRIMARY KEY, at_s REAL, attempt INTEGER, rank INTEGER, step INTEGER, kind TEXT, "
     "text TEXT)"},
    {"series",
     "CREATE TABLE series(id INTEGER PRIMARY KEY, scope TEXT, idx INTEGER, name TEXT, points INTEGER, first_s REAL, "
     "last_s REAL, "
     "last REAL, mean REAL, min REAL, max REAL, UNIQUE(scope, idx, name))"},
    {"sample",
     "CREATE TABLE sample(id INTEGER PRIMARY KEY, series INTEGER, stride INTEGER, points INTEGER, from_s REAL, to_s "
     "REAL, time BLOB, "
     "value BLOB, peak BLOB)"},
    {"snapshot",
     "CREATE TABLE snapshot(id INTEGER PRIMARY KEY CHECK(id = 1), at_s REAL, step INTEGER, size INTEGER, json TEXT, "
     "json_zstd BLOB)"},
    {"metric", "CREATE TABLE metric(id INTEGER PRIMARY KEY, name TEXT, kind TEXT)"},
    {"segment",
     "CREATE TABLE segment(id INTEGER PRIMARY KEY, attempt INTEGER, level INTEGER, step0 INTEGER, step1 INTEGER, rows "
     "INTEGER, "
     "ranks INTEGER, steps INTEGER, quantum_ns INTEGER, seal INTEGER)"},
    {"block",
     "CREATE TABLE block(id INTEGER PRIMARY KEY, segment INTEGER, fold INTEGER, metric INTEGER, rank0 INTEGER, ranks "
     "INTEGER, data BLOB)"},
    {"step_wall",
     "CREATE TABLE step_wall(attempt INTEGER, step INTEGER, stride INTEGER, end_us INTEGER, ranks INTEGER, wall_us_p50 "
     "INTEGER, "
     "wall_us_max INTEGER, own_us_p50 INTEGER, own_us_max INTEGER, own_rank INTEGER, caused_us INTEGER, caused_rank "
     "INTEGER, tags INTEGER, "
     "PRIMARY KEY(attempt, step)) WITHOUT ROWID"},
};

constexpr const char* kIndexes =
    "CREATE INDEX block_segment ON block(segment);"
    "CREATE INDEX sample_series ON sample(series);";

// "compile,checkpoint" from the bits of a step, in SQL.
std::string tag_text() {
  std::string sql = "rtrim(";
  for (size_t i = 0; i < std::size(kTagNames); ++i) {
    if (i) sql += " || ";
    sql += "iif(tags & " + std::to_string(2u << i) + ", '" + std::string(kTagNames[i]) + ",', '')";
  }
  return sql + ", ',')";
}

std::string views() {
  return "CREATE VIEW step_summary AS SELECT attempt, step, stride, end_us * 1e-6 AS at_s, ranks, wall_us_p50 * 1e-3 "
         "AS wall_ms_p50, "
         "wall_us_max * 1e-3 AS wall_ms_max, own_us_p50 * 1e-3 AS own_ms_p50, own_us_max * 1e-3 AS own_ms_max, "
         "own_rank, "
         "caused_us * 1e-3 AS caused_ms, caused_rank, " +
         tag_text() +
         " AS tags FROM step_wall;"
         "CREATE VIEW stored AS SELECT s.attempt, s.level, m.name AS metric, b.fold, count(*) AS blocks, "
         "sum(length(b.data)) AS bytes "
         "FROM block b JOIN segment s ON s.id = b.segment LEFT JOIN metric m ON m.id = b.metric GROUP BY 1, 2, 3, 4;";
}

const char* kind_name(MetricKind kind) {
  switch (kind) {
    case MetricKind::kTime: return "time";
    case MetricKind::kFine: return "float16";
    case MetricKind::kReal: return "float24";
    default: return "count";
  }
}

Status fill_metrics(Database& db) {
  auto insert = db.prepare("INSERT INTO metric VALUES(?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  const auto add = [&](int id, std::string_view name, const char* kind) {
    return insert->bind(id, name, std::string_view(kind)).run();
  };
  bool ok = add(kStepId, "step", "row") && add(kEndId, "end_us", "row");
  for (size_t m = 0; m < kMetricCount && ok; ++m)
    ok = add(metric_info(m).id, metric_info(m).name, kind_name(metric_info(m).kind));
  return ok ? Status() : std::unexpected(db.last_error());
}

}  // namespace

Status create_schema(Database& db) {
  std::string sql;
  for (const auto& table : kTables) sql += std::string(table[1]) + ";";
  sql += kIndexes + views();
  sql += "PRAGMA application_id = " + std::to_string(kApplicationId) + ";";
  sql += "PRAGMA user_version = " + std::to_string(kFormatMajor * 1000 + kFormatMinor) + ";";
  if (Status status = db.exec(sql.c_str()); !status) return status;
  return fill_metrics(db);
}

Status check_schema(Database& db, const char* name) {
  const std::string file(name);
  auto id = db.prepare("PRAGMA application_id");
  if (!id || id->step() != Statement::Step::kRow) return std::unexpected(db.last_error());
  if (id->integer(0) != kApplicationId) return fail(file + ": not a stepscope run file");
  const int64_t version = db.integer("PRAGMA user_version");
  if (version / 1000 != kFormatMajor) {
    return fail(file + ": run file of format " + std::to_string(version / 1000) + "." + std::to_string(version % 1000) +
                ", this stepscope reads format " + std::to_string(kFormatMajor) + ".x");
  }
  auto look = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ? AND sql LIKE 'CREATE TABLE%'");
  if (!look) return std::unexpected(db.last_error());
  for (const auto& table : kTables) {
    const auto step = look->bind(std::string_view(table[0])).step();
    if (step == Statement::Step::kError) return std::unexpected(db.last_error());
    if (step == Statement::Step::kDone) return fail(file + ": damaged run file: no table " + table[0]);
  }
  return {};
}

void distrust(Database& db) {
  sqlite3* raw = db.raw();
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 80 << 20);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  (void)db.exec(
      "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA cache_size = -4096; PRAGMA temp_store = MEMORY;");
}

}  // namespace stepscope::store
