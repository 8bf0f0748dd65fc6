#include "report/reporters.h"

#include <iterator>

namespace stepscope {

#define REPORTER(name, file, always, render) std::string render(const Snapshot&, const TextOptions&);
#include "report/reporters.def"
#undef REPORTER

namespace {

constexpr Reporter kReporters[] = {
#define REPORTER(name, file, always, render) {#name, file, always, render},
#include "report/reporters.def"
#undef REPORTER
};

}  // namespace

std::span<const Reporter> reporters() { return kReporters; }

const Reporter* reporter_named(std::string_view name) {
  for (const Reporter& reporter : kReporters)
    if (reporter.name == name) return &reporter;
  return nullptr;
}

std::string reporter_names() {
  std::string out;
  for (const Reporter& reporter : kReporters) out.append(out.empty() ? "" : ", ").append(reporter.name);
  return out;
}

}  // namespace stepscope
