#include "tables/csv.h"

#include <charconv>

namespace stepscope::tables {
namespace {

template <class Number>
void put_number(std::string& out, Number value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

void put_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void put_ranks(std::string& out, std::span<const int32_t> ranks) {
  std::string list = "[";
  for (const int32_t rank : ranks) {
    if (list.size() > 1) list += ',';
    put_number(list, rank);
  }
  put_text(out, list + "]");
}

void put_value(std::string& out, const Field& field, const Column& column, size_t row) {
  if (column.is_null(row)) return;
  switch (column.type()) {
    case ColumnType::kBool: out += column.integer(row) ? "true" : "false"; break;
    case ColumnType::kReal: put_number(out, column.real(row)); break;
    case ColumnType::kUint64: put_number(out, static_cast<uint64_t>(column.integer(row))); break;
    case ColumnType::kText: put_text(out, column.text(row)); break;
    case ColumnType::kWord: put_text(out, field.words->text(static_cast<size_t>(column.integer(row)))); break;
    case ColumnType::kRanks: put_ranks(out, column.ranks(row)); break;
    default: put_number(out, column.integer(row));
  }
}

}  // namespace

std::string csv_head(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    if (!out.empty()) out += ',';
    put_text(out, field.name);
  }
  return out + "\n";
}

std::string csv_rows(const std::vector<Field>& fields, const Batch& batch) {
  std::string out;
  for (size_t row = 0; row < batch.rows; ++row)
    for (size_t c = 0; c < fields.size(); ++c) {
      put_value(out, fields[c], batch.columns[c], row);
      out += c + 1 < fields.size() ? ',' : '\n';
    }
  return out;
}

}  // namespace stepscope::tables
