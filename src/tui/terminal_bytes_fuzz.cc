// Whatever a training writes and whatever a terminal sends: bounded lines, printable text, a screen within its bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "report/text_layout.h"
#include "tui/screen.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepscope::tui;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  OutputTail tail;
  tail.feed(bytes.substr(0, size / 2));
  tail.feed(bytes.substr(size / 2));
  for (const OutputLine& line : tail.lines())
    if (stepscope::printable(line.text) != line.text || line.rank < -1) std::abort();
  const ScreenInput input{.run_name = "fuzz", .output = &tail, .live = true};
  ViewState state;
  KeyDecoder decoder;
  Screen screen = draw_screen(input, state, {});
  for (const Key& key : decoder.feed(bytes)) apply_key(state, key, screen.limits);
  screen = draw_screen(input, state, {});
  if (screen.grid.columns() != 80 || screen.grid.rows() != 24) std::abort();
  return 0;
}
