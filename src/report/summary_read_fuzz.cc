// A summary from anywhere: read or refused in one line; what was read can be shown in every form and compared. Inputs
// are texts, or (first byte odd) lists of changes to a good summary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../../tests/support/changes.h"
#include "../../tests/support/example_snapshot.h"
#include "../../tests/support/one_line.h"
#include "report/compare.h"
#include "report/summary_html.h"
#include "report/summary_json.h"
#include "report/summary_read.h"
#include "report/summary_text.h"

namespace {

using namespace stepscope;

std::string text_of(const uint8_t* data, size_t size) {
  static const std::string straggler = summary_json(examples::straggler(3)), lost = summary_json(examples::rank_lost());
  if (data[0] & 1) return examples::changed(data[0] & 2 ? straggler : lost, data + 1, size - 1);
  return std::string(reinterpret_cast<const char*>(data + 1), size - 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const Snapshot healthy = examples::balanced();
  const Result<Snapshot> read = read_summary(text_of(data, size), "fuzz");
  if (!read) return examples::expect_one_line(read.error()), 0;
  const std::string again = summary_json(*read);
  const Result<Snapshot> twice = read_summary(again, "again");
  if (!twice || summary_json(*twice) != again) std::abort();  // what we write, we read
  if (summary_text(*read).empty()) std::abort();
  if ((data[0] & 12) == 0 && summary_html(*read).empty()) std::abort();  // fifty times as slow
  (void)compare_text(compare(*read, healthy), {});
  (void)compare_json(compare(healthy, *read));
  return 0;
}
