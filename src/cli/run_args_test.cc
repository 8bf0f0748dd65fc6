#include "cli/run_args.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <sstream>

#include "cli/launch_plan.h"

namespace stepscope {
namespace {

int value_count(std::string_view name) {
  for (const char* with : {"--mode", "--run-name", "--logs-dir", "--nproc-per-node", "--nproc_per_node", "--nnodes"}) {
    if (name == with) return 1;
  }
  return 0;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& word : list) text += (text.empty() ? "" : " ") + word;
  return text;
}

struct Case {
  const char* line;
  const char* options;
  const char* command;
  const char* torchrun = "";
  bool command_form = false, module = false;
};

const Case kCases[] = {
    {"train.py", "", "train.py"},
    {"train.py --lr 0.1 -v", "", "train.py --lr 0.1 -v"},
    {"--mode summary train.py --mode x", "--mode summary", "train.py --mode x"},
    {"--mode=summary --disable train.py", "--mode=summary --disable", "train.py"},
    {"--nproc-per-node 2 train.py", "--nproc-per-node 2", "train.py"},
    {"train.py --nproc-per-node=4 --args --lr 0.1", "", "train.py --lr 0.1", "--nproc-per-node=4"},
    {"train.py --nproc_per_node 4 --lr 0.1", "", "train.py --lr 0.1", "--nproc-per-node=4"},
    {"train.py --lr 0.1 --nnodes 2 --node-rank 1 --master_addr h --master-port=1 x", "", "train.py --lr 0.1 x",
     "--nnodes=2 --node-rank=1 --master-addr=h --master-port=1"},
    {"train.py --args --nnodes 2", "", "train.py --nnodes 2"},
    {"train.py a -- --nnodes 2", "", "train.py a --nnodes 2"},
    {"train.py -- -- x", "", "train.py -- x"},
    {"train.py --args --args", "", "train.py --args"},
    {"train.py --nnodesx 2 --nproc-per-nod=3 -nnodes 2", "", "train.py --nnodesx 2 --nproc-per-nod=3 -nnodes 2"},
    {"train.py --nnodes 1 --nnodes 2", "", "train.py", "--nnodes=2"},
    {"-- torchrun --nnodes 1 train.py --args -- x", "", "torchrun --nnodes 1 train.py --args -- x", "", true},
    {"--run-name a -- srun", "--run-name a", "srun", "", true},
    {"-m pkg.train --nnodes 2 -x", "", "pkg.train -x", "--nnodes=2", false, true},
    {"--module pkg.train", "", "pkg.train", "", false, true},
    {"--bogus 3 train.py", "--bogus", "3 train.py"},
    {"- x", "", "- x"},
    {"--disable", "--disable", ""},
    {"--mode", "--mode", ""},
    {"--", "", "", "", true},
    {"", "", ""},
};

TEST(RunArgs, Grammar) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.line);
    const auto args = split_run_args(words(c.line), value_count);
    ASSERT_TRUE(args) << args.error().message;
    EXPECT_EQ(joined(args->options), c.options);
    EXPECT_EQ(joined(args->command), c.command);
    EXPECT_EQ(args->command_form, c.command_form);
    EXPECT_EQ(args->module, c.module);
    std::string torchrun;
    for (const auto& [name, value] : args->torchrun.list())
      torchrun += (torchrun.empty() ? "" : " ") + name + "=" + value;
    EXPECT_EQ(torchrun, c.torchrun);
  }
}

TEST(RunArgs, MissingValuesAreErrors) {
  for (const char* line : {"train.py --nnodes", "train.py --nnodes=", "train.py --master_addr", "-m"}) {
    const auto args = split_run_args(words(line), value_count);
    ASSERT_FALSE(args) << line;
    EXPECT_NE(args.error().message.find("needs"), std::string::npos);
  }
}

