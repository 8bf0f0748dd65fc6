// The tables of run files say what the reader says, of files of any content, thinned ones, and ones that grow.
#include "tables/run_tables.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <set>

#include "arrow_consumer.h"
#include "random_rows.h"
#include "scratch_folder.h"
#include "store/metric.h"
#include "store/run_writer.h"
#include "tables/arrow_export.h"
#include "tables/csv.h"

namespace stepscope::tables {
namespace {

using testing::HeldStream;
using testing::read_all;
using testing::ReadStream;
using testing::ScratchFolder;

constexpr int64_t kStartNs = 1'000'000'000'000;

RunWriterOptions options() { return {.run_id = "run-1", .version = "0.1.0", .start_ns = kStartNs}; }

ReadStream read_table(const std::string& path, std::string_view table, std::shared_ptr<Damage> damage = nullptr) {
  auto opened = open_table(path, table, std::move(damage));
  if (!opened) {
    ADD_FAILURE() << opened.error().message;
    return {};
  }
  HeldStream stream;
  export_stream(std::move(opened->source), opened->notes, stream.get());
  ReadStream got = read_all(stream.get());
  EXPECT_EQ(got.code, 0) << got.error;
  return got;
}

std::vector<StoredRow> read_rows(const std::string& path) {
  std::vector<StoredRow> rows;
  auto reader = RunReader::open(path);
  EXPECT_TRUE(reader);
  EXPECT_TRUE(reader->for_each_row({}, [&](const StoredRow& row) { return rows.push_back(row), true; }));
  return rows;
}

// A number of a table is the figure of a cell; where the figure says "not known", it is null.
void expect_same(std::optional<double> is, double was, bool known, const std::string& what) {
  ASSERT_EQ(is.has_value(), known) << what;
  if (!known) return;
  if (std::isnan(was)) {
    EXPECT_TRUE(std::isnan(*is)) << what;
  } else {
    EXPECT_EQ(*is, was) << what;
  }
}
void expect_figure(field::Time, std::optional<double> is, float was, const std::string& what) {
  ASSERT_TRUE(is) << what;
  EXPECT_EQ(static_cast<float>(*is), was) << what;
}
void expect_figure(field::MeasuredTime, std::optional<double> is, float was, const std::string& what) {
  if (is) *is = static_cast<float>(*is);
  expect_same(is, was, was >= 0, what);
}
void expect_figure(field::Reading, std::optional<double> is, std::optional<double> was, const std::string& what) {
  expect_same(is, was.value_or(0), was.has_value(), what);
}
void expect_figure(field::Size, std::optional<double> is, double was, const std::string& what) {
  expect_same(is, was, was != field::Size::kFigure, what);
}
void expect_figure(field::Number, std::optional<double> is, int32_t was, const std::string& what) {
  expect_same(is, was, was >= 0, what);
}
void expect_figure(field::Total, std::optional<double> is, uint64_t was, const std::string& what) {
  ASSERT_TRUE(is) << what;
  EXPECT_EQ(*is, static_cast<double>(static_cast<int64_t>(was))) << what;
}
void expect_figure(field::Hash, std::optional<double> is, uint64_t was, const std::string& what) {
  ASSERT_TRUE(is) << what;
  EXPECT_EQ(*is, static_cast<double>(was)) << what;
}
void expect_figure(field::Amount, std::optional<double> is, double was, const std::string& what) {
  expect_same(is, was, true, what);
}
void expect_figure(field::Count, std::optional<double> is, uint32_t was, const std::string& what) {
  expect_same(is, was, true, what);
}

void expect_table_of(const std::vector<StoredRow>& rows, const ReadStream& got) {
  std::map<std::string, std::vector<std::optional<double>>> columns;
  std::map<std::string, std::string> by_metric;  // number of the metric → name of the column
  for (int64_t c = 0; c < (*got.schema).n_children; ++c) {
    const ArrowSchema& field = *(*got.schema).children[c];
    columns[field.name] = got.numbers(field.name);
    const auto notes = testing::metadata_of(field);
    if (notes.contains("metric")) by_metric[notes.at("metric")] = field.name;
  }
  const auto name_of = [&](size_t metric) { return by_metric.at(std::to_string(store::metric_info(metric).id)); };
  size_t at = 0;
  for (const StoredRow& stored : rows) {
    for (const Cell& cell : stored.row.cells) {
      ASSERT_LT(at, static_cast<size_t>(got.rows()));
      EXPECT_EQ(columns["attempt"][at], stored.attempt);
      EXPECT_EQ(columns["step"][at], static_cast<double>(stored.row.step));
      EXPECT_EQ(columns["stride"][at], stored.stride);
      EXPECT_EQ(columns["rank"][at], cell.rank);
      EXPECT_EQ(static_cast<float>(*columns["wall_ms"][at]), cell.wall_ms);
      EXPECT_EQ(columns["gpu"][at], cell.gpu);
      for (size_t c = 0; c < kCategoryCount; ++c) {
        EXPECT_EQ(static_cast<float>(*columns[name_of(c)][at]), cell.ms[c]) << kCategoryNames[c];
        const auto host_ms = columns[name_of(store::kHost + c)][at];
        ASSERT_EQ(host_ms.has_value(), cell.gpu);
        if (cell.gpu) {
          EXPECT_EQ(static_cast<float>(*host_ms), cell.host_ms[c]) << kCategoryNames[c];
        }
      }
#define FIGURE(kind, figure, ...) \
  expect_figure(field::kind(), columns[name_of(store::metric_of(store::Figure::figure))][at], cell.figure, #figure);
#include "align/step_fields.def"
      ++at;
    }
  }
  EXPECT_EQ(at, static_cast<size_t>(got.rows()));
}

TEST(StepTableOut, ArbitraryRowsAreWhatTheReaderSays) {
  rc::check([] {
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    const int ranks = *rc::gen::inRange(1, 6);
    const ScratchFolder folder;
    examples::WildRows wild(seed, ranks);
    RunWriter writer(folder.file("run.db"), options());
    for (int i = *rc::gen::inRange(1, 200); i > 0; --i) writer.add_row(wild.next());
    writer.close();
    expect_table_of(read_rows(folder.file("run.db")), read_table(folder.file("run.db"), "steps"));
    RC_ASSERT(!::testing::Test::HasFailure());
  });
}

void write_job(const std::string& path, int ranks, int steps, RunWriterOptions with = options()) {
  examples::JobRows job({.ranks = ranks});
  RunWriter writer(path, with);
  for (int i = 0; i < steps; ++i) writer.add_row(job.next());
  writer.close();
}

TEST(StepTableOut, LongRunsComeInBoundedBatchesInOrder) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.db");
  write_job(path, 5, 20'000);
  const ReadStream got = read_table(path, "steps");
  ASSERT_EQ(got.rows(), 100'000);
  ASSERT_EQ(got.batches.size(), 2u);
  EXPECT_EQ((*got.batches[0]).length, static_cast<int64_t>(kBatchRows));
  const auto step = got.numbers("step"), rank = got.numbers("rank"), at_s = got.numbers("at_s");
  for (size_t i = 0; i < step.size(); ++i) {
    ASSERT_EQ(step[i], static_cast<double>(i / 5));
    ASSERT_EQ(rank[i], static_cast<double>(i % 5));
    ASSERT_GE(*at_s[i], 0);
  }
}

TEST(StepTableOut, ThinnedRowsSayWhatTheyStandFor) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.db");
  RunWriterOptions little = options();
  little.full_steps = 1000, little.max_bytes = 1u << 20;
  write_job(path, 4, 12'000, little);
  const ReadStream got = read_table(path, "steps");
  expect_table_of(read_rows(path), got);
  EXPECT_GT(got.numbers("stride").front(), 1);
  EXPECT_EQ(got.numbers("stride").back(), 1);
  // The ledger is of all steps, the thinned ones, too.
  const ReadStream ledger = read_table(path, "ledger");
  EXPECT_EQ(ledger.rows(), 4 * static_cast<int64_t>(kCategoryCount));
  for (const auto steps : ledger.numbers("steps")) EXPECT_EQ(steps, 12'000);
}

// The writer lays small segments together and thins while a reader is half way through.
TEST(StepTableOut, AFileThatGrowsIsReadUpToWhereItWas) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.db");
  examples::JobRows job({.ranks = 2});
  RunWriter writer(path, options());
  uint64_t now_ns = 1;
  const auto write = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      writer.add_row(job.next());
      if (i % 200 == 199) writer.flush(now_ns += 6'000'000'000);
    }
  };
  write(36'000);
  auto opened = open_table(path, "steps");
  ASSERT_TRUE(opened);
  std::vector<int64_t> steps;
  const auto take = [&] {
    auto batch = opened->source->next();
    ASSERT_TRUE(batch);
    if (!*batch) return;
    for (size_t i = 0; i < (*batch)->rows; ++i) steps.push_back((*batch)->columns[1].integer(i));
  };
  take();
  ASSERT_EQ(steps.size(), kBatchRows);
  write(2'000);
  writer.close();
  take();
  take();
  ASSERT_EQ(steps.size(), 72'000u);
  for (size_t i = 0; i < steps.size(); ++i) ASSERT_EQ(steps[i], static_cast<int64_t>(i / 2));
}

TEST(StepTableOut, NamesAndUnitsComeFromTheTableOfMetrics) {
  const auto fields = fields_of("steps");
  ASSERT_TRUE(fields);
  std::set<std::string> names;
  for (const Field& f : *fields) {
    EXPECT_TRUE(names.insert(f.name).second) << f.name;
    if (f.unit == "ms" || f.unit == "bytes") {
      EXPECT_TRUE(f.name.ends_with(f.unit)) << f.name;
    }
  }
  for (size_t m = 0; m < store::kMetricCount; ++m)
    if (m != store::kAbsent) {
      const auto id = std::pair<std::string, std::string>("metric", std::to_string(store::metric_info(m).id));
      EXPECT_TRUE(std::ranges::any_of(*fields, [&](const Field& f) { return std::ranges::count(f.notes, id) == 1; }))
          << store::metric_info(m).name;
    }
  for (const char* name : {"forward_ms", "loss", "h2d_bytes", "waited_for_rank", "host_forward_ms", "caused_ms"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(RunTables, FactsAreWhatTheReaderSays) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.db");
  {
    RunWriter writer(path, options());
    RunInfo run;
    run.name = "facts", run.started_at = "2026-01-01T00:00:00Z", run.world_size = 2;
    writer.set_run(run);
    RankLife life;
    life.rank = 1, life.local_rank = 1, life.node_rank = 0, life.pid = 7, life.hostname = "a", life.steps = 3;
    life.process_start_ns = kStartNs + 2'000'000'000, life.ended = true, life.exit_signal = 9;
    writer.set_lives({life});
    writer.set_group(3, "tp", {0, 1});
    writer.add_event({.time_ns = kStartNs + 1'500'000'000, .rank = 1, .kind = "rank_death", .text = "killed"});
    writer.add_sample({"rank", 1, "rss_bytes"}, kStartNs + 1'000'000'000, 4096);
    writer.add_sample({"host", -1, "load1"}, kStartNs + 1'000'000'000, 0.5);
    Finding f;
    f.id = "f1", f.kind = FindingKind::kRankLost, f.severity = Severity::kCrit, f.ranks = {1}, f.victims = {0};
    f.title = "Rank 1 is gone", f.cost_share = 0.25, f.detected_step = 2;
    writer.put_findings({f}, 2);
    writer.put_snapshot("{}", 2, kStartNs);
    writer.close();
  }
  const ReadStream ranks = read_table(path, "ranks");
  EXPECT_EQ(ranks.texts("state"), std::vector<std::string>{"lost"});
  EXPECT_EQ(ranks.numbers("exit_signal"), std::vector<std::optional<double>>{9});
  EXPECT_EQ(ranks.numbers("exit_code"), std::vector<std::optional<double>>{std::nullopt});
  EXPECT_EQ(ranks.numbers("start_s"), std::vector<std::optional<double>>{2});
  const ReadStream samples = read_table(path, "samples");
  EXPECT_EQ(samples.texts("scope"), (std::vector<std::string>{"host", "rank"}));
  EXPECT_EQ(samples.texts("name"), (std::vector<std::string>{"load1", "rss_bytes"}));
  EXPECT_EQ(samples.numbers("idx"), (std::vector<std::optional<double>>{std::nullopt, 1}));
  EXPECT_EQ(samples.numbers("value"), (std::vector<std::optional<double>>{0.5, 4096}));
  const ReadStream findings = read_table(path, "findings");
  EXPECT_EQ(findings.texts("kind"), std::vector<std::string>{"RANK_LOST"});
  EXPECT_EQ(findings.numbers("cost_share"), std::vector<std::optional<double>>{0.25});
  EXPECT_EQ(findings.numbers("closed_step"), std::vector<std::optional<double>>{std::nullopt});
  const int64_t victims = testing::column_of(*findings.schema, "victims");
  EXPECT_EQ(testing::list(*(*findings.batches[0]).children[victims], 0), std::vector<int32_t>{0});
  EXPECT_EQ(read_table(path, "events").numbers("at_s"), std::vector<std::optional<double>>{1.5});
  EXPECT_EQ(read_table(path, "groups").numbers("group_id"), std::vector<std::optional<double>>{3});
  EXPECT_EQ(testing::metadata_of(*findings.schema).at("run"), "facts");
  EXPECT_EQ(testing::metadata_of(*findings.schema).at("table"), "findings");
}

TEST(RunTables, AnEmptyFileHasEveryTableWithoutRows) {
  const ScratchFolder folder;
  RunWriter(folder.file("run.db"), options()).close();
  for (const TableInfo& table : run_tables()) EXPECT_EQ(read_table(folder.file("run.db"), table.name).rows(), 0);
}

TEST(RunTables, WhatCannotBeReadIsToldInOneLine) {
  const ScratchFolder folder;
  EXPECT_EQ(open_table(folder.file("none.db"), "steps").error().message, folder.file("none.db") + ": no such file");
  std::ofstream(folder.file("text.db")) << "no database at all, but long enough to be looked at";
  EXPECT_NE(open_table(folder.file("text.db"), "steps").error().message.find("text.db"), std::string::npos);
  RunWriter(folder.file("run.db"), options()).close();
  EXPECT_EQ(open_table(folder.file("run.db"), "pages").error().message,
            "no table is called 'pages': steps, ledger, collectives, samples, findings, ranks, groups, events");
}

TEST(RunTables, DamagedSegmentsAreLeftOutAndCounted) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.db");
  write_job(path, 2, 9'000);
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (size_t i = 0; i < 64; ++i) bytes[bytes.size() / 2 + i] ^= 0x55;  // in a block, by far the most of the file
  std::ofstream(path, std::ios::binary) << bytes;
  const auto damage = std::make_shared<Damage>();
  const ReadStream got = read_table(path, "steps", damage);
  EXPECT_GT(got.rows(), 0);
  EXPECT_LT(got.rows(), 18'000);
  EXPECT_GE(damage->pieces, 1u);
  EXPECT_NE(damage->first.load()->find("damaged"), std::string::npos);
}

TEST(Csv, ValuesAreQuotedWhereTheyMustBe) {
  std::vector<Field> fields = {{"a", "", ColumnType::kInt64, true}, {"b_ms", "ms", ColumnType::kReal},
                               {"c", "", ColumnType::kText},        {"d", "rank", ColumnType::kRanks},
                               {"e", "", ColumnType::kBool},        {"f", "", ColumnType::kWord},
                               {"g", "", ColumnType::kUint64}};
  const std::vector<std::string> words = {"x", "y"};
  fields[5].words = word_list(words);
  Batch batch;
  for (const Field& f : fields) batch.columns.emplace_back(f.type);
  const auto row = [&](std::optional<int64_t> a, double b, std::string_view c, std::vector<int> d, bool e, int f) {
    a ? batch.columns[0].put(*a) : batch.columns[0].put_null();
    batch.columns[1].put(b);
    batch.columns[2].put(c);
    batch.columns[3].put(std::span<const int>(d));
    batch.columns[4].put(int64_t{e});
    batch.columns[5].put(int64_t{f});
    batch.columns[6].put(int64_t{-1});
    ++batch.rows;
  };
  row(std::nullopt, 0.1, "plain", {}, true, 1);
  row(-5, 1e300, "say \"a, b\"", {0, 2}, false, 0);
  EXPECT_EQ(csv_head(fields), "a,b_ms,c,d,e,f,g\n");
  EXPECT_EQ(csv_rows(fields, batch),
            ",0.1,plain,[],true,y,18446744073709551615\n"
            "-5,1e+300,\"say \"\"a, b\"\"\",\"[0,2]\",false,x,18446744073709551615\n");
}

}  // namespace
}  // namespace stepscope::tables
