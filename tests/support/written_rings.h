// Rings written by a test as ranks write them, and the folder that they lie in.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/pipeline.h"
#include "blackbox/ring_writer.h"

namespace stepscope {

using blackbox::RingWriter;

// One fake rank process.
class Writer {
 public:
  Writer(const std::string& folder, int rank, int pid, int attempt = 0, uint64_t capacity = 4096, int world = 2,
         uint64_t begin_ns = 1'000'000'000)
      : now_(begin_ns) {
    static int number = 0;
    blackbox::RingOptions options;
    options.capacity = options.min_capacity = capacity;
    ring_ = std::move(*RingWriter::create(folder + "/" + std::to_string(++number) + ".ring", options));
    auto& h = ring_->header();
    h.rank = rank, h.local_rank = rank, h.world_size = world, h.node_rank = 0, h.attempt = attempt, h.pid = pid;
    h.pid_start_ticks = static_cast<uint64_t>(pid) * 7;
    h.process_start_ns = h.anchor_monotonic_ns = now_;
    h.evidence = blackbox::kEvidenceOptimizer;
  }
  void put(Kind kind, Edge edge, uint64_t id = 1, uint64_t after_ns = 1'000'000, uint64_t b = 0) {
    now_ += after_ns;
    blackbox::Record r;
    r.time_ns = now_, r.kind = pack_kind(kind, edge), r.thread = thread, r.a = id, r.b = b;
    ring_->put(r);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      for (Kind kind : {Kind::kFetch, Kind::kForward, Kind::kBackward, Kind::kOptimizer})
        put(kind, Edge::kBegin), put(kind, Edge::kEnd);
    }
  }
  // A step that is nothing but compute.
  void busy_step() {
    for (Kind kind : {Kind::kFetch, Kind::kForward, Kind::kBackward, Kind::kOptimizer})
      put(kind, Edge::kBegin, 1, 1'000), put(kind, Edge::kEnd, 1, kind == Kind::kFetch ? 10'000 : 10'000'000);
  }
  void skip(uint64_t ns) { now_ += ns; }
  void name(NameKind kind, uint64_t id, const std::string& text) { ring_->add_name(kind, id, text); }
  blackbox::Header& header() { return ring_->header(); }
  RankTail tail() const { return std::move(*RankTail::open(ring_->path())); }
  std::string path() const { return ring_->path(); }
  uint64_t now() const { return now_; }

  uint32_t thread = 1;  // of the records that follow

 private:
  std::unique_ptr<RingWriter> ring_;
  uint64_t now_;
};

class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stepscope-pipeline-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { [[maybe_unused]] const int rc = ::system(("rm -rf '" + root_ + "'").c_str()); }

  std::string root_;
};

inline std::vector<Finding> of_kind(const Snapshot& snapshot, FindingKind kind) {
  std::vector<Finding> result;
  std::copy_if(snapshot.findings.begin(), snapshot.findings.end(), std::back_inserter(result),
               [&](const Finding& f) { return f.kind == kind; });
  return result;
}

constexpr int kKilled = 9, kTerminated = 15;

}  // namespace stepscope
