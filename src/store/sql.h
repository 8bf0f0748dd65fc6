// SQLite as values that close themselves. Private to this room. One thread per Database.
//
// Failure: an Error with the file's name and SQLite's reason, on one line; the code is kept in last_code().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace stepscope::store {

// An integer column that may be NULL.
struct IntegerOrNull {
  int64_t integer = 0;
  bool null = true;
};
inline IntegerOrNull null_if(bool null, int64_t value) { return {value, null}; }
inline IntegerOrNull null_if_negative(int64_t value) { return {value, value < 0}; }

class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* stmt) : stmt_(stmt) {}
  Statement(Statement&& other) noexcept : stmt_(std::exchange(other.stmt_, nullptr)) {}
  Statement& operator=(Statement&& other) noexcept {
    std::swap(stmt_, other.stmt_);
    return *this;
  }
  ~Statement();
  explicit operator bool() const { return stmt_ != nullptr; }

  // Binds parameters from 1 on, in order. Texts and blobs must live until the statement has been stepped.
  template <class... Args>
  Statement& bind(const Args&... args) {
    reset();
    int at = 0;
    (put(++at, args), ...);
    return *this;
  }
  enum class Step { kRow, kDone, kError };
  Step step();
  bool run() { return step() == Step::kDone; }  // for statements without rows
  void reset();

  int64_t integer(int column) const;
  double real(int column) const;
  bool is_null(int column) const;
  // Valid until the next step. Blobs and texts alike.
  std::string_view bytes(int column) const;
  std::string text(int column) const { return std::string(bytes(column)); }

 private:
  struct Blob;
  template <class T>
  void put(int at, const T& value) {
    if constexpr (std::is_same_v<T, std::nullptr_t>)
      put_null(at);
    else if constexpr (std::is_same_v<T, IntegerOrNull>)
      value.null ? put_null(at) : put_integer(at, value.integer);
    else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
      put_integer(at, static_cast<int64_t>(value));
    else if constexpr (std::is_floating_point_v<T>)
      put_real(at, value);
    else if constexpr (requires { value.blob; })
      put_blob(at, value.blob);
    else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
      if (value.has_value())
        put(at, *value);
      else
        put_null(at);
    } else
      put_text(at, std::string_view(value));
  }
  void put_null(int at);
  void put_integer(int at, int64_t value);
  void put_real(int at, double value);
  void put_text(int at, std::string_view value);
  void put_blob(int at, std::string_view value);

  sqlite3_stmt* stmt_ = nullptr;
};

// Marks bytes as a blob in Statement::bind.
struct AsBlob {
  std::string_view blob;
};

class Database {
 public:
  Database() = default;
  Database(Database&& other) noexcept : db_(std::exchange(other.db_, nullptr)), name_(std::move(other.name_)) {}
  Database& operator=(Database&& other) noexcept {
    std::swap(db_, other.db_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~Database();

  // `flags`: SQLITE_OPEN_…; `name` stands for it in messages.
  static Result<Database> open(const std::string& path, int flags, std::string name);

  explicit operator bool() const { return db_ != nullptr; }
  sqlite3* raw() const { return db_; }
  Status exec(const char* sql);
  Result<Statement> prepare(std::string_view sql);
  // The single integer that a statement yields; `otherwise` when it yields none.
  int64_t integer(std::string_view sql, int64_t otherwise = 0);
  int last_code() const;  // primary result code of the last failed call
  Error last_error() const;

 private:
  sqlite3* db_ = nullptr;
  std::string name_;
};

}  // namespace stepscope::store
