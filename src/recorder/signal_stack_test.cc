// The handler's own stack: what it must never touch is what generated code keeps behind its stack pointer.
#include "recorder/signal_stack.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "blackbox/layout.h"
#include "blackbox/ring_reader.h"
#include "recorder/recorder.h"
#include "recorder/stack_signal.h"
#include "scratch_folder.h"

namespace stepscope::recorder {
namespace {

const FrameLayout g_layout{};
void* no_state() { return nullptr; }

uint32_t this_thread() { return static_cast<uint32_t>(::gettid()); }

class SignalStackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STEPSCOPE_SHM", folder_.path().c_str(), 1);
    ASSERT_TRUE(open());
    ASSERT_STREQ(listen_for_stack_requests({&g_layout, 0, no_state, nullptr}), "");
    auto reader = blackbox::RingReader::open(path());
    ASSERT_TRUE(reader);
    reader_.emplace(std::move(*reader));
  }
  void TearDown() override { close(); }

  void ask(uint32_t thread, uint16_t request) {
    siginfo_t info{};
    info.si_signo = stack_signal(), info.si_code = SI_QUEUE, info.si_pid = ::getpid();
    info.si_value.sival_int = static_cast<int>(blackbox::kStackRequest << 16 | request);
    ASSERT_EQ(::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, stack_signal(), &info), 0);
  }
  bool answers(uint16_t request, int patience_ms) {
    for (int i = 0; i < patience_ms; ++i, ::usleep(1000))
      if (const auto stack = reader_->stack(); stack && stack->request == request) return true;
    return false;
  }

  testing::ScratchFolder folder_{"/dev/shm"};
  std::optional<blackbox::RingReader> reader_;
};

TEST_F(SignalStackTest, AThreadIsListedWhileItCanBeAskedAndNoLonger) {
  EXPECT_TRUE(reader_->may_ask(this_thread()));
  EXPECT_FALSE(reader_->may_ask(0));
  uint32_t other = 0;
  bool before = true, offered = false, marked = false;
  std::thread([&] {
    other = this_thread();
    before = reader_->may_ask(other);
    offer_thread();
    offered = reader_->may_ask(other);
  }).join();
  EXPECT_FALSE(before);
  EXPECT_TRUE(offered);
  EXPECT_FALSE(reader_->may_ask(other)) << "it has ended";
  std::thread([&] {
    mark(Kind::kForward, Edge::kBegin, 1);
    marked = reader_->may_ask(this_thread());
  }).join();
  EXPECT_TRUE(marked) << "who trains can be asked";
}

TEST_F(SignalStackTest, ThreadsThatWereThereBeforeTheBlackBoxAreListedInIt) {
  std::atomic<uint32_t> id = 0;
  std::atomic<bool> over = false;
  close();
  std::thread other([&] {
    offer_thread();
    id = this_thread();
    while (!over) ::usleep(500);
  });
  while (id == 0) ::usleep(500);
  SetUp();
  EXPECT_TRUE(reader_->may_ask(id));
  over = true;
  other.join();
  EXPECT_FALSE(reader_->may_ask(id));
}

TEST_F(SignalStackTest, AThreadThatLostItsStackDoesNotAnswerAndIsTakenOffTheList) {
  std::atomic<bool> ready = false, over = false;
  std::atomic<uint32_t> id = 0;
  std::thread other([&] {
    offer_thread();
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    EXPECT_EQ(::sigaltstack(&off, nullptr), 0);  // as a library that sets and restores its own does
    id = this_thread(), ready = true;
    while (!over) ::usleep(500);
  });
  while (!ready) ::usleep(500);
  EXPECT_TRUE(reader_->may_ask(id));
  ask(id, 7);
  EXPECT_FALSE(answers(7, 100));
  EXPECT_FALSE(reader_->may_ask(id));
  over = true;
  other.join();
}

TEST_F(SignalStackTest, MoreThreadsThanTheListHoldsAreLeftAlone) {
  std::atomic<bool> over = false;
  std::atomic<int> offered = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2 * blackbox::kStackThreads; ++i)
    threads.emplace_back([&] {
      offer_thread();
      ++offered;
      while (!over) ::usleep(500);
    });
  while (offered < static_cast<int>(2 * blackbox::kStackThreads)) ::usleep(500);
  over = true;
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(reader_->may_ask(this_thread()));
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// As kernels do that are generated: the stack pointer points into data while they work.
__attribute__((noinline)) void work_with_the_stack_pointer_at(char* data, const std::atomic<int>& over) {
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %0, %%rsp\n\t"
      "1: cmpl $0, (%1)\n\t"
      "pause\n\t"
      "je 1b\n\t"
      "movq %%rbx, %%rsp"
      :
      : "r"(data), "r"(&over)
      : "rbx", "memory", "cc");
}

TEST_F(SignalStackTest, DataBehindTheStackPointerStaysAsItIs) {
  constexpr size_t kBytes = size_t{256} << 10;
  std::vector<char> data(kBytes, 'x');
  std::atomic<int> over = 0;
  std::atomic<uint32_t> id = 0;
  std::thread worker([&] {
    offer_thread();
    id = this_thread();
    work_with_the_stack_pointer_at(data.data() + kBytes / 2, over);
  });
  while (id == 0) ::usleep(500);
  ::usleep(20'000);
  for (uint16_t request = 1; request <= 20; ++request) {
    ask(id, request);
    ASSERT_TRUE(answers(request, 5000)) << request;
  }
  over = 1;
  worker.join();
  EXPECT_EQ(std::count(data.begin(), data.end(), 'x'), static_cast<std::ptrdiff_t>(kBytes));
}
#endif

}  // namespace
}  // namespace stepscope::recorder
