// A table's columns: what they are called and hold (Field), and a batch of rows of them (Column, Batch), laid out as
// Arrow lays them out, so that a batch is handed over without a copy. Plain values; one thread.
//
// Memory: 8 bytes per number, 4 per small one, and a bit per value where one is missing. Numbers that are zero
// throughout a batch take none: they all share one block of zeros (zeros()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepscope::tables {

enum class ColumnType : uint8_t {
  kBool,
  kInt32,
  kInt64,
  kUint64,
  kReal,
  kText,
  kWord,   // a text out of few: an index into Field::words
  kRanks,  // a list of int32
};

using Notes = std::vector<std::pair<std::string, std::string>>;  // key and value

class Column;

struct Field {
  std::string name;  // unit last
  std::string unit;  // "" = none
  ColumnType type = ColumnType::kInt64;
  bool nullable = false;
  Notes notes;                          // beside the unit
  std::shared_ptr<const Column> words;  // kWord: the texts, a column of kText
};

class Column {
 public:
  explicit Column(ColumnType type);

  ColumnType type() const { return type_; }
  size_t size() const { return size_; }
  size_t nulls() const { return nulls_; }
  size_t text_bytes() const { return text_.size(); }

  // One value. Numbers are converted to the column's type; texts are made valid UTF-8 on one line.
  void put(int64_t value);
  void put(double value);
  void put(std::string_view text);
  void put(std::span<const int> ranks);
  void put_null();

  // Room for `count` more values at once, of kReal and of kInt64 or kUint64; all must be filled in.
  std::span<double> grow_reals(size_t count);
  std::span<int64_t> grow_integers(size_t count);
  void grow_zeros(size_t count);  // numbers and kBool
  void set_null(size_t index);    // of a value that is there

  bool is_null(size_t index) const;
  // What a value is; 0 where it is missing. Of kBool, kInt32, kInt64, kUint64 (as its bits), kWord.
  int64_t integer(size_t index) const;
  double real(size_t index) const;
  std::string_view text(size_t index) const;
  std::span<const int32_t> ranks(size_t index) const;

  // As Arrow wants them: nullptr where no value is missing.
  const void* validity() const { return valid_.empty() ? nullptr : valid_.data(); }
  const void* values() const;  // nullptr: zero throughout
  const void* offsets() const { return offsets_.data(); }
  const void* items() const { return small_.data(); }  // of kRanks
  size_t item_count() const { return small_.size(); }

 private:
  void began(size_t count);  // `count` more values are there

  ColumnType type_;
  size_t size_ = 0, nulls_ = 0;
  std::vector<uint8_t> valid_, bits_;
  std::vector<int32_t> small_, offsets_;
  std::vector<int64_t> large_;
  std::vector<double> real_;
  std::string text_;
};

struct Batch {
  size_t rows = 0;
  std::vector<Column> columns;
};

// A block of zeros, enough for `rows` values of 8 bytes.
std::shared_ptr<const void> zeros(size_t rows);

// The texts as a column to point into.
std::shared_ptr<const Column> word_list(std::span<const std::string> words);

}  // namespace stepscope::tables
