// What the user sees while the training of `stepscope run` goes on. --mode summary has none. Owned by the launcher, on
// its one thread; nothing here waits, and whatever fails here the training does not notice.
//
// --mode cli on a terminal (standard input and at least one of output and error are terminals that can move the cursor,
// and we are in its foreground): the terminal view (RunView). Else lines of progress on stderr (ProgressLines).
//
// The contract of the view:
// * Standard output and error of the training are kept where they would have gone to the terminal; a file or a pipe
// gets
//   them directly, byte by byte, as without us. What is kept comes out of a pseudo terminal: isatty() stays true, sizes
//   follow the terminal, no byte is changed, and output and error keep their order. It is written to the terminal when
//   the view ends: at the end of the run, or when the reader leaves it, after which it passes through as it comes.
//   <run>/output.log holds all of it. The view shows its last lines, with their rank where torch or torchrun say it.
// * Standard input of the training is /dev/null: keys are the view's. A training that asks its user something (pdb,
//   input()) runs under --mode summary.
// * Ctrl-C, Ctrl-\ and Ctrl-Z reach launcher and training once, as without a view: the terminal still makes signals of
//   them. Exit code, signals and their order are the launcher's (launcher.h).
// * What outlives the training and still writes to the terminal finds it closed (EIO).
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/settings.h"

namespace stepscope {

class Companion {
 public:
  virtual ~Companion() = default;

  // What the training gets for its standard files; -1 = ours.
  virtual const int* stdio() const { return kOwn; }
  // Descriptors to wait for, and how long at most.
  virtual void add_to(std::vector<pollfd>& set) const { (void)set; }
  virtual int wait_ms() const = 0;
  virtual void turn(uint64_t now_ns) = 0;
  // A line of ours that would have gone to stderr. False: it does.
  virtual bool take_line(const std::string& line) { return (void)line, false; }
  // The training has ended: gives the terminal back and shows what was kept.
  virtual void end() {}

 private:
  static constexpr int kOwn[3] = {-1, -1, -1};
};

struct CompanionPlace {
  std::string run_name, run_dir, shm_dir;  // run_dir "": no folder
};

// Null for a mode without one.
std::unique_ptr<Companion> make_companion(const std::string& mode, const CompanionPlace& place);

}  // namespace stepscope
