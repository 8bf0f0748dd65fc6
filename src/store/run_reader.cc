#include "store/run_reader.h"

#include <sqlite3.h>
#include <zstd.h>

#include <algorithm>

#include "base/file.h"
#include "store/json_lists.h"
#include "store/run_facts.h"
#include "store/sample_log.h"
#include "store/schema.h"
#include "store/segment_store.h"

namespace stepscope {

using namespace store;

namespace {

constexpr int kProgressSteps = 1'000'000;  // of SQLite's machine, between two looks at the bound
constexpr uint64_t kMaxProgress = 20'000;  // looks per call of ours: minutes of work, then it is no honest file
constexpr size_t kMaxListed = 1u << 20;
constexpr size_t kMaxAttempts = 4096;
constexpr int kReaderBusyMs = 2000;

int32_t to_int(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)); }

int64_t to_ns(double at_s, int64_t start_ns) {
  return static_cast<int64_t>(std::clamp(at_s * 1e9 + static_cast<double>(start_ns), -9e18, 9e18));
}

}  // namespace

struct RunReader::Impl {
  Database db;
  std::string name, damage;
  std::unique_ptr<SegmentStore> segments;
  ColumnCodec codec;
  uint64_t damaged = 0, progress = 0;

  static int on_progress(void* self) { return ++static_cast<Impl*>(self)->progress > kMaxProgress; }

  Status prepare() {
    distrust(db);
    sqlite3_busy_timeout(db.raw(), kReaderBusyMs);
    sqlite3_progress_handler(db.raw(), kProgressSteps, &on_progress, this);
    if (Status status = check_schema(db, name.c_str()); !status) return status;
    if (Status status = db.exec("PRAGMA query_only = ON"); !status) return status;
    segments = std::make_unique<SegmentStore>(db);
    return {};
  }

  void note(const Error& error, uint64_t count = 1) {
    damaged += count;
    if (damage.empty()) damage = error.message;
  }

  // Runs a query and hands each row to `take`, which returns false to stop.
  template <class Take, class... Args>
  Status query(std::string_view sql, Take take, const Args&... args) {
    progress = 0;
    auto statement = db.prepare(sql);
    if (!statement) return std::unexpected(statement.error());
    statement->bind(args...);
    size_t rows = 0;
    for (;;) {
      const auto step = statement->step();
      if (step == Statement::Step::kDone) return {};
      if (step == Statement::Step::kError) return std::unexpected(db.last_error());
      if (++rows > kMaxListed || !take(*statement)) return {};
    }
  }

  // One state of the file for a question that takes several queries.
  class OneState {
   public:
    explicit OneState(Database& db) : db_(db) { (void)db_.exec("BEGIN"); }
    ~OneState() { (void)db_.exec("COMMIT"); }
    OneState(const OneState&) = delete;

   private:
    Database& db_;
  };

  Result<Segment> load(const SegmentHead& head) {
    progress = 0;
    auto segment = segments->load(head, codec);
    if (!segment) note(segment.error());
    return segment;
  }
};

RunReader::RunReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunReader::RunReader(RunReader&&) noexcept = default;
RunReader& RunReader::operator=(RunReader&&) noexcept = default;
RunReader::~RunReader() = default;

Result<RunReader> RunReader::open(const std::string& path) {
  if (!is_file(path)) return fail(path + ": no such file");
  // A rollback journal that a killed writer left must be played back once, which takes the right to write.
  for (const int flags : {SQLITE_OPEN_READONLY, SQLITE_OPEN_READWRITE}) {
    auto impl = std::make_unique<Impl>();
    impl->name = path;
    auto db = Database::open(path, flags | SQLITE_OPEN_NOMUTEX, path);
    if (!db) return std::unexpected(db.error());
    impl->db = std::move(*db);
    const Status status = impl->prepare();
    if (status) return RunReader(std::move(impl));
    if (impl->db.last_code() != SQLITE_READONLY || flags == SQLITE_OPEN_READWRITE)
      return std::unexpected(status.error());
  }
  return fail(path + ": cannot be opened");
}

Result<RunReader> RunReader::from_bytes(std::string_view image, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  auto db = Database::open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, name);
  if (!db) return std::unexpected(db.error());
  impl->db = std::move(*db);
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(std::max<size_t>(1, image.size())));
  if (!copy) return fail(name + ": out of memory");
  std::copy(image.begin(), image.end(), copy);
  // A file whose journal was a WAL says so in its header; in memory there is none.
  if (image.size() > 19 && copy[18] == 2 && copy[19] == 2) copy[18] = copy[19] = 1;
  const int code = sqlite3_deserialize(impl->db.raw(), "main", copy, static_cast<sqlite3_int64>(image.size()),
                                       static_cast<sqlite3_int64>(image.size()),
                                       SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK) return std::unexpected(impl->db.last_error());
  if (Status status = impl->prepare(); !status) return std::unexpected(status.error());
  return RunReader(std::move(impl));
}

