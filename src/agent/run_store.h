// Keeps run.db up to date while the run goes on: closed rows as the engine closes them, lives, groups, findings and
// samples now and then, a snapshot twice a minute, so that a run whose agent never came to an end can still be read.
// Without a folder it does nothing. Failure: told once by take_error(); the run goes on without the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent_config.h"
#include "agent/host_watch.h"
#include "agent/pipeline.h"
#include "store/run_writer.h"

namespace stepscope {

class RunStore {
 public:
  // Listens to the pipeline's engine from now on; the pipeline must not outlive it without stop_listening().
  RunStore(const AgentConfig& config, Pipeline& pipeline);
  ~RunStore();

  void event(const std::string& kind, const std::string& text, int rank, int64_t time_ns);
  // Call once per pass.
  void tick(uint64_t now_ns);
  // The final state; closes the file.
  void finish(const Snapshot& snapshot, const HostFacts& facts, uint64_t now_ns);

  std::optional<Error> take_error();

 private:
  void put_state(const Snapshot& snapshot);
  void put_samples(const HostFacts& facts);

  const AgentConfig& config_;
  Pipeline& pipeline_;
  std::unique_ptr<RunWriter> writer_;
  uint64_t next_state_ns_ = 0, next_snapshot_ns_ = 0;
  uint64_t steps_then_ = 0;
};

}  // namespace stepscope
