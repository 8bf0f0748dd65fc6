// What a snapshot says of a run, without figures: for tests that judge the same run in two ways.
#pragma once

#include <set>
#include <string>

#include "diagnose/snapshot.h"

namespace stepscope::examples {

// One line per finding with its cost, for the message of a test that fails.
inline std::string findings_text(const Snapshot& snapshot) {
  std::string out;
  for (const Finding& f : snapshot.findings) {
    out += "  " + f.kind.str() + " " + std::string(name(f.severity)) + " ranks";
    for (int r : f.ranks) out += " " + std::to_string(r);
    out += " " + f.phase + " " + f.cause.str() + " cost " + std::to_string(f.cost_share) + "\n";
  }
  return out;
}

// Kind, severity, phase, cause and ranks of every finding.
inline std::set<std::string> verdict(const Snapshot& snapshot) {
  std::set<std::string> out;
  for (const Finding& f : snapshot.findings) {
    std::string key = f.kind.str() + " " + std::string(name(f.severity)) + " " + f.phase + " " + f.cause.str();
    for (int r : f.ranks) key += " " + std::to_string(r);
    out.insert(key);
  }
  return out;
}

}  // namespace stepscope::examples
