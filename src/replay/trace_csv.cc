#include "replay/trace_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text_format.h"

namespace stepscope::replay {
namespace {

enum Column { kDpRank, kStage, kRank, kStep, kOpType, kStart, kDuration, kSeqId, kModelChunk, kGlobalChunk, kColumns };
constexpr std::array<std::string_view, kColumns> kColumnNames = {"dp_rank",  "stage",    "rank",   "step", "optype",
                                                                 "start_ts", "duration", "seq_id", "mc",   "gmc"};
constexpr size_t kMaxFields = 64;
constexpr size_t kMaxRows = 32u << 20;
constexpr double kMaxSeconds = 1e9;
constexpr int kMaxLabel = 1 << 30;
constexpr int kMaxWorkers = (1 << 16) - 1;  // along one axis

struct Fields {
  std::array<std::string_view, kMaxFields> at;
  size_t count = 0;  // may exceed kMaxFields
};

std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void split(std::string_view line, Fields& fields) {
  fields.count = 0;
  for (;;) {
    const size_t comma = line.find(',');
    if (fields.count < kMaxFields) fields.at[fields.count] = line.substr(0, comma);
    ++fields.count;
    if (comma == std::string_view::npos) return;
    line = line.substr(comma + 1);
  }
}

template <class Number>
bool read(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// What stands in an error must fit on one line of a terminal.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > 40 ? "…'" : "'");
}

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Result<std::vector<TraceRow>> read_all() {
    if (text_.starts_with("PAR1"))
      return fail(where_ + ": a Parquet file; convert it to CSV first (pandas.read_parquet, to_csv)");
    if (Status header = read_header(); !header) return std::unexpected(header.error());
    std::vector<TraceRow> rows;
    rows.reserve(std::min(text_.size() / 48, kMaxRows));
    while (!text_.empty()) {
      const std::string_view line = next_line(text_);
      ++line_;
      if (line.empty() && text_.empty()) break;
      if (rows.size() == kMaxRows) return fail(formatted("{}: more than {} operations", where_, kMaxRows));
      TraceRow row;
      if (Status status = read_row(line, row); !status) return std::unexpected(status.error());
      rows.push_back(row);
    }
    if (rows.empty()) return fail(where_ + ": no operation in it");
    return rows;
  }

 private:
  Status read_header() {
    if (text_.empty()) return fail(where_ + ": an empty file");
    Fields names;
    split(next_line(text_), names);
    expected_fields_ = names.count;
    if (names.count > kMaxFields) return bad(formatted("{} columns, at most {} are read", names.count, kMaxFields));
    for (size_t i = 0; i < kColumns; ++i) {
      const auto end = names.at.begin() + static_cast<std::ptrdiff_t>(names.count);
      const auto found = std::find(names.at.begin(), end, kColumnNames[i]);
      if (found == end) return bad(formatted("no column {}: no trace of operations", kColumnNames[i]));
      if (std::find(found + 1, end, kColumnNames[i]) != end) return bad(formatted("two columns {}", kColumnNames[i]));
      place_[i] = static_cast<size_t>(found - names.at.begin());
    }
    return {};
  }

  Status read_row(std::string_view line, TraceRow& row) {
    split(line, fields_);
    if (fields_.count != expected_fields_)
      return bad(formatted("{} fields, the header has {}", fields_.count, expected_fields_));
    const auto field = [&](Column column) { return fields_.at[place_[column]]; };
    const auto type = op_type_of(field(kOpType));
    if (!type) return bad("unknown operation type " + quoted(field(kOpType)));
    row.type = *type;
    const struct {
      Column column;
      int* value;
      int least, most;
    } numbers[] = {{kDpRank, &row.dp_rank, 0, kMaxWorkers},
                   {kStage, &row.stage, 0, kMaxWorkers},
                   {kRank, &row.rank, 0, kMaxLabel},
                   {kStep, &row.step, 0, kMaxLabel},
                   {kSeqId, &row.seq_id, 0, kMaxLabel},
                   {kModelChunk, &row.model_chunk, -1, kMaxLabel},
                   {kGlobalChunk, &row.global_chunk, -1, kMaxLabel}};
    for (const auto& [column, value, least, most] : numbers) {
      if (!read(field(column), *value) || *value < least || *value > most) return bad_field(column, field(column));
    }
    if (!read(field(kStart), row.start_s) || !(std::abs(row.start_s) <= kMaxSeconds))
      return bad_field(kStart, field(kStart));
    if (!read(field(kDuration), row.duration_s) || !(row.duration_s >= 0 && row.duration_s <= kMaxSeconds)) {
      return bad_field(kDuration, field(kDuration));
    }
    return {};
  }

  std::unexpected<Error> bad(const std::string& what) const {
    return fail(formatted("{}, line {}: {}", where_, line_, what));
  }
  std::unexpected<Error> bad_field(Column column, std::string_view text) const {
    return bad(formatted("{} is {}", kColumnNames[column], text.empty() ? std::string("missing") : quoted(text)));
  }

  std::string_view text_;
  const std::string& where_;
  size_t line_ = 1;
  size_t expected_fields_ = 0;
  Fields fields_;  // of the line being read
  std::array<size_t, kColumns> place_{};
};

}  // namespace

Result<std::vector<TraceRow>> parse_trace_csv(std::string_view text, const std::string& where) {
  return CsvReader(text, where).read_all();
}

}  // namespace stepscope::replay
