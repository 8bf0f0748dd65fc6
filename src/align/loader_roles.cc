#include "align/loader_roles.h"

#include <algorithm>
#include <utility>

namespace stepscope {

namespace {
constexpr double kUsualOver = 8;      // fetches that the usual one is a mean over
constexpr double kOpeningFactor = 2;  // a first fetch that takes less beyond the usual one is one of them
}  // namespace

LoaderRoles::Role LoaderRoles::role(uint64_t loader) const {
  const auto found = loaders_.find(loader);
  return found == loaders_.end() ? Role::kUnknown : found->second.role;
}

void LoaderRoles::created(uint64_t loader, bool with_workers, double batch) {
  Loader& l = loaders_[loader];
  l.started = true, l.started_at = ++now_;
  l.starting = with_workers;
  l.first = true;
  l.batch = batch;
}

Category LoaderRoles::fetch_category(uint64_t loader) const {
  if (evaluates(loader)) return Category::kValidation;
  const auto found = loaders_.find(loader);
  return found != loaders_.end() && found->second.starting ? Category::kEpochStart : Category::kInputWait;
}

Category LoaderRoles::epoch_category(uint64_t loader) const {
  return evaluates(loader) ? Category::kValidation : Category::kEpochStart;
}

int64_t LoaderRoles::opening_ns(uint64_t loader, int64_t ns) const {
  const auto found = loaders_.find(loader);
  if (found == loaders_.end() || !found->second.first || found->second.usual_ns <= 0) return 0;
  const auto beyond_ns = static_cast<double>(ns) - found->second.usual_ns;
  return beyond_ns > kOpeningFactor * found->second.usual_ns ? static_cast<int64_t>(beyond_ns) : 0;
}

double LoaderRoles::fetched(uint64_t loader, int64_t ns, Category charged_to) {
  Loader& l = loaders_[loader];
  l.starting = false;
  if (!std::exchange(l.first, false)) {
    const auto took_ns = static_cast<double>(ns);
    l.usual_ns += l.usual_ns > 0 ? (took_ns - l.usual_ns) / kUsualOver : took_ns;
  }
  l.fetched_at = ++now_;
  newest_ = loader;
  fetched_since_work_ = true;
  if (l.role == Role::kUnknown) (charged_to == Category::kEpochStart ? pending_.epoch_ns : pending_.fetch_ns) += ns;
  return l.batch;
}

void LoaderRoles::passed(int64_t ns) {
  if (fetched_since_work_ && role(newest_) == Role::kUnknown) pending_.gap_ns += ns;
}

bool LoaderRoles::counts(double samples, double tokens, bool evaluating) {
  const Role role_now = newest_ ? role(newest_) : evaluating ? Role::kEvaluation : Role::kTraining;
  if (role_now == Role::kEvaluation) return false;
  if (role_now == Role::kUnknown) pending_.samples += samples, pending_.tokens += tokens;
  return true;
}

void LoaderRoles::training_work(std::vector<uint64_t>& training) {
  // A batch that leads to gradients is training, whatever ran on it before (a teacher's forward looks like evaluation).
  if (newest_ && fetched_since_work_) {
    Loader& l = loaders_[newest_];
    l.role = Role::kTraining;
    if (begins_epoch(newest_, l))
      leader_ = newest_, l.has_turn = false, ++epoch_;
    else if (l.epoch < 0)
      l.has_turn = true;
    l.epoch = epoch_, l.started = false, l.trained_at = ++now_;
    if (training.size() < kMaxTrainingLoaders && std::find(training.begin(), training.end(), newest_) == training.end())
      training.push_back(newest_);
  }
  pending_ = {};
}

// What a program calls an epoch is not seen; loaders that take each other's place are told from loaders of one epoch by
// what was fetched when, and by what the first epoch held.
bool LoaderRoles::begins_epoch(uint64_t number, const Loader& loader) const {
  if (epoch_ < 0) return true;
  if (!loader.started) return false;
  if (number == leader_) return true;
  const Loader& leader = loaders_.at(leader_);
  if (leader.fetched_at > loader.started_at || leader.fetched_at > worked_at_) return false;  // both feed these steps
  if (loader.epoch < 0) return epoch_ > 0;
  return !loader.has_turn || (loader.epoch == epoch_ && leader.fetched_at < loader.trained_at);
}

LoaderRoles::Wrongly LoaderRoles::evaluation_work() {
  const Wrongly wrongly = std::exchange(pending_, {});
  if (!newest_ || role(newest_) != Role::kUnknown || !fetched_since_work_) return {};
  loaders_[newest_].role = Role::kEvaluation;
  return wrongly;
}

}  // namespace stepscope
