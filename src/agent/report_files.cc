#include "agent/report_files.h"

#include <algorithm>
#include <utility>

#include "report/reporters.h"
#include "report/summary_text.h"

namespace stepscope {

WrittenReport write_report(const Snapshot& snapshot, std::span<const std::string> asked, RunFolder& folder) {
  TextOptions places;
  const Reporter* text = nullptr;  // comes last, since it names the others' files
  for (const Reporter& reporter : reporters()) {
    const bool wanted = reporter.always || std::find(asked.begin(), asked.end(), reporter.name) != asked.end();
    if (reporter.render == summary_text)
      text = &reporter;
    else if (wanted && folder.write(std::string(reporter.file), reporter.render(snapshot, {})))
      places.files.emplace_back(reporter.file);
  }
  if (folder) places.folder = folder.path();
  places.files.emplace_back(text->file);
  std::string page = text->render(snapshot, places);
  if (!folder.write(places.files.back(), page)) {
    places.files.pop_back();
    if (places.files.empty()) places.folder.clear();
    page = text->render(snapshot, places);  // names only what is really there
  }
  return {std::move(places), std::move(page)};
}

}  // namespace stepscope
