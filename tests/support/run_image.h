// A small run file as bytes, with something in every table: what fuzzers change.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "align/config_fact.h"
#include "store/run_writer.h"

namespace stepscope::examples {

inline StepRow row_of(uint32_t step, uint32_t ranks) {
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

inline std::string good_image(uint32_t steps) {
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

}  // namespace stepscope::examples
