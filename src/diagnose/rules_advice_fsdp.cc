// Advice on FSDP: fsdp_root_unit, fsdp_tiny_units, backward_prefetch, cpu_offload.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

void wrapping(const RuleInput& in, const ConfigFact& fsdp, std::vector<Advice>& out) {
  const double units = number(fsdp, "units", 0), parameters = number(fsdp, "parameters", 0);
  const double root = number(fsdp, "root_parameters", 0), median = number(fsdp, "median_parameters", 0);
  const Evidence counted{"units", {}, units, {}, ""};
  if (parameters >= in.limits->advice_fsdp_min_parameters && root >= in.limits->advice_fsdp_root_share * parameters) {
    out.push_back(
        {Cause::kFsdpRootUnit,
         formatted("FSDP gathers {} of the parameters as one unit: they all lie whole on each device while it runs",
                   format_percent(root / parameters)),
         "Wrap the repeated blocks too: fully_shard(block) for each before fully_shard(model), or an auto_wrap_policy",
         {counted, {"root_parameters", {}, root, {}, ""}, {"parameters", {}, parameters, {}, ""}}});
  }
  if (units >= in.limits->advice_fsdp_many_units && median < in.limits->advice_fsdp_tiny_parameters) {
    out.push_back(
        {Cause::kFsdpTinyUnits,
         formatted("FSDP has {:.0f} units with {:.0f} parameters in the median: many small all-gathers per step", units,
                   median),
         "Wrap whole blocks, not single layers",
         {counted, {"median_parameters", {}, median, {}, ""}}});
  }
}

void backward_prefetch(const ConfigFact& fsdp, std::vector<Advice>& out) {
  if (number(fsdp, "version", 0) != 1 || text(fsdp, "prefetch") != "none" || number(fsdp, "units", 0) < 2) return;
  out.push_back({Cause::kBackwardPrefetch,
                 "FSDP gathers the next parameters in backward only when it needs them (backward_prefetch=None)",
                 "backward_prefetch=BackwardPrefetch.BACKWARD_PRE, unless memory is short",
                 {{"units", {}, number(fsdp, "units", 0), {}, ""}}});
}

void cpu_offload(const RuleInput& in, const ConfigFact& fsdp, std::vector<Advice>& out) {
  const double capacity = number(fsdp, "device_bytes", 0);
  if (number(fsdp, "offload", 0) == 0 || capacity <= 0) return;
  double most = -1;
  for (const StepRow* row : in.with_warmup.rows)
    for (const Cell& cell : row->cells) most = std::max(most, cell.reserved_bytes);
  if (most < 0 || most > in.limits->advice_offload_idle_share * capacity) return;
  out.push_back(
      {Cause::kCpuOffload,
       formatted("FSDP keeps parameters in host memory although the devices never used more than {} of theirs",
                 format_percent(most / capacity)),
       "Leave the offload policy out, as long as the parameters fit",
       {{"reserved_bytes", {}, most, {}, ""}, {"device_bytes", {}, capacity, {}, ""}}});
}

}  // namespace

std::vector<Advice> advice_on_fsdp(const RuleInput& in, const Configuration& c) {
  std::vector<Advice> out;
  const ConfigFact* fsdp = c.find("fsdp");
  if (!fsdp || number(*fsdp, "world", 1) < 2) return out;
  wrapping(in, *fsdp, out);
  backward_prefetch(*fsdp, out);
  cpu_offload(in, *fsdp, out);
  return out;
}

}  // namespace stepscope
