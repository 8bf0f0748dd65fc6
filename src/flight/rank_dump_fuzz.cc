// Dumps from anywhere: refused in one line, or read, joined and judged. Inputs are bytes, or (first byte odd) lists of
// changes to a good dump; the second dump of the job is always good.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../../tests/support/changes.h"
#include "../../tests/support/flight_job.h"
#include "../../tests/support/one_line.h"
#include "flight/verdict.h"

namespace {

using namespace stepscope;

examples::FlightJob job() {
  examples::FlightJob out(3);
  out.group("1", "PP", {0, 1, 2});
  for (const char* group : {"0", "1"}) out.done(group);
  out.issue_all("0", {}, {2});
  out.issue(1, "1", {.name = "recv 1<-0"});
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string pickle = job().bytes(0, {}), json = job().bytes(0, {.pickle = false}),
                           other = job().bytes(1, {});
  const std::string bytes = data[0] & 1 ? examples::changed(data[0] & 2 ? pickle : json, data + 1, size - 1)
                                        : std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  auto dump = flight::read_dump(bytes, "fuzz_0");
  if (!dump) return examples::expect_one_line(dump.error()), 0;
  std::vector<flight::RankDump> dumps;
  dumps.push_back(std::move(*dump));
  dumps.push_back(*flight::read_dump(other, "good_1"));
  const auto joined = flight::join_dumps(std::move(dumps));
  if (!joined) return examples::expect_one_line(joined.error()), 0;
  const flight::Verdict verdict = flight::judge(*joined);
  if ((verdict.outcome == flight::Outcome::kCulprits) == verdict.culprits.empty()) std::abort();
  return 0;
}
