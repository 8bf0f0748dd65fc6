// A frame, or an answer, from anywhere, sealed so that it is looked at: it is refused, or what was read can be told
// again, and tells as much then.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/node_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 27;  // of the envelope
  const std::string raw(reinterpret_cast<const char*>(data), size);
  (void)stepscope::decode_answer(raw);
  std::string bytes = encode(stepscope::NodeFrame{}).substr(0, kHead) + raw + "seal";
  bytes[6] = 0;  // not packed
  for (unsigned i = 0; i < 4; ++i) bytes[7 + i] = static_cast<char>(size >> (8 * i));
  set_sent(bytes, 1, std::nullopt);
  const auto frame = stepscope::decode_frame(bytes);
  if (!frame) return 0;
  const auto again = stepscope::decode_frame(encode(*frame));
  if (!again || again->processes.size() != frame->processes.size()) std::abort();
  for (size_t i = 0; i < frame->processes.size(); ++i) {
    const stepscope::ProcessNews &was = frame->processes[i], &is = again->processes[i];
    if (is.number != was.number || is.now != was.now || is.steps.size() != was.steps.size()) std::abort();
  }
  return 0;
}
