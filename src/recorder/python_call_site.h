// Which line of the user's program is running: for the spans of blocking syncs.
//
// The innermost frame outside of torch and site-packages, "train.py:120", with the library's own frame in brackets when
// it was the library that blocked: "train.py:88 (torch/amp/grad_scaler.py:433)". GIL held. About 0.5 us the first time
// a line is seen (a name is written), 0.3 us after. Never raises.
#pragma once

#include "python_support.h"

namespace stepscope::recorder {

uint64_t call_site() noexcept;  // name id (NameKind::kCallSite), 0 = unknown

}  // namespace stepscope::recorder
