#include "align/loader_roles.h"

#include <algorithm>
#include <utility>

namespace stepscope {

LoaderRoles::Role LoaderRoles::role(uint64_t loader) const {
  const auto found = loaders_.find(loader);
  return found == loaders_.end() ? Role::kUnknown : found->second.role;
}

void LoaderRoles::created(uint64_t loader, bool with_workers, double batch) {
  Loader& l = loaders_[loader];
  ++l.begun;
  l.starting = with_workers;
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

double LoaderRoles::fetched(uint64_t loader, int64_t ns, Category charged_to) {
  Loader& l = loaders_[loader];
  l.starting = false;
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
    loaders_[newest_].role = Role::kTraining;
    if (first_to_train_ == 0) first_to_train_ = newest_, begun_at_first_ = loaders_[newest_].begun;
    if (training.size() < kMaxTrainingLoaders && std::find(training.begin(), training.end(), newest_) == training.end())
      training.push_back(newest_);
  }
  pending_ = {};
}

int32_t LoaderRoles::epoch() const {
  const auto found = loaders_.find(first_to_train_);
  return found == loaders_.end() ? -1 : found->second.begun - begun_at_first_;
}

LoaderRoles::Wrongly LoaderRoles::evaluation_work() {
  const Wrongly wrongly = std::exchange(pending_, {});
  if (!newest_ || role(newest_) != Role::kUnknown || !fetched_since_work_) return {};
  loaders_[newest_].role = Role::kEvaluation;
  return wrongly;
}

}  // namespace stepscope
