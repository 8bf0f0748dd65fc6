// The formats a summary is written in. A format is one file with its function and one row in reporters.def: the agent,
// `stepscope report` and the settings know formats from here only. Pure: same snapshot and options, same bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "diagnose/snapshot.h"
#include "report/text_options.h"

namespace stepscope {

struct Reporter {
  std::string_view name;  // as users ask for it: "html"
  std::string_view file;  // in the run's folder: "final_summary.html"
  bool always;            // written for every run; the others when they are asked for
  std::string (*render)(const Snapshot&, const TextOptions&);
};

// In the order in which they are written: text last, since it names the files.
std::span<const Reporter> reporters();

// Null where no format has this name.
const Reporter* reporter_named(std::string_view name);

// "json, html, text": for messages and help.
std::string reporter_names();

}  // namespace stepscope
