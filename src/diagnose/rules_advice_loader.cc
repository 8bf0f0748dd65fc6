// Advice on the DataLoaders that feed the training: distributed_sampler, set_epoch, uneven_batches, last_batch,
// num_workers, pin_memory, persistent_workers.
#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

bool has_torch_sampler(const ConfigFact& loader) {
  const std::string sampler = text(loader, "sampler");
  return sampler == "RandomSampler" || sampler == "SequentialSampler";
}

void distributed_sampler(const ConfigFact& loader, int world, std::vector<Advice>& out) {
  // A Subset or a batch sampler of one's own may have been made per rank.
  const bool whole = has_torch_sampler(loader) && text(loader, "batch_sampler") == "BatchSampler" &&
                     text(loader, "dataset") != "Subset";
  if (world < 2 || number(loader, "iterable", 0) != 0 || !whole) return;
  out.push_back({Cause::kDistributedSampler,
                 formatted("Each of {} ranks draws from the whole dataset: its loader has a {}, no DistributedSampler",
                           world, text(loader, "sampler")),
                 "sampler=DistributedSampler(dataset), shuffle left to it; ignore this where the dataset is already "
                 "split by rank",
                 {{"dataset_samples", {}, number(loader, "samples", 0), {}, ""},
                  {"world_size", {}, static_cast<double>(world), {}, ""}}});
}

void set_epoch(const RuleInput& in, const ConfigFact& loader, std::vector<Advice>& out) {
  const double epochs = number(loader, "epochs", 1);
  const bool shuffles = number(loader, "distributed", 0) != 0 && number(loader, "shuffle", 0) != 0;
  if (!shuffles || epochs < in.limits->advice_min_epochs || number(loader, "distinct_epochs", 2) > 1) return;
  out.push_back(
      {Cause::kSetEpoch,
       formatted(
           "The DistributedSampler gives the same order in every epoch: set_epoch was not called in {:.0f} epochs",
           epochs),
       "Call loader.sampler.set_epoch(epoch) before each epoch",
       {{"epochs", {}, epochs, {}, ""}, {"sampler_epoch", {}, number(loader, "sampler_epoch", 0), {}, ""}}});
}

void uneven_batches(const RuleInput& in, const ConfigFact& loader, std::vector<Advice>& out) {
  double least = number(loader, "batches", -1), most = least;
  if (least < 0 || in.lives->size() < 2) return;
  int least_rank = in.lives->begin()->first, most_rank = least_rank;
  for (const auto& [rank, life] : *in.lives) {
    const ConfigFact* same = Configuration(life).find("loader", loader.id);
    const double batches = same ? number(*same, "batches", -1) : -1;
    if (batches < 0) return;
    if (batches < least) least = batches, least_rank = rank;
    if (batches > most) most = batches, most_rank = rank;
  }
  if (least == most) return;
  out.push_back(
      {Cause::kUnevenBatches,
       formatted("Ranks have {:.0f} to {:.0f} batches per epoch: the longer ones wait for partners that are done",
                 least, most),
       "Give every rank as many batches: DistributedSampler (it pads), drop_last=True, or DDP's join() context",
       {{"batches_per_epoch", least_rank, least, {}, ""}, {"batches_per_epoch", most_rank, most, {}, ""}}});
}

void last_batch(const ConfigFact& loader, int world, std::vector<Advice>& out) {
  const double samples = number(loader, "samples", 0), batch = number(loader, "batch", 0);
  const bool counted = has_torch_sampler(loader) || number(loader, "distributed", 0) != 0;
  if (world < 2 || samples <= 0 || batch <= 1 || !counted || number(loader, "drop_last", 0) != 0 ||
      number(loader, "iterable", 0) != 0)
    return;
  const double of_rank = number(loader, "distributed", 0) != 0 ? number(loader, "sampler_samples", 0) : samples;
  const double rest = std::fmod(of_rank, batch);
  if (of_rank < batch || rest == 0) return;
  out.push_back(
      {Cause::kLastBatch,
       formatted(
           "The last batch of each epoch has {:.0f} of {:.0f} samples, and its gradients count as much as the others'",
           rest, batch),
       "drop_last=True, or a batch size that divides the samples of a rank; another shape also makes torch.compile "
       "compile again",
       {{"samples_per_rank", {}, of_rank, {}, ""},
        {"batch_size", {}, batch, {}, ""},
        {"last_batch_size", {}, rest, {}, ""}}});
}

