// A whole run file from anywhere, opened in memory and asked everything. Inputs are files, or (first byte odd) lists of
// changes to a good one. Short runs are judged again too, which takes a hundred times longer than reading.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../../tests/support/changes.h"
#include "../../tests/support/run_image.h"
#include "store/rebuild.h"
#include "store/run_reader.h"

namespace {

using namespace stepscope;

std::string changed(bool small, const uint8_t* data, size_t size) {
  static const std::string large_image = examples::good_image(260), small_image = examples::good_image(16);
  return examples::changed(small ? small_image : large_image, data, size);
}

void check(const std::string& message) {
  if (message.empty() || message.find('\n') != std::string::npos) std::abort();
}

void ask(RunReader& reader, bool judge) {
  size_t rows = 0;
  const Status status = reader.for_each_row({}, [&](const StoredRow& row) {
    if (row.row.cells.size() > 1u << 17) std::abort();
    return ++rows < 5000;
  });
  if (!status) check(status.error().message);
  (void)reader.run(), (void)reader.lives(), (void)reader.groups(), (void)reader.findings(), (void)reader.events(),
      (void)reader.snapshot();
  (void)reader.sums();
  (void)reader.attempts();
  SegmentWalk walk;
  for (int i = 0; i < 64; ++i) {
    const auto part = reader.next_segment(walk);
    if (!part || !*part) break;
    if ((*part)->from_step > (*part)->to_step) std::abort();
  }
  if (const auto series = reader.series())
    for (size_t i = 0; i < series->size() && i < 8; ++i) (void)reader.samples((*series)[i]);
  if (judge && rows < 40) (void)rebuild_snapshot(reader, {.max_ranks = 16});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool small = data[0] & 2;
  const std::string image =
      data[0] & 1 ? changed(small, data + 1, size - 1) : std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  auto reader = RunReader::from_bytes(image, "fuzz");
  if (reader)
    ask(*reader, small);
  else
    check(reader.error().message);
  return 0;
}