Result<StoredRun> RunReader::run() {
  StoredRun run;
  bool found = false;
  Status status = impl_->query(
      "SELECT name, started_at, duration_s, world_size, nodes, attempts, status, exit_code, command, versions, run_id, "
      "start_ns FROM run WHERE id = 1",
      [&](const Statement& s) {
        found = true;
        run.name = s.text(0), run.started_at = s.text(1), run.duration_s = s.real(2);
        run.world_size = to_int(s.integer(3)), run.nodes = to_int(s.integer(4)), run.attempts = to_int(s.integer(5));
        run.status = s.text(6);
        run.exit_code = s.is_null(7) ? -1 : to_int(s.integer(7));
        run.command = text_list(s.bytes(8));
        run.versions = text_pairs(s.bytes(9));
        run.run_id = s.text(10), run.start_ns = s.integer(11);
        return true;
      });
  if (!status) return std::unexpected(status.error());
  if (!found) return fail(impl_->name + ": damaged run file: it names no run");
  return run;
}

Result<std::vector<RankLife>> RunReader::lives() {
  std::vector<RankLife> out;
  Status status = impl_->query(
      "SELECT attempt, rank, local_rank, node, hostname, pid, world_size, steps, exit_code, exit_signal, exception, "
      "open_phase, records, lost, "
      "detail FROM rank ORDER BY attempt, rank",
      [&](const Statement& s) {
        RankLife life;
        life.attempt = to_int(s.integer(0)), life.rank = to_int(s.integer(1));
        if (life.rank < 0 || life.rank >= static_cast<int>(kMaxRanks))
          return impl_->note({"damaged run file: impossible rank"}), true;
        life.local_rank = to_int(s.integer(2)), life.node_rank = to_int(s.integer(3));
        life.hostname = s.text(4), life.pid = to_int(s.integer(5)), life.world_size = to_int(s.integer(6));
        life.steps = static_cast<uint64_t>(std::max<int64_t>(s.integer(7), 0));
        life.exit_code = s.is_null(8) ? -1 : to_int(s.integer(8));
        life.exit_signal = to_int(s.integer(9));
        life.exception = s.text(10);
        const auto phase = std::find(kCategoryNames.begin(), kCategoryNames.end(), s.bytes(11));
        if (phase != kCategoryNames.end()) life.open_phase = static_cast<Category>(phase - kCategoryNames.begin());
        life.records = static_cast<uint64_t>(s.integer(12)), life.lost = static_cast<uint64_t>(s.integer(13));
        read_life_detail(s.bytes(14), life);
        out.push_back(std::move(life));
        return true;
      });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::vector<StoredGroup>> RunReader::groups() {
  std::vector<StoredGroup> out;
  Status status = impl_->query(
      "SELECT attempt, id, description, ranks FROM rank_group ORDER BY attempt, id", [&](const Statement& s) {
        out.push_back({to_int(s.integer(0)), static_cast<uint64_t>(s.integer(1)), s.text(2), int_list(s.bytes(3))});
        return true;
      });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::vector<StoredFinding>> RunReader::findings() {
  std::vector<StoredFinding> out;
  Status status = impl_->query(
      "SELECT attempt, kind, severity, phase, cause, title, ranks, opened_step, closed_step, cost_share, json, scope, "
      "section, pattern, action, victims, first_step, last_step, detected_step, cost_seconds, saves_share, confidence, "
      "coverage FROM finding ORDER BY attempt, opened_step, id",
      [&](const Statement& s) {
        const auto step = [&](int column) { return s.is_null(column) ? -1 : s.integer(column); };
        const auto number = [&](int column) {
          return s.is_null(column) ? std::nullopt : std::optional(s.real(column));
        };
        StoredFinding f;
        f.attempt = to_int(s.integer(0));
        f.kind = s.text(1), f.severity = s.text(2), f.phase = s.text(3), f.cause = s.text(4), f.title = s.text(5);
        f.ranks = int_list(s.bytes(6));
        f.opened_step = step(7), f.closed_step = step(8);
        f.cost_share = s.real(9);
        f.json = s.text(10);
        f.scope = s.text(11), f.section = s.text(12), f.pattern = s.text(13), f.action = s.text(14);
        f.victims = int_list(s.bytes(15));
        f.first_step = step(16), f.last_step = step(17), f.detected_step = step(18);
        f.cost_seconds = number(19), f.saves_share = number(20), f.confidence = number(21), f.coverage = number(22);
        out.push_back(std::move(f));
        return true;
      });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::vector<RunEvent>> RunReader::events() {
  auto about = run();
  if (!about) return std::unexpected(about.error());
  std::vector<RunEvent> out;
  Status status =
      impl_->query("SELECT at_s, attempt, rank, step, kind, text FROM event ORDER BY id", [&](const Statement& s) {
        out.push_back({to_ns(s.real(0), about->start_ns), to_int(s.integer(1)),
                       s.is_null(2) ? -1 : to_int(s.integer(2)), s.is_null(3) ? -1 : s.integer(3), s.text(4),
                       s.text(5)});
        return true;
      });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::vector<SeriesKey>> RunReader::series() {
  std::vector<SeriesKey> out;
  Status status =
      impl_->query("SELECT scope, idx, name FROM series ORDER BY scope, idx, name", [&](const Statement& s) {
        out.push_back({s.text(0), to_int(s.integer(1)), s.text(2)});
        return true;
      });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::vector<SeriesPoint>> RunReader::samples(const SeriesKey& key) {
  std::vector<SeriesPoint> out;
  Status status = impl_->query(
      "SELECT time, value, peak, points, stride FROM sample WHERE series = (SELECT id FROM series WHERE scope = ? AND "
      "idx = ? AND name = ?) "
      "ORDER BY from_s",
      [&](const Statement& s) {
        const auto points = static_cast<uint32_t>(std::clamp<int64_t>(s.integer(3), 0, kMaxRunPoints + 1));
        auto run =
            decode_run(s.bytes(0), s.bytes(1), s.bytes(2), points, static_cast<uint32_t>(s.integer(4)), impl_->codec);
        if (run)
          out.insert(out.end(), run->points.begin(), run->points.end());
        else
          impl_->note(run.error());
        return out.size() < kMaxListed;
      },
      key.scope, key.idx, key.name);
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::optional<std::string>> RunReader::snapshot() {
  std::optional<std::string> out;
  Status status = impl_->query("SELECT size, json, json_zstd FROM snapshot WHERE id = 1", [&](const Statement& s) {
    if (!s.is_null(1)) {
      out = s.text(1);
      return true;
    }
    const int64_t size = s.integer(0);
    const std::string_view packed = s.bytes(2);
    if (size <= 0 || size > static_cast<int64_t>(kMaxSnapshotBytes))
      return impl_->note({"damaged snapshot: impossible size"}), true;
    std::string text(static_cast<size_t>(size), '\0');
    const size_t got = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
    if (ZSTD_isError(got) || got != text.size()) return impl_->note({"damaged snapshot: it does not unpack"}), true;
    out = std::move(text);
    return true;
  });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<std::vector<StoredSize>> RunReader::sizes() {
  std::vector<StoredSize> out;
  Status status = impl_->query(
      "SELECT b.metric, m.name, count(*), sum(length(b.data)) FROM block b LEFT JOIN metric m ON m.id = b.metric "
      "GROUP BY b.metric ORDER BY 4 DESC",
      [&](const Statement& s) {
        out.push_back({s.is_null(1) ? std::to_string(s.integer(0)) : s.text(1), static_cast<uint64_t>(s.integer(2)),
                       static_cast<uint64_t>(s.integer(3))});
        return true;
      });
  if (!status) return std::unexpected(status.error());
  return out;
}

Status RunReader::for_each_row(const RowQuery& query, const std::function<bool(const StoredRow&)>& row) {
  impl_->progress = 0;
  const Impl::OneState state(impl_->db);
  uint64_t damaged = 0;
  auto heads = impl_->segments->list(query.attempt, query.from_step, query.to_step, damaged);
  if (damaged) impl_->note({"damaged segment: impossible numbers"}, damaged);
  if (!heads) return std::unexpected(heads.error());
  for (const SegmentHead& head : *heads) {
    auto segment = impl_->load(head);
    if (!segment) continue;
    for (uint32_t i = 0; i < head.rows; ++i) {
      if (segment->step[i] < query.from_step || segment->step[i] > query.to_step) continue;
      if (!row({to_row(*segment, i), head.attempt, 1u << head.level})) return {};
    }
  }
  return {};
}

Result<std::optional<SegmentPart>> RunReader::next_segment(SegmentWalk& walk) {
  impl_->progress = 0;
  const Impl::OneState state(impl_->db);
  const int64_t version = impl_->db.integer("PRAGMA data_version");
  if (version != walk.version) {
    uint64_t damaged = 0;
    auto heads = impl_->segments->list(-1, 0, INT64_MAX, damaged);
    if (!heads) return std::unexpected(heads.error());
    const bool begins = walk.version < 0;
    if (damaged && begins) impl_->note({"damaged segment: impossible numbers"}, damaged);
    walk.version = version;
    walk.heads = std::move(*heads), walk.at = 0;
    if (begins && !walk.heads.empty()) walk.last_attempt = walk.heads.back().attempt;
    if (begins)
      for (const SegmentHead& head : walk.heads)
        if (head.attempt == walk.last_attempt) walk.last_step = std::max(walk.last_step, head.step1);
  }
  while (walk.at < walk.heads.size()) {
    const SegmentHead& head = walk.heads[walk.at++];
    if (head.attempt > walk.last_attempt) break;
    if (head.attempt < walk.attempt || (head.attempt == walk.attempt && head.step1 < walk.step)) continue;
    const uint64_t from_step = head.attempt == walk.attempt ? walk.step : 0;
    const uint64_t to_step = head.attempt == walk.last_attempt ? std::min(head.step1, walk.last_step) : head.step1;
    if (from_step > to_step) continue;
    walk.attempt = head.attempt, walk.step = to_step + 1;
    auto segment = impl_->load(head);
    if (segment) return SegmentPart{std::move(*segment), from_step, to_step};
  }
  return std::nullopt;
}

namespace {

void add_value(StoredSums::Rank& to, size_t m, double sum) {
  if (m < kCategoryCount) to.ms[m] += sum;
  if (m <= kRest) to.wall_ms += sum;
  if (m >= kHost && m < kHostRest) to.host_ms[m - kHost] += sum;
  if (m >= kHost && m <= kHostRest) to.host_wall_ms += sum;
  if (m == kAbsent) to.steps -= std::min<uint64_t>(to.steps, static_cast<uint64_t>(std::clamp(sum, 0.0, 1e18)));
  if (m == kGpu) to.gpu_steps += static_cast<uint64_t>(std::clamp(sum, 0.0, 1e18));
  if (m == metric_of(Figure::caused_ms)) to.caused_ms += sum;
  if (m == metric_of(Figure::samples)) to.samples += sum;
  if (m == metric_of(Figure::tokens)) to.tokens += sum;
  if (m == metric_of(Figure::bytes)) to.bytes += sum;
}

// What a segment adds to the sums: what was kept when it was thinned, else its own rows.
void add_segment(StoredSums& sums, const Segment& s) {
  const SegmentHead& h = s.head;
  const auto last = static_cast<size_t>(s.rank_of(h.ranks - 1));
  if (sums.ranks.size() <= last) sums.ranks.resize(last + 1);
  const auto of = [&](size_t column) -> StoredSums::Rank& {
    return sums.ranks[static_cast<size_t>(s.rank_of(static_cast<uint32_t>(column)))];
  };
  sums.steps += h.steps;
  const bool kept = h.level > 0;
  const size_t per_rank = kept ? 1 : h.rows;
  for (size_t at = 0; at < h.ranks; ++at) of(at).steps += h.steps;
  for (size_t m = 0; m < kMetricCount; ++m) {
    const std::vector<int64_t>& from = kept ? s.sums[m] : s.cells[m];
    if (from.empty() || !metric_info(m).summed()) continue;
    for (size_t at = 0; at < h.ranks; ++at) {
      double sum = 0;
      for (size_t i = 0; i < per_rank; ++i) sum += summand(m, from[at * per_rank + i], h.quantum_ns);
      add_value(of(at), m, sum);
    }
  }
}

// Where the host is the main axis, its ledger is the main one.
void complete_host(StoredSums& sums) {
  for (StoredSums::Rank& rank : sums.ranks) {
    if (rank.gpu_steps > 0) continue;
    rank.host_ms = rank.ms;
    rank.host_wall_ms = rank.wall_ms;
  }
}

}  // namespace

Result<uint32_t> RunReader::ranks() {
  uint32_t most = 0;
  const Status status = impl_->query("SELECT max(ranks) FROM segment", [&](const Statement& s) {
    most = static_cast<uint32_t>(std::clamp<int64_t>(s.integer(0), 0, 0xffffffff));
    return true;
  });
  if (!status) return std::unexpected(status.error());
  return most;
}

Result<std::vector<int32_t>> RunReader::attempts() {
  std::vector<int32_t> out;
  const Status status = impl_->query("SELECT DISTINCT attempt FROM segment ORDER BY attempt", [&](const Statement& s) {
    out.push_back(to_int(s.integer(0)));
    return out.size() < kMaxAttempts;
  });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<StoredSums> RunReader::sums(int32_t attempt) {
  impl_->progress = 0;
  StoredSums out;
  const Impl::OneState state(impl_->db);
  uint64_t damaged = 0;
  auto heads = impl_->segments->list(attempt, 0, INT64_MAX, damaged);
  if (damaged) impl_->note({"damaged segment: impossible numbers"}, damaged);
  if (!heads) return std::unexpected(heads.error());
  for (const SegmentHead& head : *heads)
    if (auto segment = impl_->load(head)) add_segment(out, *segment);
  complete_host(out);
  return out;
}

uint64_t RunReader::damaged() const { return impl_->damaged; }
const std::string& RunReader::damage() const { return impl_->damage; }

}  // namespace stepscope
