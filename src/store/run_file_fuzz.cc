// A whole run file from anywhere, opened in memory and asked everything. Inputs are files, or (first byte odd) lists of
// changes to a good one. Short runs are judged again too, which takes a hundred times longer than reading.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "../../tests/support/changes.h"
#include "align/config_fact.h"
#include "store/rebuild.h"
#include "store/run_reader.h"
#include "store/run_writer.h"

namespace {

using namespace stepscope;

StepRow row_of(uint32_t step, uint32_t ranks) {
  StepRow row;
  row.step = step;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if ((step + rank) % 17 == 0) continue;
    Cell cell;
    cell.rank = static_cast<int32_t>(rank);
    cell.end_ns = 1'000'000'000ll + step * 40'000'000ll;
    cell.ms[index(Category::kForward)] = 10 + static_cast<float>(step * 7 % 13) * 0.1f;
    cell.ms[index(Category::kStragglerWait)] = rank ? 2 : 0;
    cell.wall_ms = cell.ms[index(Category::kForward)] + cell.ms[index(Category::kStragglerWait)];
    cell.wait_ms = cell.stall_ms = cell.ms[index(Category::kStragglerWait)];
    cell.caused_ms = rank ? 0 : 2;
    cell.loss = 1.0 / (1 + step);
    row.cells.push_back(cell);
  }
  for (int rank = 1; rank < static_cast<int>(ranks); ++rank) row.caused.push_back({0, rank, 2});
  return row;
}

std::string good_image(uint32_t steps) {
  const std::string path = "/tmp/ss-run-file-fuzz-" + std::to_string(::getpid()) + ".db";
  ::unlink(path.c_str());
  {
    RunWriterOptions options{.run_id = "fuzz", .full_steps = 64, .page_bytes = 1024};
    RunWriter writer(path, options);
    RankLife life;
    life.rank = 0, life.world_size = 3, life.ended = true, life.exit_signal = 9;
    life.unavailable = {"gpu_time: no device"};
    life.training_loaders = {7, 9};
    life.out_of_memory.push_back({.requested_bytes = 1 << 20, .step = 3, .phase = Category::kForward});
    keep_config_fact(life.configuration, parse_config_fact(5, "loader|workers=0;batch=8"));
    writer.set_run({.name = "fuzz", .world_size = 3, .nodes = 1, .status = "completed", .exit_code = 0});
    writer.set_lives({life});
    writer.set_group(1, "dp", {0, 1, 2});
    writer.add_event({.kind = "x", .text = "y"});
    for (uint32_t step = 0; step < steps; ++step) {
      writer.add_row(row_of(step, 3));
      if (step < 70) writer.add_sample({"host", -1, "cpu_share"}, step * 1'000'000'000ll, 0.5);
    }
    Finding finding;
    finding.kind = FindingKind::kHang, finding.ranks = {1};
    writer.put_findings({finding}, 10);
    writer.put_snapshot(std::string(300 << 10, ' '), 1, 1);
  }
  std::ifstream in(path, std::ios::binary);
  std::string image{std::istreambuf_iterator<char>(in), {}};
  ::unlink(path.c_str());
  if (image.empty()) std::abort();
  return image;
}

std::string changed(bool small, const uint8_t* data, size_t size) {
  static const std::string large_image = good_image(260), small_image = good_image(16);
  return examples::changed(small ? small_image : large_image, data, size);
}

void check(const std::string& message) {
  if (message.empty() || message.find('\n') != std::string::npos) std::abort();
}

void ask(RunReader& reader, bool judge) {
  size_t rows = 0;
  const Status status = reader.for_each_row({}, [&](const StoredRow& row) {
    if (row.row.cells.size() > 1u << 17) std::abort();
    return ++rows < 5000;
  });
  if (!status) check(status.error().message);
  (void)reader.run(), (void)reader.lives(), (void)reader.groups(), (void)reader.findings(), (void)reader.events(),
      (void)reader.snapshot();
  (void)reader.sums();
  if (const auto series = reader.series())
    for (size_t i = 0; i < series->size() && i < 8; ++i) (void)reader.samples((*series)[i]);
  if (judge && rows < 40) (void)rebuild_snapshot(reader, {.max_ranks = 16});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool small = data[0] & 2;
  const std::string image =
      data[0] & 1 ? changed(small, data + 1, size - 1) : std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  auto reader = RunReader::from_bytes(image, "fuzz");
  if (reader)
    ask(*reader, small);
  else
    check(reader.error().message);
  return 0;
}
