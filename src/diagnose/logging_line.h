// Logging that no phase names: the loggers of the standard library and of trackers (TensorBoard, wandb, MLflow, ...)
// are called in the middle of a program, and what their handlers wait for is time without a name. Where the stacks say
// that a late rank's extra time is spent within such a call, which others are not met in as often, the finding is
// LOGGING_STALL. A function that is called log, or a socket alone, is no evidence. The ledger keeps the time where it
// is. Pure.
#pragma once

#include "diagnose/code_lines.h"

namespace stepscope {

void name_logging(Finding& finding, const CodeSamples& samples);

}  // namespace stepscope
