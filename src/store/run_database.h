// The open run file of a writer: made or gone on with, journal chosen, transactions, checkpoints. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "store/run_writer.h"
#include "store/sql.h"

namespace stepscope::store {

class RunDatabase {
 public:
  // Makes the file (0600) or opens one that the same run left behind. `resumed` says which.
  static Result<std::unique_ptr<RunDatabase>> open(const std::string& path, const RunWriterOptions& options);

  Database& db() { return db_; }
  bool resumed() const { return resumed_; }

  // kBusy: somebody else holds the file (or keeps its journal from being emptied); nothing was begun.
  enum class Begin { kBegun, kBusy, kError };
  Begin begin();
  Begin commit();  // kBusy, kError: rolled back
  void roll_back();

  uint64_t file_bytes();
  // The last failure was our own bound on the file's size, not the disk's.
  bool at_bound();
  // Damage that no later try can mend.
  bool beyond_repair() const;
  // Leaves one file without journals where no reader stands in the way.
  void finish();

 private:
  Status prepare_file(const std::string& path, const RunWriterOptions& options);
  Status choose_journal(const std::string& path, RunJournal journal);
  Status create(const RunWriterOptions& options);
  void checkpoint();

  Database db_;
  bool resumed_ = false, wal_ = false;
  int wal_pages_ = 0, max_wal_pages_ = 0;
};

}  // namespace stepscope::store
