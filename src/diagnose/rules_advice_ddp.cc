// Advice on DistributedDataParallel: batchnorm, unused_parameters, small_buckets, no_sync.

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

constexpr double kMib = 1024 * 1024;

void batchnorm(const ConfigFact& ddp, const Configuration& c, std::vector<Advice>& out) {
  const double layers = number(ddp, "batchnorm", 0), world = number(ddp, "world", 1);
  if (layers < 1 || world < 2) return;
  Advice a{Cause::kBatchnorm,
           formatted("{:.0f} BatchNorm layers under DDP take their statistics from one rank's batch each", layers),
           "Convert them before wrapping: torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) (GPUs only); with some "
           "tens of "
           "samples per rank they may stay",
           {{"batchnorm_layers", {}, layers, {}, ""}, {"world_size", {}, world, {}, ""}}};
  for (const ConfigFact* loader : c.training_loaders())
    if (const double batch = number(*loader, "batch", 0); batch > 0) {
      a.evidence.push_back({"samples_per_rank_and_batch", {}, batch, {}, ""});
      break;
    }
  out.push_back(std::move(a));
}

void unused_parameters(const RuleInput& in, const ConfigFact& ddp, const Configuration& c, std::vector<Advice>& out) {
  const ConfigFact* seen = c.find("ddp_unused", ddp.id);
  if (number(ddp, "find_unused", 0) == 0 || !seen || number(*seen, "most", 1) > 0) return;
  const double steps = number(*seen, "steps", 0);
  if (steps < in.limits->advice_unused_steps) return;
  out.push_back(
      {Cause::kUnusedParameters,
       formatted("find_unused_parameters=True, but no parameter was unused in the {:.0f} steps looked at", steps),
       "Leave it out: DDP walks the whole graph in every step for it; use static_graph=True where the same "
       "parameters are unused in every step",
       {{"steps_looked_at", {}, steps, {}, ""}, {"unused_parameters", {}, 0, {}, ""}}});
}

void small_buckets(const RuleInput& in, const ConfigFact& ddp, std::vector<Advice>& out) {
  const double bucket = number(ddp, "bucket_bytes", 0), parameters = number(ddp, "parameter_bytes", 0);
  const double limit = in.limits->advice_bucket_mib * kMib;
  if (bucket <= 0 || bucket >= limit || parameters < 2 * limit || number(ddp, "world", 1) < 2) return;
  out.push_back({Cause::kSmallBuckets,
                 formatted("Gradients go out in buckets of {:.1f} MiB: about {:.0f} all-reduces per step",
                           bucket / kMib, parameters / bucket),
                 "Leave bucket_cap_mb at its default of 25: each all-reduce has a fixed price",
                 {{"bucket_bytes", {}, bucket, {}, ""}, {"gradient_bytes", {}, parameters, {}, ""}}});
}

void no_sync(const RuleInput& in, std::vector<Advice>& out) {
  const double times = unneeded_syncs(in);
  if (times < 2) return;
  out.push_back(
      {Cause::kNoSync,
       formatted("Each of {:.0f} backwards per optimizer step sends all gradients; one of them would do", times),
       "model.no_sync() around all but the last backward of a step",
       {{"backwards_per_step", {}, times, {}, ""}, {"bytes_saved_share", {}, 1 - 1 / times, {}, ""}}});
}

}  // namespace

double unneeded_syncs(const RuleInput& in) {
  if (in.lives->empty()) return 0;
  const Configuration first(in.lives->begin()->second);
  const ConfigFact* ddp = first.find("ddp");
  const double gradients = ddp ? number(*ddp, "parameter_bytes", 0) : 0;
  if (!ddp || gradients <= 0 || number(*ddp, "world", 1) < 2) return 0;
  // Steps of which the program sent that many bytes, and not of one metric that is as large by chance.
  std::vector<double> backwards, bytes;
  for (const StepRow* row : in.rows.rows)
    for (const Cell& cell : row->cells) {
      backwards.push_back(cell.backwards);
      bytes.push_back(cell.bytes);
    }
  if (backwards.empty()) return 0;
  const double times = median(std::move(backwards));
  return times >= 2 && median(std::move(bytes)) >= in.limits->advice_sync_bytes_share * times * gradients ? times : 0;
}

std::vector<Advice> advice_on_ddp(const RuleInput& in, const Configuration& c) {
  std::vector<Advice> out;
  const ConfigFact* ddp = c.find("ddp");
  if (!ddp) return out;
  batchnorm(*ddp, c, out);
  unused_parameters(in, *ddp, c, out);
  small_buckets(in, *ddp, out);
  no_sync(in, out);
  return out;
}

}  // namespace stepscope
