// The ranks of one node in a world of any size, as its agent has them: steps with many collectives, a run file and a
// summary now and then. For figures of memory.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "diagnose/engine.h"
#include "store/run_writer.h"

namespace stepscope::examples {

struct LocalRanks {
  int ranks = 8, world = 8;
  uint32_t steps = 6000;
  size_t collectives = 130;      // FSDP: some two per layer
  bool with_file = true;         // and a snapshot every 100 steps
  std::string path = "/tmp/ss-local-ranks-" + std::to_string(::getpid()) + ".db";

  RankStep step_of(uint32_t number, int rank) const {
    RankStep step;
    step.step = number;
    step.begin_ns = 1'000'000'000ll + number * 40'000'000ll;
    step.end_ns = step.begin_ns + 40'000'000;
    const auto count = static_cast<int64_t>(collectives);
    const int64_t stall_ns = rank == 1 ? 20'000 : 60'000, own_ns = 40'000'000 - stall_ns * count;
    step.segments.resize(collectives + 1);
    for (LedgerNs& s : step.segments) s[index(Category::kForward)] = own_ns / (count + 1);
    step.segments[0][index(Category::kForward)] += own_ns % (count + 1);
    step.own[index(Category::kForward)] = own_ns;
    for (size_t k = 0; k < collectives; ++k) {
      step.stalls.push_back({7, k, 0, stall_ns, Category::kForward});
      step.collectives.push_back({.group = 7, .sequence = k, .bytes = 1 << 20, .since_backward_ns = 1});
    }
    return step;
  }

  // `look` is called every 100 steps and at the end, with everything that is held then.
  void run(const std::function<void()>& look) const {
    {
      Engine engine({});
      std::unique_ptr<RunWriter> writer;
      if (with_file) {
        writer = std::make_unique<RunWriter>(path, RunWriterOptions{.run_id = "memory"});
        engine.set_row_sink([&](const StepRow& row) { writer->add_row(row); });
      }
      for (int r = 0; r < ranks; ++r) engine.announce(r, world);
      for (uint32_t i = 0; i < steps; ++i) {
        for (int r = 0; r < ranks; ++r) engine.feed(r, step_of(i, r));
        if (!with_file || i % 100 != 99) continue;
        const Snapshot snapshot = engine.snapshot();
        look();
      }
      engine.finish();
      const Snapshot snapshot = engine.snapshot();
      look();
    }
    for (const char* more : {"", "-wal", "-shm", "-journal"}) ::unlink((path + more).c_str());
  }
};

}  // namespace stepscope::examples
