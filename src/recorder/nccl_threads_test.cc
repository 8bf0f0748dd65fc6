#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "fake_nccl_job.h"

namespace stepscope::recorder {
namespace {

TEST_F(NcclPlugin, SeveralThreadsWithTheirOwnCommunicators) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(5);
  std::vector<std::thread> threads;
  std::vector<FakeNccl::Comm*> comms;
  for (uint64_t t = 0; t < 4; ++t) comms.push_back(nccl.comm_init(100 + t, 0, 2));
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      fake_cuda_context(reinterpret_cast<void*>(0xc0));
      FakeNccl mine = fake(5);
      auto* comm = comms[t];
      // The mask is NCCL's global; each thread drives its own fake with the same plugin.
      auto* own = mine.comm_init(200 + t, 0, 2);
      for (int i = 0; i < 300; ++i)
        mine.run(i % 2 ? own : comm, {{.func = "AllReduce"}}, reinterpret_cast<void*>(t + 1));
      mine.comm_finalize(own);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1200u);
  // Whatever was measured arrives; at this rate not every launch is.
  EXPECT_GT(Plugin::instance().counts().launches, 0u);
  gpu_stop("test", 20000);
  EXPECT_GT(records(Kind::kNcclTime).size(), 0u);
  EXPECT_EQ(records(Kind::kNcclTime).size(), gpu_counts().resolved);
  EXPECT_EQ(Plugin::instance().counts().comms, 4u);
}

TEST_F(NcclPlugin, AProxyThreadReportsWhileTheAppEnqueuesAndFinalizes) {
  ::setenv("STEPSCOPE_NCCL_KERNEL_CLOCK", "on", 1);
  ::setenv("STEPSCOPE_NCCL_WINDOW", "15/16", 1);
  FakeNccl nccl = fake(4);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  for (int i = 0; i < 17; ++i) step_end(false);
  std::mutex mutex;
  std::vector<FakeNccl::Task> shared;
  std::atomic<bool> done{false};
  std::thread proxy([&] {
    FakeNccl mine = fake(4);
    while (!done) {
      std::vector<FakeNccl::Task> tasks;
      {
        const std::scoped_lock lock(mutex);
        tasks.swap(shared);
      }
      for (const auto& task : tasks)
        for (int c = 0; c < task.channels; ++c) {
          void* channel =
              mine.start(task.comm, kKernelCh, task.handle, nullptr, nullptr, false, nullptr, monotonic_ns());
          mine.state(channel, kStateKernelChStop, monotonic_ns());
          mine.stop(channel);
        }
    }
  });
  size_t enqueued = 0;
  while (enqueued < 2000 || (records(Kind::kNcclTime).empty() && enqueued < 200'000)) {
    nccl.run(comm, {{.func = "AllReduce"}}, kStream);
    ++enqueued;
    const auto tasks = nccl.take_tasks();
    const std::scoped_lock lock(mutex);
    shared.insert(shared.end(), tasks.begin(), tasks.end());
  }
  nccl.comm_finalize(comm);
  done = true;
  proxy.join();
  EXPECT_EQ(records(Kind::kNcclOp).size(), enqueued);
  EXPECT_GT(records(Kind::kNcclTime).size(), 0u);
}

TEST_F(NcclPlugin, AForkedChildIsServedNothing) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    const FakeNccl::Op op{.func = "AllReduce"};
    bool quiet = nccl.start(comm, kColl, nullptr, &op) == nullptr;
    nccl.run(comm, {op}, kStream);
    auto* fresh = nccl.comm_init(kHash + 1, 0, 2);
    quiet = quiet && nccl.mask() == 0 && fresh->context == nullptr;
    nccl.comm_finalize(comm);
    ::_exit(quiet && records(Kind::kNcclOp).empty() && nccl.failures() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1u);
}

}  // namespace
}  // namespace stepscope::recorder
