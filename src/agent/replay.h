// The verdict worked out again from rings that a run left behind (blackbox/ of a run's folder, or any folder of rings).
// Where the run's manifest lies beside them, it adds what rings cannot know: command, exit code, how each process died.
// Failure: one line when no ring can be read; rings that cannot be read are named in the snapshot.
#pragma once

#include <string>

#include "base/result.h"
#include "diagnose/engine.h"
#include "diagnose/snapshot.h"

namespace stepscope {

// True when the folder holds at least one *.ring file.
bool has_rings(const std::string& folder);

Result<Snapshot> replay_rings(const std::string& folder, EngineOptions options = {});

}  // namespace stepscope
