// The runs that a server shows: the folders of a logs folder, one run alone, and the live run of the agent whose server
// this is. Reads files; nothing of them is trusted. A run that another agent is writing is read again as it grows, but
// never more than a tenth of the time is spent on it. One thread at a time (the server's worker).
//
// Bounds: kMaxListed runs (the newest by their folder's time), summaries up to kMaxDigestBytes for the list, kMaxKept
// snapshots in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "serve/live_slot.h"
#include "serve/run_state.h"

namespace stepscope {

struct ShelfOptions {
  std::string logs;  // folder of run folders, "" = none
  std::string only;  // one run alone: its folder or file
  LoadSnapshot load;
  LiveSlot* live = nullptr;         // of the run `live_name`; outlives the shelf
  std::string live_name, live_dir;  // live_dir: its folder, "" = it has none
};

class RunShelf {
 public:
  static constexpr size_t kMaxListed = 2000, kMaxKept = 4;
  static constexpr size_t kMaxDigestBytes = 8u << 20;

  explicit RunShelf(ShelfOptions options);

  // Newest first; those that go on before all others.
  std::vector<RunDigest> list();
  // An Error names the run and says what is wrong with it.
  Result<RunState> find(const std::string& name);
  // What find() would say without reading the run; 0 = no such run, or nothing is known of it yet.
  uint64_t version(const std::string& name);
  bool knows(const std::string& name) const { return is_live(name) || !path_of(name).empty(); }
  const std::string& logs() const { return options_.logs; }
  bool alone() const { return !options_.only.empty(); }

 private:
  struct Kept {
    RunState state;
    uint64_t used = 0, loaded_ns = 0, cost_ns = 0;
  };
  struct Listed {
    uint64_t version = 0;
    RunDigest digest;
  };
  std::string path_of(const std::string& name) const;
  bool is_live(const std::string& name) const { return options_.live && name == options_.live_name; }
  RunDigest digest(const std::string& name, uint64_t version);
  void make_room();

  ShelfOptions options_;
  std::map<std::string, Kept> kept_;
  std::map<std::string, Listed> listed_;
  uint64_t uses_ = 0;
};

// A folder that holds what a run leaves: a summary, a run file or a manifest.
bool is_run_folder(const std::string& path);

}  // namespace stepscope
