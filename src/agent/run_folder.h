// The folder of a run, logs/<run_name>/ (0700, files 0600). A name in use gets -2, -3, …, so that a verdict never
// describes another run; two launches at the same moment get two folders (mkdir decides).
// Writes are atomic, one by one. The first failure (disk full, read-only) is kept as one line, later ones are silent:
// the run goes on without the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stepscope {

class RunFolder {
 public:
  RunFolder() = default;  // no folder: every write is refused silently
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  // Makes <logs_dir>/<name>, or with a suffix. The path is absolute.
  static Result<RunFolder> create(const std::string& logs_dir, const std::string& name);

  const std::string& path() const { return path_; }
  std::string name() const { return path_.substr(path_.rfind('/') + 1); }
  explicit operator bool() const { return !path_.empty(); }

  bool write(const std::string& file, std::string_view text);

  // Copies rings into <folder>/blackbox/, holes kept as holes, until `max_bytes` are spent (least important last).
  // Returns how many were copied.
  size_t keep_rings(const std::vector<std::string>& rings, size_t max_bytes);

  const std::string& first_error() const { return first_error_; }

 private:
  bool note(const Status& status);

  std::string path_, first_error_;
};

// "run_20260131_235959_1a2b": for runs without a name.
std::string made_up_run_name();

// Now as ISO 8601 UTC, "2026-01-31T23:59:59Z".
std::string iso_time_now();

}  // namespace stepscope
