// Bytes from anywhere as columns, segments and runs of samples: decoded or refused, never a crash, never more memory
// than the caller's count; and what is encoded comes back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "store/json_lists.h"
#include "store/run_facts.h"
#include "store/sample_log.h"
#include "store/segment_store.h"

namespace {

using namespace stepscope;
using namespace stepscope::store;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && !rest_.empty(); ++i) {
      value = value << 8 | static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
    }
    return value;
  }
  std::string_view bytes(size_t count) {
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

ColumnCodec& codec() {
  static ColumnCodec one;
  return one;
}

void decode(Input in) {
  const size_t length = in.number(2), count = in.number(2);
  std::vector<int64_t> out;
  if (codec().decode(in.rest(), count, length, out) && out.size() != count) std::abort();
}

void round_trip(Input in) {
  const size_t length = std::max<size_t>(1, in.number(1));
  const bool fast = in.number(1) & 1;
  std::vector<int64_t> values, out;
  const size_t width = 1 + in.number(1) % 8;
  while (!in.rest().empty() && values.size() < 4096)
    values.push_back(static_cast<int64_t>(in.number(width)) << (8 * (8 - width)) >> (in.rest().size() % 60));
  values.resize(values.size() / length * length);
  const std::string bytes =
      codec().encode(values, length, fast ? ColumnCodec::Effort::kFast : ColumnCodec::Effort::kFull);
  if (!codec().decode(bytes, values.size(), length, out) || out != values) std::abort();
}

SegmentHead head_from(Input& in) {
  SegmentHead h;
  h.attempt = static_cast<int32_t>(in.number(1)), h.level = static_cast<uint32_t>(in.number(1) % 34);
  h.step0 = static_cast<uint32_t>(in.number(4)), h.step1 = h.step0 + static_cast<uint32_t>(in.number(2));
  h.rows = static_cast<uint32_t>(in.number(1) % 40), h.ranks = static_cast<uint32_t>(in.number(1) % 20);
  h.quantum_ns = static_cast<uint32_t>(in.number(3)), h.steps = in.number(2);
  return h;
}

// A segment whose blocks are what the input says, read as rows, thinned, written and read again.
void segment(Input in) {
  const SegmentHead head = head_from(in);
  if (fault_of(head)) return;
  std::vector<EncodedBlock> blocks;
  while (!in.rest().empty() && blocks.size() < 64) {
    EncodedBlock block;
    block.sum = in.number(1) & 1;
    block.metric = static_cast<uint8_t>(in.number(1));
    block.rank0 = static_cast<uint32_t>(in.number(1)), block.ranks = static_cast<uint32_t>(in.number(1));
    block.bytes = seal(std::string(in.bytes(in.number(2) % 1024)));
    blocks.push_back(std::move(block));
  }
  const auto decoded = decode_segment(head, blocks, codec());
  if (!decoded) return;
  for (uint32_t row = 0; row < head.rows; ++row) {
    const StepRow out = to_row(*decoded, row);
    if (out.cells.size() > head.ranks) std::abort();
  }
  const std::vector<Segment> parts = {*decoded, *decoded};
  const Segment thinned = thin(parts);
  if (thinned.head.rows > head.rows + 1 || thinned.step.size() != thinned.head.rows) std::abort();
  if (fault_of(thinned.head)) return;  // two of the largest in one are no honest file
  const auto again = decode_segment(thinned.head, encode(thinned, codec(), ColumnCodec::Effort::kFull), codec());
  if (!again || again->step != thinned.step) std::abort();
  for (size_t m = 0; m < kMetricCount; ++m) {
    const auto& was = thinned.cells[m];
    const auto& is = again->cells[m];
    if (is.empty() ? std::any_of(was.begin(), was.end(), [](int64_t v) { return v != 0; }) : was != is) std::abort();
  }
}

void samples(Input in) {
  const auto points = static_cast<uint32_t>(in.number(2)), stride = static_cast<uint32_t>(in.number(1));
  const std::string time = seal(std::string(in.bytes(in.number(1)))), value = seal(std::string(in.bytes(in.number(1))));
  const std::string peak = in.rest().empty() ? "" : seal(std::string(in.rest()));
  const auto run = decode_run(time, value, peak, points, stride, codec());
  if (run && run->points.size() != points) std::abort();
}

void texts(Input in) {
  (void)int_list(in.rest());
  (void)text_list(in.rest());
  (void)text_pairs(in.rest());
  RankLife life;
  read_life_detail(in.rest(), life);
  const std::string line = one_line(in.rest());
  if (line != one_line(line)) std::abort();
  if (line.find('\n') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Input in(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0: decode(in); break;
    case 1: round_trip(in); break;
    case 2: segment(in); break;
    case 3: samples(in); break;
    default: texts(in); break;
  }
  return 0;
}
