// What a rank's loaders are for: a loader whose batch is followed by gradients feeds training, one whose batch is
// followed by an evaluation feeds validation. Until that is known of a loader, what its batches took and held is
// charged to training and kept here, so that it can be taken back.
//
// A plain single-threaded object; no failure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "align/category.h"
#include "align/rank_step.h"

namespace stepscope {

class LoaderRoles {
 public:
  static constexpr size_t kMaxTrainingLoaders = 64;

  // What was charged to training since the newest work of a loader that turns out to be for evaluation.
  struct Wrongly {
    int64_t fetch_ns = 0, epoch_ns = 0, gap_ns = 0;
    double samples = 0, tokens = 0;
  };

  // An iterator of the loader is made; `batch`: samples of a batch as it was set up, 0 = not known.
  void created(uint64_t loader, bool with_workers, double batch);
  // Where the time of the loader's next fetch, and of the ends of its epochs, belongs.
  Category fetch_category(uint64_t loader) const;
  Category epoch_category(uint64_t loader) const;
  bool trains(uint64_t loader) const { return role(loader) == Role::kTraining; }
  bool evaluates(uint64_t loader) const { return role(loader) == Role::kEvaluation; }

  // Of a first fetch of an iterator that loads in the training process: the ns that it took beyond a usual one, for
  // what the sampler and the dataset do at the start. To be asked before fetched().
  int64_t opening_ns(uint64_t loader, int64_t ns) const;
  // A batch came, after `ns` charged to `charged_to`. Returns the samples that it has by the loader's set-up.
  double fetched(uint64_t loader, int64_t ns, Category charged_to);
  // Time without a name: after a batch whose loader is not known yet it is for what the batch is for.
  void passed(int64_t ns);
  // Samples and tokens found in the newest batch; false where they are not for training. `evaluating`: for programs
  // without a loader.
  bool counts(double samples, double tokens, bool evaluating);

  // Work with gradients, without: what it says about the newest batch. A loader that trains is added to `training`.
  void training_work(std::vector<uint64_t>& training);
  Wrongly evaluation_work();
  // A backward or an optimizer step is over: what follows says nothing about a batch that came before it.
  void work_ended() { fetched_since_work_ = false, worked_at_ = ++now_; }

  // The newest batch was dropped.
  void forget_batch() { pending_ = {}; }

  // Number of the epoch, from 0 on; -1 = no loader has trained yet. An epoch begins when the loader that led the one
  // before is started over, or another one takes its place. Loaders that train beside it, or have their turn in each
  // epoch (seen in the first one already), begin none.
  int32_t epoch() const { return epoch_; }

  uint64_t newest() const { return newest_; }  // loader of the newest batch, 0 = none yet
  bool newest_feeds_training() const { return fetched_since_work_ && trains(newest_); }

 private:
  enum class Role : uint8_t { kUnknown, kTraining, kEvaluation };
  struct Loader {
    Role role = Role::kUnknown;
    double batch = 0;
    bool started = false;   // an iterator was made since it last trained
    bool starting = false;  // its iterator was just made: the first fetch waits for the start of workers
    bool first = false;     // no batch of its iterator has come
    bool has_turn = false;  // one of several in each epoch
    double usual_ns = 0;    // of its fetches but the first of each iterator, the newest count most
    int32_t epoch = -1;     // in which it last trained
    uint64_t started_at = 0, fetched_at = 0, trained_at = 0;  // moments
  };
  Role role(uint64_t loader) const;
  bool begins_epoch(uint64_t number, const Loader& loader) const;

  std::map<uint64_t, Loader> loaders_;
  uint64_t newest_ = 0;
  uint64_t leader_ = 0;  // whose start began the epoch
  int32_t epoch_ = -1;
  uint64_t now_ = 0, worked_at_ = 0;  // moments: a count of starts, fetches and ends of work
  bool fetched_since_work_ = false;
  Wrongly pending_;  // while the role of the newest loader is unknown
};

}  // namespace stepscope
