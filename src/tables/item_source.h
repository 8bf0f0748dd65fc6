// Tables of plain values, one row each: a list of columns, each with the function that takes it from a value, says what
// the table is; pages of values are fetched as rows are asked for. Nothing is fetched before the first batch.
#pragma once

#include <cmath>
#include <functional>
#include <type_traits>
#include <utility>

#include "tables/batch_source.h"

namespace stepscope::tables {

// An index into the words of a column.
struct Word {
  int64_t index = 0;
};

template <class Item>
struct ItemColumn {
  Field field;
  std::function<void(const Item&, Column&)> put;
};

template <class T>
struct ColumnTypeOf;
template <class T>
struct ColumnTypeOf<std::optional<T>> : ColumnTypeOf<T> {};
template <ColumnType kType>
struct IsColumn {
  static constexpr ColumnType value = kType;
};
template <>
struct ColumnTypeOf<bool> : IsColumn<ColumnType::kBool> {};
template <>
struct ColumnTypeOf<int32_t> : IsColumn<ColumnType::kInt32> {};
template <>
struct ColumnTypeOf<int64_t> : IsColumn<ColumnType::kInt64> {};
template <>
struct ColumnTypeOf<uint64_t> : IsColumn<ColumnType::kUint64> {};
template <>
struct ColumnTypeOf<double> : IsColumn<ColumnType::kReal> {};
template <>
struct ColumnTypeOf<std::string_view> : IsColumn<ColumnType::kText> {};
template <>
struct ColumnTypeOf<Word> : IsColumn<ColumnType::kWord> {};
template <>
struct ColumnTypeOf<std::span<const int>> : IsColumn<ColumnType::kRanks> {};

inline void put_value(Column& to, Word word) { to.put(word.index); }
inline void put_value(Column& to, double value) { std::isnan(value) ? to.put_null() : to.put(value); }
inline void put_value(Column& to, std::string_view text) { to.put(text); }
inline void put_value(Column& to, std::span<const int> ranks) { to.put(ranks); }
template <class T>
  requires std::is_integral_v<T>
void put_value(Column& to, T value) {
  to.put(static_cast<int64_t>(value));
}
template <class T>
void put_value(Column& to, const std::optional<T>& value) {
  value ? put_value(to, *value) : to.put_null();
}

// The column's type is what `get` returns; std::optional: it may be missing. A double may always be.
template <class Item, class Get>
ItemColumn<Item> column(std::string name, std::string unit, Get get) {
  using Value = std::invoke_result_t<Get, const Item&>;
  Field field{std::move(name), std::move(unit), ColumnTypeOf<Value>::value, false, {}, nullptr};
  field.nullable = std::is_same_v<Value, double> || requires(Value value) { value.has_value(); };
  return {std::move(field), [get](const Item& item, Column& to) { put_value(to, get(item)); }};
}

template <class Item>
class ItemSource : public BatchSource {
 public:
  using Page = std::vector<Item>;
  using Fetch = std::function<Result<std::optional<Page>>()>;  // nullopt: there are no more pages

  ItemSource(std::vector<ItemColumn<Item>> columns, Fetch fetch)
      : columns_(std::move(columns)), fetch_(std::move(fetch)) {
    for (const ItemColumn<Item>& c : columns_) fields_.push_back(c.field);
  }

  const std::vector<Field>& fields() const override { return fields_; }

  Result<std::optional<Batch>> next() override {
    Batch batch;
    for (const Field& field : fields_) batch.columns.emplace_back(field.type);
    while (!is_full(batch)) {
      if (at_ == page_.size()) {
        auto page = fetch_();
        if (!page) return std::unexpected(page.error());
        if (!*page) break;
        page_ = std::move(**page), at_ = 0;
        continue;
      }
      for (size_t c = 0; c < columns_.size(); ++c) columns_[c].put(page_[at_], batch.columns[c]);
      ++at_, ++batch.rows;
    }
    if (batch.rows == 0) return std::nullopt;
    return batch;
  }

 private:
  static bool is_full(const Batch& batch) {
    if (batch.rows >= kBatchRows) return true;
    for (const Column& c : batch.columns)
      if (c.text_bytes() >= kBatchTextBytes) return true;
    return false;
  }

  std::vector<ItemColumn<Item>> columns_;
  Fetch fetch_;
  std::vector<Field> fields_;
  Page page_;
  size_t at_ = 0;
};

}  // namespace stepscope::tables
