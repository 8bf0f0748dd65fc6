// A grid as bytes for a terminal: only what differs from the frame before. ECMA-48 sequences that every terminal since
// the VT220 knows, xterm's for colours. Pure.
#pragma once

#include <string>

#include "report/ink.h"
#include "tui/grid.h"

namespace stepscope::tui {

// `before` null, or of another size: everything, on a cleared screen. "" where nothing differs.
std::string frame_bytes(const Grid* before, const Grid& now, ColorDepth depth);

// The whole grid as lines of text with colours, to print once.
std::string printed(const Grid& grid, ColorDepth depth);

}  // namespace stepscope::tui
