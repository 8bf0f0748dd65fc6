// What `stepscope hang` prints about Flight Recorder dumps: who is named, why, and a table of the groups that wait.
// Pure.
#pragma once

#include <string>

#include "flight/verdict.h"
#include "report/summary_text.h"

namespace stepscope {

std::string hang_text(const flight::Verdict& verdict, const flight::JobDumps& job, const TextOptions& options);
std::string hang_json(const flight::Verdict& verdict, const flight::JobDumps& job);  // docs/hang.md lists the fields

}  // namespace stepscope
