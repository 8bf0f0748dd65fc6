// Which launch commands keep the hooks out.
#include "sampler/interpreter_flags.h"

#include <gtest/gtest.h>

#include <sstream>

namespace stepscope {
namespace {

HooksKeptOut of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return hooks_kept_out(words);
}

TEST(InterpreterFlagsTest, OptionsBeforeTheScriptCount) {
  for (const char* line :
       {"python train.py", "python3.11 -u -B train.py", "torchrun -S train.py", "python train.py -S -I",
        "python -m torch.distributed.run -E train.py", "python -c pass -S", "python -X dev train.py -I",
        "python -W ignore train.py -E", "./python-like -S x", "pythonize -S", "python -Xfrozen_modules=off t.py",
        "python -W -S t.py", "python -- -S", "python -", "python", ""}) {
    EXPECT_EQ(of(line), HooksKeptOut::kNo) << line;
  }
  for (const char* line : {"python -I train.py", "/usr/bin/python3 -BE train.py", "env A=1 python3.13t -E -m train",
                           "numactl -N 0 python -u -I train.py", "python -Im train", "python -X dev -I train.py",
                           "nice python launch.py python -I x.py"}) {
    EXPECT_EQ(of(line), HooksKeptOut::kPathIgnored) << line;
  }
  for (const char* line : {"python -S train.py", "python -IS train.py", "python -S -I train.py",
                           "python -I -S train.py", "pypy3 -S t.py", "python --check-hash-based-pycs always -S t.py"}) {
    EXPECT_EQ(of(line), HooksKeptOut::kNoSite) << line;
  }
}

TEST(InterpreterFlagsTest, WordsNameTheOption) {
  EXPECT_EQ(kept_out_word(HooksKeptOut::kNo, false), "");
  EXPECT_EQ(kept_out_word(HooksKeptOut::kPathIgnored, true), "");
  EXPECT_NE(kept_out_word(HooksKeptOut::kPathIgnored, false).find("-I and -E"), std::string::npos);
  EXPECT_NE(kept_out_word(HooksKeptOut::kNoSite, true).find("-S"), std::string::npos);
}

TEST(InterpreterFlagsTest, OfAProcessItsNameDoesNotMatter) {
  EXPECT_EQ(hooks_kept_out_of({"/opt/bin/trainer", "-BS", "train.py"}), HooksKeptOut::kNoSite);
  EXPECT_EQ(hooks_kept_out_of({"trainer", "-u", "-E", "-m", "train"}), HooksKeptOut::kPathIgnored);
  EXPECT_EQ(hooks_kept_out_of({"python", "-Wignore::SyntaxWarning", "-X", "SIE", "train.py", "-S"}), HooksKeptOut::kNo)
      << "values of options";
  EXPECT_EQ(hooks_kept_out_of({"python"}), HooksKeptOut::kNo);
  EXPECT_EQ(hooks_kept_out_of({}), HooksKeptOut::kNo);
}

}  // namespace
}  // namespace stepscope