TEST(RunArgs, EverythingAfterTheSeparatorReachesTheScriptUntouched) {
  rc::check([](const std::vector<std::string>& any) {
    std::vector<std::string> line = {"train.py", "a", *rc::gen::element<std::string>("--args", "--")};
    line.insert(line.end(), any.begin(), any.end());
    const auto args = split_run_args(line, value_count);
    RC_ASSERT(args.has_value());
    RC_ASSERT(!args->torchrun.any());
    std::vector<std::string> expected = {"train.py", "a"};
    expected.insert(expected.end(), any.begin(), any.end());
    RC_ASSERT(args->command == expected);
  });
}

TEST(RunArgs, ACommandIsNeverLookedAt) {
  rc::check([](const std::vector<std::string>& any) {
    std::vector<std::string> line = {"--"};
    line.insert(line.end(), any.begin(), any.end());
    RC_ASSERT(split_run_args(line, value_count)->command == any);
  });
}

std::string plan(const std::string& line) {
  const auto args = split_run_args(words(line), value_count);
  return joined(training_command(*args, args->torchrun, "py"));
}

TEST(LaunchPlan, Commands) {
  EXPECT_EQ(plan("train.py --lr 1"), "py train.py --lr 1");
  EXPECT_EQ(plan("-m pkg x"), "py -m pkg x");
  EXPECT_EQ(plan("-- a b"), "a b");
  EXPECT_EQ(plan("train.py --nproc-per-node 2 x"),
            "py -m torch.distributed.run --standalone --nproc-per-node=2 train.py x");
  EXPECT_EQ(plan("-m pkg --nproc-per-node 2"), "py -m torch.distributed.run --standalone --nproc-per-node=2 -m pkg");
  EXPECT_EQ(plan("train.py --nproc-per-node 2 --master-port 7"),
            "py -m torch.distributed.run --nproc-per-node=2 --master-port=7 train.py");
  EXPECT_EQ(plan("train.py --nnodes 2 --node-rank 1 --master-addr h"),
            "py -m torch.distributed.run --nnodes=2 --node-rank=1 --master-addr=h train.py");
}

TEST(LaunchPlan, EnvironmentSaysWhatIsThereAndNothingElse) {
  const std::vector<std::string> users = {"A=1", "PYTHONPATH=/u", "STEPSCOPE_SHM=/old", "STEPSCOPE_NONCE=old",
                                          "STEPSCOPE_MODE=cli"};
  EXPECT_EQ(training_environment(users, {"/shm", "/run", "ab", "/p/stepscope/_inject", ""}),
            (std::vector<std::string>{"A=1", "STEPSCOPE_MODE=cli", "STEPSCOPE_SHM=/shm", "STEPSCOPE_RUN_DIR=/run",
                                      "STEPSCOPE_NONCE=ab", "PYTHONPATH=/p/stepscope/_inject:/u"}));
  EXPECT_EQ(training_environment({"A=1"}, {"", "", "ab", "", ""}),
            (std::vector<std::string>{"A=1", "STEPSCOPE_NONCE=ab"}));
  EXPECT_EQ(training_environment({"A=1", "STEPSCOPE_COMPAT=x"}, {"", "", "ab", "/i", "traceml"}),
            (std::vector<std::string>{"A=1", "STEPSCOPE_NONCE=ab", "STEPSCOPE_COMPAT=traceml", "PYTHONPATH=/i"}));
  EXPECT_EQ(bare_environment({"A=1"}, "/i", "traceml"),
            (std::vector<std::string>{"A=1", "STEPSCOPE_DISABLE=1", "STEPSCOPE_COMPAT=traceml", "PYTHONPATH=/i"}));
  EXPECT_EQ(bare_environment({"A=1"}, "/i", ""), (std::vector<std::string>{"A=1", "STEPSCOPE_DISABLE=1"}));
  EXPECT_EQ(bare_environment(users),
            (std::vector<std::string>{"A=1", "PYTHONPATH=/u", "STEPSCOPE_MODE=cli", "STEPSCOPE_DISABLE=1"}));
}

}  // namespace
}  // namespace stepscope
