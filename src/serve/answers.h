// What the server says of a run, as JSON: one function per route, each a pure function of the run's state (and, for
// steps, of its run file). docs/schema/openapi.json describes the shapes. Strings of the run are passed on as they are;
// bytes that are no UTF-8 are replaced.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "serve/routes.h"
#include "serve/run_state.h"

namespace stepscope {

std::string runs_answer(const std::vector<RunDigest>& runs, const std::string& logs);
std::string page_answer(const RunState& run);
std::string findings_answer(const RunState& run);
std::string ledger_answer(const RunState& run);
std::string ranks_answer(const RunState& run);
std::string collectives_answer(const RunState& run);
Result<std::string> steps_answer(const RunState& run, const Call& call);
Result<std::string> heat_answer(const RunState& run, const Call& call);
// An Error where the run has no such step.
Result<std::string> step_answer(const RunState& run, int64_t step);
Result<std::string> samples_answer(const RunState& run);
std::string comparison_answer(const Snapshot& a, const Snapshot& b);

}  // namespace stepscope
