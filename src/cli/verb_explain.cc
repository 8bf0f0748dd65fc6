// `stepscope explain KIND`: the page about a kind of finding, on stdout. Any spelling of the kind is understood.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>

#include "cli/agent_link.h"
#include "cli/explain_pages.h"
#include "cli/verbs.h"
#include "diagnose/thresholds.h"

namespace stepscope {
namespace {

// "COMPUTE_STRAGGLER", "Compute Straggler", "compute-straggler" -> "compute-straggler".
std::string slug_of(const std::string& kind) {
  std::string slug;
  for (unsigned char c : kind) {
    if (std::isalnum(c))
      slug += static_cast<char>(std::tolower(c));
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug;
}

// Every threshold that --set knows, one a line.
int list_thresholds() {
  for (const ThresholdSpec& s : threshold_specs())
    std::printf("%-34s %-12.10g %s; %s\n", std::string(s.name).c_str(), s.standard, std::string(s.unit).c_str(),
                std::string(s.reason).c_str());
  return 0;
}

}  // namespace

int verb_explain(const std::string& kind) {
  const auto pages = explain_pages();
  if (kind.empty()) {
    for (const ExplainPage& page : pages) std::printf("%.*s\n", static_cast<int>(page.slug.size()), page.slug.data());
    return 0;
  }
  if (kind == "thresholds") return list_thresholds();
  const std::string slug = slug_of(kind);
  const auto found = std::find_if(pages.begin(), pages.end(), [&](const ExplainPage& p) { return p.slug == slug; });
  if (found == pages.end()) {
    say("no page about '" + kind + "' (stepscope explain lists all)");
    return kExitUsage;
  }
  std::fwrite(found->text.data(), 1, found->text.size(), stdout);
  return 0;
}

}  // namespace stepscope
