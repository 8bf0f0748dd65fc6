// What `stepscope whatif` prints about an operation trace: the verdict in sentences, then the figures. Pure functions
// of the figures; the text names come from the trace's file and are made printable.
#pragma once

#include <string>

#include "replay/slowdown.h"
#include "report/summary_text.h"

namespace stepscope {

std::string whatif_text(const replay::Slowdown& slowdown, const std::string& trace, const TextOptions& options);
std::string whatif_json(const replay::Slowdown& slowdown, const std::string& trace);  // docs/whatif.md lists the fields

}  // namespace stepscope
