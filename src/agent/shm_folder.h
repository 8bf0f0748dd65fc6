// The shared-memory folder of a run: /dev/shm/stepscope-<uid>-<nonce>, 0700. Rings live there, never on a disk whose
// write-back could stall a training.
//
// Removed by the launcher at the end, or by the agent should the launcher be gone. A run whose launcher and agent were
// both killed leaves it behind: create() sweeps such folders away once they are an hour old and nobody holds their
// lock.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace stepscope {

class ShmFolder {
 public:
  ShmFolder() = default;
  // `root` is another place than /dev/shm in tests.
  static Result<ShmFolder> create(const std::string& nonce, const std::string& root = "/dev/shm");

  // Where the folder of that nonce is, made or not.
  static std::string path_of(const std::string& nonce, const std::string& root = "/dev/shm");

  const std::string& path() const { return path_; }
  void remove();

 private:
  std::string path_;
  Fd lock_;  // held while the launcher lives
};

// Takes part in the lock of a run's folder; the agent does, for the time without launcher. Empty on failure.
Fd hold_shm_lock(const std::string& folder);

}  // namespace stepscope