void num_workers(const RuleInput& in, const ConfigFact& loader, std::vector<Advice>& out) {
  const double share = in.share_of_job(Category::kInputWait);
  if (number(loader, "workers", 1) != 0 || share < in.limits->advice_input_share) return;
  if (per_sample_overhead(in, loader)) return;  // worker processes hand over each sample's tensors as well
  out.push_back(
      {Cause::kNumWorkers,
       formatted("The training process loads its batches itself (num_workers=0) and spends {} of the time on it",
                 format_percent(share)),
       "num_workers=2 or more: batches are then made while the model computes",
       {{"input_wait_share", {}, share, {}, ""}, {"num_workers", {}, 0, {}, ""}}});
}

void pin_memory(const RuleInput& in, const ConfigFact& loader, std::vector<Advice>& out) {
  const double share = in.share_of_job(Category::kH2d);
  if (number(loader, "pin", 1) != 0 || share < in.limits->advice_h2d_share) return;
  out.push_back({Cause::kPinMemory,
                 formatted("Copies to the device block the training for {} of the time, from memory that is not pinned",
                           format_percent(share)),
                 "pin_memory=True in the loader and .to(device, non_blocking=True)",
                 {{"h2d_share", {}, share, {}, ""}, {"pin_memory", {}, 0, {}, ""}}});
}

void persistent_workers(const RuleInput& in, const ConfigFact& loader, std::vector<Advice>& out) {
  const double share = in.share_of_job(Category::kEpochStart), epochs = number(loader, "epochs", 1);
  const bool anew = number(loader, "workers", 0) > 0 && number(loader, "persistent", 1) == 0;
  if (!anew || epochs < in.limits->advice_min_epochs || share < in.limits->advice_epoch_start_share) return;
  out.push_back({Cause::kPersistentWorkers,
                 formatted("Every epoch starts its loader workers anew, {} of the time", format_percent(share)),
                 "persistent_workers=True",
                 {{"epoch_start_share", {}, share, {}, ""},
                  {"num_workers", {}, number(loader, "workers", 0), {}, ""},
                  {"epochs", {}, epochs, {}, ""}}});
}

}  // namespace

bool per_sample_overhead(const RuleInput& in, const ConfigFact& loader) {
  const double batch = number(loader, "batch", 0);
  if (number(loader, "workers", 1) != 0 || number(loader, "whole_batches", 1) != 0) return false;
  if (batch < in.limits->input_small_batch) return false;
  if (in.per_step_ms(Category::kInputWait) > in.limits->input_small_sample_ms * batch) return false;
  // A fetch that waits for storage or for another process uses no CPU; one that only waits for a core would.
  const auto idle = [](const Cell& cell) {
    return cell.cpu_ms >= 0 && cell.host_wall_ms > 0 ? 1 - cell.cpu_ms / cell.host_wall_ms : 0.0;
  };
  double without_core = 0;
  if (in.loads)
    for (const auto& [host, load] : *in.loads) without_core = std::max(without_core, load.run_delay);
  return in.per_step_ms(idle) - without_core <= in.limits->input_small_idle_share;
}

std::vector<Advice> advice_on_loaders(const RuleInput& in, const Configuration& c) {
  std::vector<Advice> out;
  const int world = c.data_ranks();
  const bool measured = in.rows.size() >= static_cast<size_t>(in.limits->min_steps);
  const auto said = [&](Cause cause) {
    return std::any_of(out.begin(), out.end(), [&](const Advice& a) { return a.cause == cause; });
  };
  for (const ConfigFact* loader : c.training_loaders()) {
    std::vector<Advice> of_loader;
    distributed_sampler(*loader, world, of_loader);
    set_epoch(in, *loader, of_loader);
    uneven_batches(in, *loader, of_loader);
    last_batch(*loader, world, of_loader);
    if (measured) {
      num_workers(in, *loader, of_loader);
      pin_memory(in, *loader, of_loader);
      persistent_workers(in, *loader, of_loader);
    }
    for (Advice& a : of_loader)
      if (!said(a.cause)) out.push_back(std::move(a));
  }
  return out;
}

}  // namespace stepscope
