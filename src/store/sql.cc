#include "store/sql.h"

#include <sqlite3.h>

namespace stepscope::store {

Statement::~Statement() { sqlite3_finalize(stmt_); }

Statement::Step Statement::step() {
  if (!stmt_) return Step::kError;
  const int code = sqlite3_step(stmt_);
  return code == SQLITE_ROW ? Step::kRow : code == SQLITE_DONE ? Step::kDone : Step::kError;
}

void Statement::reset() {
  if (!stmt_) return;
  sqlite3_reset(stmt_);
  sqlite3_clear_bindings(stmt_);
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(stmt_, column); }
double Statement::real(int column) const { return sqlite3_column_double(stmt_, column); }
bool Statement::is_null(int column) const { return sqlite3_column_type(stmt_, column) == SQLITE_NULL; }

std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(stmt_, column);
  const int size = sqlite3_column_bytes(stmt_, column);
  return data && size > 0 ? std::string_view(static_cast<const char*>(data), static_cast<size_t>(size))
                          : std::string_view();
}

void Statement::put_null(int at) { sqlite3_bind_null(stmt_, at); }
void Statement::put_integer(int at, int64_t value) { sqlite3_bind_int64(stmt_, at, value); }
void Statement::put_real(int at, double value) { sqlite3_bind_double(stmt_, at, value); }
void Statement::put_text(int at, std::string_view value) {
  sqlite3_bind_text64(stmt_, at, value.data() ? value.data() : "", value.size(), SQLITE_STATIC, SQLITE_UTF8);
}
void Statement::put_blob(int at, std::string_view value) {
  sqlite3_bind_blob64(stmt_, at, value.data() ? value.data() : "", value.size(), SQLITE_STATIC);
}

Database::~Database() { sqlite3_close_v2(db_); }

Result<Database> Database::open(const std::string& path, int flags, std::string name) {
  Database out;
  out.name_ = std::move(name);
  const int code = sqlite3_open_v2(path.c_str(), &out.db_, flags, nullptr);
  if (code == SQLITE_OK) return out;
  if (!out.db_) return fail(out.name_ + ": out of memory");
  return std::unexpected(out.last_error());
}

Status Database::exec(const char* sql) {
  if (!db_) return fail(name_ + ": not open");
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return std::unexpected(last_error());
}

Result<Statement> Database::prepare(std::string_view sql) {
  if (!db_) return fail(name_ + ": not open");
  sqlite3_stmt* stmt = nullptr;
  const int code =
      sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &stmt, nullptr);
  if (code == SQLITE_OK && stmt) return Statement(stmt);
  return std::unexpected(last_error());
}

int64_t Database::integer(std::string_view sql, int64_t otherwise) {
  auto statement = prepare(sql);
  if (!statement || statement->step() != Statement::Step::kRow) return otherwise;
  return statement->integer(0);
}

int Database::last_code() const { return db_ ? sqlite3_errcode(db_) & 0xff : SQLITE_CANTOPEN; }

Error Database::last_error() const {
  std::string text = db_ ? sqlite3_errmsg(db_) : "not open";
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  return {name_ + ": " + text};
}

}  // namespace stepscope::store
