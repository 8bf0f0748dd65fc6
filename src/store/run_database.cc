#include "store/run_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/file.h"
#include "store/schema.h"

namespace stepscope::store {
namespace {

constexpr uint64_t kMinBytes = 1u << 20;
constexpr int kCheckpointPages = 1000;
constexpr int kAgentBusyMs = 10;  // the agent has rings to drain

// File systems over a network: WAL needs memory that all readers share, which those do not give.
bool is_network_fs(const std::string& path) {
  constexpr uint32_t kTypes[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x0bd00bd0, 0x65735546,
                                 0x47504653, 0x00c36400, 0x19830326, 0x01021997, 0x5346414f, 0xaad7aaea};
  struct statfs fs;
  if (::statfs(path.c_str(), &fs) != 0) return false;
  return std::find(std::begin(kTypes), std::end(kTypes), static_cast<uint32_t>(fs.f_type)) != std::end(kTypes);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_busy(int code) { return code == SQLITE_BUSY || code == SQLITE_LOCKED; }

}  // namespace

Result<std::unique_ptr<RunDatabase>> RunDatabase::open(const std::string& path, const RunWriterOptions& options) {
  const bool made = !is_file(path);
  if (made) {
    // SQLite would make it readable for all.
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return fail(path + ": " + errno_text(errno));
  }
  auto out = std::make_unique<RunDatabase>();
  auto db = Database::open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, file_name(path));
  if (!db) return std::unexpected(db.error());
  out->db_ = std::move(*db);
  Status status = out->prepare_file(path, options);
  if (!status && made) ::unlink(path.c_str());
  if (!status) return std::unexpected(status.error());
  return out;
}

Status RunDatabase::prepare_file(const std::string& path, const RunWriterOptions& options) {
  const uint64_t max_bytes = std::max(options.max_bytes, kMinBytes);
  sqlite3_busy_timeout(db_.raw(), kAgentBusyMs);
  sqlite3_db_config(db_.raw(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_.raw(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_.raw(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  // A writer that was killed early leaves a file without tables, which is as good as none.
  auto tables = db_.prepare("SELECT count(*) FROM sqlite_schema");
  if (!tables || tables->step() != Statement::Step::kRow) return std::unexpected(db_.last_error());
  resumed_ = tables->integer(0) > 0;
  tables->reset();
  if (resumed_) {
    if (Status status = check_schema(db_, file_name(path).c_str()); !status) return status;
    auto id = db_.prepare("SELECT run_id FROM run");
    if (!id) return std::unexpected(id.error());
    if (id->step() != Statement::Step::kRow || id->text(0) != options.run_id)
      return fail(path + ": belongs to another run");
  } else {
    const std::string sql =
        "PRAGMA page_size = " + std::to_string(options.page_bytes) + "; PRAGMA auto_vacuum = INCREMENTAL;";
    if (Status status = db_.exec(sql.c_str()); !status) return status;
  }
  if (Status status = choose_journal(path, options.journal); !status) return status;
  if (Status status = db_.exec("PRAGMA synchronous = NORMAL; PRAGMA secure_delete = OFF; PRAGMA cache_size = -2048; "
                               "PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 4194304;");
      !status) {
    return status;
  }
  const int64_t page = std::max<int64_t>(512, db_.integer("PRAGMA page_size"));
  max_wal_pages_ = static_cast<int>(std::clamp<int64_t>(static_cast<int64_t>(max_bytes / 5) / page, 64, 1 << 24));
  db_.integer("PRAGMA max_page_count = " + std::to_string(static_cast<int64_t>(max_bytes) / page));
  return resumed_ ? Status() : create(options);
}

Status RunDatabase::choose_journal(const std::string& path, RunJournal journal) {
  const bool want_wal = journal == RunJournal::kWal || (journal == RunJournal::kAuto && !is_network_fs(path));
  if (want_wal) {
    auto set = db_.prepare("PRAGMA journal_mode = WAL");
    if (!set || set->step() != Statement::Step::kRow) return std::unexpected(db_.last_error());
    wal_ = set->bytes(0) == "wal";
  }
  if (!wal_) {
    auto set = db_.prepare("PRAGMA journal_mode = TRUNCATE");
    if (!set || set->step() != Statement::Step::kRow) return std::unexpected(db_.last_error());
    return {};
  }
  sqlite3_wal_hook(
      db_.raw(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<RunDatabase*>(self)->wal_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  return {};
}

Status RunDatabase::create(const RunWriterOptions& options) {
  if (Status status = db_.exec("BEGIN IMMEDIATE"); !status) return status;
  Status status = create_schema(db_);
  auto meta = db_.prepare("INSERT INTO meta VALUES(?, ?)");
  auto run = db_.prepare("INSERT INTO run(id, status, run_id, start_ns) VALUES(1, 'running', ?, ?)");
  if (status && (!meta || !run)) status = std::unexpected(db_.last_error());
  if (status && (!meta->bind("format", "1.0").run() || !meta->bind("stepscope", options.version).run() ||
                 !run->bind(options.run_id, options.start_ns).run())) {
    status = std::unexpected(db_.last_error());
  }
  if (status) status = db_.exec("COMMIT");
  if (!status) roll_back();
  return status;
}

RunDatabase::Begin RunDatabase::begin() {
  if (wal_ && wal_pages_ > max_wal_pages_) {
    // A reader has kept an old state open for so long that the journal could not be emptied.
    checkpoint();
    if (wal_pages_ > max_wal_pages_) return Begin::kBusy;
  }
  if (db_.exec("BEGIN IMMEDIATE")) return Begin::kBegun;
  return is_busy(db_.last_code()) ? Begin::kBusy : Begin::kError;
}

RunDatabase::Begin RunDatabase::commit() {
  if (!db_.exec("COMMIT")) {
    const bool busy = is_busy(db_.last_code());
    const Error error = db_.last_error();
    roll_back();
    return busy ? Begin::kBusy : Begin::kError;
  }
  if (wal_ && wal_pages_ >= kCheckpointPages) checkpoint();
  return Begin::kBegun;
}

void RunDatabase::checkpoint() {
  int pages = 0, done = 0;
  const bool too_long = wal_pages_ > max_wal_pages_;
  if (too_long) sqlite3_busy_timeout(db_.raw(), 0);  // a reader that holds on holds on for long
  const int code = sqlite3_wal_checkpoint_v2(
      db_.raw(), nullptr, too_long ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, &pages, &done);
  if (too_long) sqlite3_busy_timeout(db_.raw(), kAgentBusyMs);
  if (code == SQLITE_OK && pages == done) wal_pages_ = 0;  // the next writer begins the journal anew
}

void RunDatabase::roll_back() {
  if (!sqlite3_get_autocommit(db_.raw())) (void)db_.exec("ROLLBACK");
}

uint64_t RunDatabase::file_bytes() {
  return static_cast<uint64_t>(db_.integer("PRAGMA page_count") * db_.integer("PRAGMA page_size"));
}

bool RunDatabase::at_bound() {
  const int64_t free = db_.integer("PRAGMA freelist_count");
  return db_.integer("PRAGMA page_count") - free + 64 >= db_.integer("PRAGMA max_page_count");
}

bool RunDatabase::beyond_repair() const {
  const int code = db_.last_code();
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

void RunDatabase::finish() {
  (void)db_.exec("PRAGMA incremental_vacuum(8192)");
  if (!wal_) return;
  sqlite3_wal_checkpoint_v2(db_.raw(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  (void)db_.exec("PRAGMA journal_mode = DELETE");
}

}  // namespace stepscope::store
