#include "store/sample_log.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>

#include "store/json_lists.h"
#include "store/metric.h"
#include "store/segment.h"

namespace stepscope::store {
namespace {

constexpr unsigned kValueDrop = 8;
constexpr unsigned kThinsPerWrite = 8;

std::string encode_values(const SampleRun& run, double SeriesPoint::* field, ColumnCodec& codec) {
  std::vector<int64_t> column;
  for (const SeriesPoint& p : run.points) column.push_back(float_to_ordered(p.*field, kValueDrop));
  return seal(codec.encode(column, column.size()));
}

Status decode_values(std::string_view bytes, SampleRun& run, double SeriesPoint::* field, ColumnCodec& codec) {
  const auto body = unseal(bytes);
  if (!body) return std::unexpected(body.error());
  std::vector<int64_t> column;
  if (Status status = codec.decode(*body, run.points.size(), run.points.size(), column); !status) return status;
  for (size_t i = 0; i < column.size(); ++i) run.points[i].*field = ordered_to_float(column[i], kValueDrop);
  return {};
}

SampleRun halved(const std::vector<SeriesPoint>& points, uint32_t stride) {
  SampleRun out;
  out.stride = stride * 2;
  for (size_t i = 0; i < points.size(); i += 2) {
    const SeriesPoint& a = points[i];
    const SeriesPoint& b = points[std::min(i + 1, points.size() - 1)];
    out.points.push_back({a.at_s, (a.value + b.value) / 2, std::max(a.peak, b.peak)});
  }
  return out;
}

}  // namespace

EncodedRun encode_run(const SampleRun& run, ColumnCodec& codec) {
  std::vector<int64_t> times;
  for (const SeriesPoint& p : run.points) times.push_back(std::llround(std::clamp(p.at_s * 1e3, -1e15, 1e15)));
  return {seal(codec.encode(times, times.size())), encode_values(run, &SeriesPoint::value, codec),
          run.stride > 1 ? encode_values(run, &SeriesPoint::peak, codec) : std::string()};
}

Result<SampleRun> decode_run(std::string_view time, std::string_view value, std::string_view peak, uint32_t points,
                             uint32_t stride, ColumnCodec& codec) {
  if (points == 0 || points > kMaxRunPoints) return fail("damaged samples: impossible size");
  SampleRun run;
  run.stride = stride;
  run.points.resize(points);
  const auto body = unseal(time);
  if (!body) return std::unexpected(body.error());
  std::vector<int64_t> times;
  if (Status status = codec.decode(*body, points, points, times); !status) return std::unexpected(status.error());
  for (uint32_t i = 0; i < points; ++i) run.points[i].at_s = static_cast<double>(times[i]) * 1e-3;
  if (Status status = decode_values(value, run, &SeriesPoint::value, codec); !status)
    return std::unexpected(status.error());
  if (peak.empty()) {
    for (SeriesPoint& p : run.points) p.peak = p.value;
  } else if (Status status = decode_values(peak, run, &SeriesPoint::peak, codec); !status) {
    return std::unexpected(status.error());
  }
  return run;
}

Status SampleLog::attach(Database& db) {
  auto select = db.prepare("SELECT id, scope, idx, name, points, first_s, last_s, last, mean, min, max FROM series");
  if (!select) return std::unexpected(select.error());
  while (select->step() == Statement::Step::kRow && series_.size() < kMaxSeries) {
    Series s;
    s.id = select->integer(0);
    s.count = static_cast<uint64_t>(std::max<int64_t>(0, select->integer(4)));
    s.first_s = select->real(5), s.last_s = select->real(6), s.last = select->real(7);
    s.sum = select->real(8) * static_cast<double>(s.count);
    s.min = select->real(9), s.max = select->real(10);
    next_id_ = std::max(next_id_, s.id + 1);
    series_[{select->text(1), static_cast<int32_t>(select->integer(2)), select->text(3)}] = std::move(s);
  }
  return {};
}

bool SampleLog::add(const SeriesKey& key, int64_t time_ns, double value) {
  if (!std::isfinite(value)) return false;
  auto found = series_.find(key);
  if (found == series_.end()) {
    if (series_.size() >= kMaxSeries) return false;
    found = series_.emplace(key, Series()).first;
    found->second.id = next_id_++;
  }
  Series& s = found->second;
  // A full run waits for its commit; what cannot be written for that long is lost.
  if (s.points.size() >= 4 * kRunPoints) return false;
  const double at_s = static_cast<double>(time_ns - start_ns_) * 1e-9;
  if (s.count == 0) s.first_s = at_s, s.min = s.max = value;
  s.min = std::min(s.min, value), s.max = std::max(s.max, value);
  s.last_s = at_s, s.last = value, s.sum += value;
  ++s.count, ++s.unwritten;
  s.points.push_back({at_s, value, value});
  s.changed = waits_ = true;
  return true;
}

Status SampleLog::write_series(const SeriesKey& key, Series& s, Statement& series, Statement& insert, Database& db) {
  const double mean = s.sum / static_cast<double>(std::max<uint64_t>(1, s.count));
  if (!series
           .bind(s.id, one_line(key.scope, 32), key.idx, one_line(key.name, 64), s.count, s.first_s, s.last_s, s.last,
                 mean, s.min, s.max)
           .run())
    return std::unexpected(db.last_error());
  const EncodedRun run = encode_run({s.points, 1}, codec_);
  if (!insert
           .bind(null_if(s.run_id == 0, s.run_id), s.id, s.points.size(), s.points.front().at_s, s.points.back().at_s,
                 AsBlob{run.time}, AsBlob{run.value})
           .run())
    return std::unexpected(db.last_error());
  s.new_run_id = sqlite3_last_insert_rowid(db.raw());
  return {};
}

Status SampleLog::thin(Database& db) {
  const uint64_t room = max_bytes_ / 16;
  for (unsigned i = 0; i < kThinsPerWrite; ++i) {
    if (static_cast<uint64_t>(
            db.integer("SELECT sum(length(time) + length(value) + ifnull(length(peak), 0) + 40) FROM sample")) <= room)
      return {};
    auto largest = db.prepare(
        "SELECT series, stride FROM sample GROUP BY series, stride HAVING count(*) > 2 ORDER BY sum(length(value)) "
        "DESC LIMIT 1");
    auto oldest = db.prepare(
        "SELECT id, points, time, value, peak FROM sample WHERE series = ? AND stride = ? ORDER BY from_s LIMIT 2");
    auto erase = db.prepare("DELETE FROM sample WHERE id = ?");
    auto insert = db.prepare(
        "INSERT INTO sample(series, stride, points, from_s, to_s, time, value, peak) VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    if (!largest || !oldest || !erase || !insert) return std::unexpected(db.last_error());
    if (largest->step() != Statement::Step::kRow) return {};
    const int64_t series = largest->integer(0);
    const auto stride = static_cast<uint32_t>(std::clamp<int64_t>(largest->integer(1), 1, 1 << 30));
    std::vector<SeriesPoint> points;
    std::vector<int64_t> ids;
    oldest->bind(series, stride);
    while (oldest->step() == Statement::Step::kRow) {
      ids.push_back(oldest->integer(0));
      const auto count = static_cast<uint32_t>(std::clamp<int64_t>(oldest->integer(1), 0, kMaxRunPoints + 1));
      auto run = decode_run(oldest->bytes(2), oldest->bytes(3), oldest->bytes(4), count, stride, codec_);
      if (run) points.insert(points.end(), run->points.begin(), run->points.end());
    }
    for (int64_t id : ids)
      if (!erase->bind(id).run()) return std::unexpected(db.last_error());
    if (points.empty()) continue;
    const SampleRun thinned = halved(points, stride);
    const EncodedRun run = encode_run(thinned, codec_);
    if (!insert
             ->bind(series, thinned.stride, thinned.points.size(), points.front().at_s, points.back().at_s,
                    AsBlob{run.time}, AsBlob{run.value}, AsBlob{run.peak})
             .run())
      return std::unexpected(db.last_error());
  }
  return {};
}

Status SampleLog::write(Database& db) {
  if (!waits_) return {};
  auto describe = db.prepare("INSERT OR REPLACE INTO series VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  auto insert = db.prepare(
      "INSERT OR REPLACE INTO sample(id, series, stride, points, from_s, to_s, time, value, peak) VALUES(?, ?, 1, ?, "
      "?, ?, ?, ?, NULL)");
  if (!describe || !insert) return std::unexpected(db.last_error());
  for (auto& [key, series] : series_) {
    if (!series.changed || series.points.empty()) continue;
    if (Status status = write_series(key, series, *describe, *insert, db); !status) return status;
  }
  return thin(db);
}

void SampleLog::committed() {
  for (auto& [key, s] : series_) {
    if (!s.changed) continue;
    s.changed = false;
    s.unwritten = 0;
    s.run_id = s.new_run_id;
    if (s.points.size() < kRunPoints) continue;
    s.points.clear();
    s.run_id = 0;
  }
  waits_ = false;
}

void SampleLog::rolled_back() {
  for (auto& [key, s] : series_) s.new_run_id = s.run_id;
}

uint64_t SampleLog::give_up() {
  uint64_t lost = 0;
  for (auto& [key, s] : series_) {
    lost += s.unwritten;
    s.unwritten = 0;
    s.changed = false;
    s.points.clear();
    s.run_id = 0;
  }
  waits_ = false;
  return lost;
}

}  // namespace stepscope::store
