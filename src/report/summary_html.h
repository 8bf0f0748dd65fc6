// The snapshot as one self-contained HTML file: inline style and SVG, no script, nothing fetched; light and dark, fit
// to print. Pure. Every string of the run is escaped. Size: about 20 kB plus 0.5 kB per rank shown and 10 kB for the
// steps.
#pragma once

#include <string>

#include "diagnose/snapshot.h"
#include "report/text_options.h"

namespace stepscope {

std::string summary_html(const Snapshot& snapshot, const TextOptions& options = {});

}  // namespace stepscope
