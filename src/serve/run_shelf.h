// The runs that a server shows: the folders of a logs folder, one run alone, and the live run of the agent whose server
// this is. Reads files; nothing of them is trusted. A run that another agent is writing is read again as it grows, but
// never more than a tenth of the time is spent on it. One thread at a time (the server's worker).
//
// A run is read on a thread of its own, one run at a time. What is not there after kPatienceMs is said to be loading,
// so that a run that takes minutes holds up nobody who asks for another.
//
// Bounds: kMaxListed runs (the newest by their folder's time), summaries up to kMaxDigestBytes for the list, kMaxKept
// snapshots in memory.
#pragma once

#include <future>
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
  static constexpr int kPatienceMs = 400;

  explicit RunShelf(ShelfOptions options);

  // Newest first; those that go on before all others.
  std::vector<RunDigest> list();
  // An Error names the run and says what is wrong with it, or that it or another one is being read: then loading() is
  // true, and asking again helps.
  Result<RunState> find(const std::string& name);
  bool loading() const { return load_.valid(); }
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
  Result<RunState> take(const std::string& name, const std::string& path);
  void begin_load(const std::string& name, const std::string& path, uint64_t stamp);
  void make_room();

  ShelfOptions options_;
  std::map<std::string, Kept> kept_;
  std::map<std::string, Listed> listed_;
  uint64_t uses_ = 0;
  std::string load_name_;  // of the run that is being read
  uint64_t load_stamp_ = 0, load_begun_ns_ = 0;
  std::future<Result<LoadedSnapshot>> load_;
};

// A folder that holds what a run leaves: a summary, a run file or a manifest.
bool is_run_folder(const std::string& path);

}  // namespace stepscope
