// Python stacks as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "align/rank_step.h"
#include "diagnose/standing.h"

namespace stepscope {

// Code of a library, the interpreter or torch, not of the program itself.
bool is_library(const CodeLine& frame);

// "train.py:61 main"; with the last `parts` parts of the file's path.
std::string place_text(const CodeLine& frame, int parts = 1);

// "train.py:61 main": the innermost frame of the program itself (not of torch or another library), and the library's
// own frame where that is another one; "" without frames.
std::string place_in_program(const std::vector<CodeLine>& frames);

// "12 load /path/train.py < 40 main /path/train.py", as an exception tells its frames.
std::vector<CodeLine> frames_of_text(const std::string& text);

// "ValueError: NaN loss at train.py:61 main"; "" = none.
std::string exception_words(const RankLife& life);

// Ranks that stand at the same place, together: "rank 1 · train.py:61 main < train.py:90 <module> · for 6 s".
std::vector<std::string> merged_stacks(const JobStanding& job);

}  // namespace stepscope
