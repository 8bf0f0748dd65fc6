#include "sampler/torch_probe.h"

#include <gtest/gtest.h>

#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::RecordedTree;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr const char* kTorch = "7f00-7f01 r-xp 0 08:01 5 /usr/lib/python3/site-packages/torch/lib/libtorch_cpu.so\n";
constexpr const char* kNative = "7f02-7f03 r-xp 0 08:01 6 /usr/lib/python3/site-packages/stepscope/_native.abi3.so\n";
const std::string kHooked =
    "PATH=/bin" + std::string(1, '\0') + "PYTHONPATH=/x/stepscope/_inject" + std::string(1, '\0');

struct Machine {
  RecordedTree tree{""};
  void process(int pid, int parent, const std::string& maps, std::vector<std::string> arguments,
               const std::string& environment = kHooked) {
    const std::string folder = "proc/" + std::to_string(pid) + "/";
    std::string stat = std::to_string(pid) + " (python) S " + std::to_string(parent);
    for (int i = 5; i <= 52; ++i) stat += " " + std::to_string(i == 22 ? 1000 + pid : 0);
    tree.write(folder + "stat", stat + "\n");
    tree.write(folder + "maps", maps);
    std::string joined;
    for (const std::string& a : arguments) joined += a + '\0';
    tree.write(folder + "cmdline", joined);
    tree.write(folder + "environ", environment);
  }
  TorchProbe probe() const { return TorchProbe(tree.roots().proc); }
};

TEST(TorchProbe, TorchWithoutHooksIsFoundBelowTheCommandAndNowhereElse) {
  Machine m;
  m.process(10, 1, "", {"bash", "train.sh"});
  m.process(11, 10, kTorch, {"python", "train.py"}, "PYTHONPATH=/mine");
  m.process(12, 1, kTorch, {"python", "other.py"});   // not ours
  m.process(20, 10, kTorch, {"stepscope", "agent"});  // the observer
  TorchProbe probe = m.probe();
  EXPECT_FALSE(probe.found());
  probe.look(10, 20, kSecond);
  const auto found = probe.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pid, 11);
  EXPECT_EQ(found->command, "python train.py");
  EXPECT_NE(found->reason.find("PYTHONPATH"), found->reason.npos) << found->reason;
}

TEST(TorchProbe, AnImportThatGoesOnIsTakenBack) {
  Machine m;
  m.process(10, 1, kTorch, {"python", "train.py"});
  TorchProbe probe = m.probe();
  probe.look(10, 0, kSecond);
  ASSERT_TRUE(probe.found());
  m.tree.write("proc/10/maps", std::string(kTorch) + kNative);
  probe.look(10, 0, kSecond + 1);  // not due
  EXPECT_TRUE(probe.found());
  probe.look(10, 0, 2 * kSecond);
  EXPECT_FALSE(probe.found());
}

TEST(TorchProbe, AHookedLauncherDoesNotHideItsRanks) {
  Machine m;
  m.process(10, 1, std::string(kTorch) + kNative, {"python", "-m", "torch.distributed.run", "train.py"});
  m.process(11, 10, kTorch, {"python", "-I", "train.py"});
  TorchProbe probe = m.probe();
  probe.look(10, 0, kSecond);
  ASSERT_TRUE(probe.found());
  EXPECT_EQ(probe.found()->pid, 11);
}

TEST(TorchProbe, TheReasonIsWhatTheProcessTells) {
  const std::vector<std::tuple<std::vector<std::string>, std::string, std::string>> cases = {
      {{"python", "-S", "t.py"}, kHooked, "-S"},
      {{"python", "-X", "dev", "-uS", "t.py"}, kHooked, "-S"},
      {{"python", "-I", "t.py"}, kHooked, "-I"},
      {{"python", "-u", "t.py", "-S"}, kHooked, "not known"},  // the script's own flag
      {{"python", "-c", "x", "-E"}, kHooked, "not known"},
      {{"python", "t.py"}, kHooked + "STEPSCOPE_DISABLE=1" + '\0', "STEPSCOPE_DISABLE"},
      {{"python", "t.py"}, kHooked + "STEPSCOPE_DISABLE=0" + '\0', "not known"},
      {{"python", "t.py"}, "PATH=/bin", "PYTHONPATH"},
      {{"python", "t.py"}, "", "not known"},  // another user's: not readable
  };
  for (const auto& [arguments, environment, reason] : cases) {
    Machine m;
    m.process(10, 1, kTorch, arguments, environment);
    TorchProbe probe = m.probe();
    probe.look(10, 0, kSecond);
    ASSERT_TRUE(probe.found());
    EXPECT_NE(probe.found()->reason.find(reason), std::string::npos) << reason << " in " << probe.found()->reason;
  }
}

TEST(TorchProbe, NothingThatGoesWrongIsMoreThanNothingFound) {
  TorchProbe nowhere("/does/not/exist");
  nowhere.look(10, 0, kSecond);
  EXPECT_FALSE(nowhere.found());
  Machine m;
  m.process(10, 1, std::string("\0\xff garbage", 10), {});
  TorchProbe probe = m.probe();
  probe.look(0, 0, kSecond);
  probe.look(10, 0, 2 * kSecond);
  probe.look(99, 0, 3 * kSecond);
  EXPECT_FALSE(probe.found());
}

}  // namespace
}  // namespace stepscope
