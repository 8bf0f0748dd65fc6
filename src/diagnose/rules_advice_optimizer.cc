// Advice on what the optimizer updates: dense_embedding.

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

std::vector<Advice> advice_on_optimizer(const RuleInput& in, const Configuration& c) {
  std::vector<Advice> out;
  const ConfigFact* fact = c.find("optimizer");
  if (!fact) return out;
  const double all = number(*fact, "parameters", 0), largest = number(*fact, "largest", 0);
  const double touched = number(*fact, "touched", 1), rows = number(*fact, "rows", 0);
  const double optimizer = in.share_of_job(Category::kOptimizer);
  if (all <= 0 || largest < in.limits->advice_embedding_share * all || touched > in.limits->advice_touched_share ||
      optimizer < in.limits->advice_optimizer_share)
    return out;
  out.push_back(
      {Cause::kDenseEmbedding,
       formatted("The optimizer takes {} of the time: a table of {:.0f} x {:.0f} is {} of all parameters, and a step "
                 "touches {} of its rows",
                 format_percent(optimizer), rows, number(*fact, "columns", 0), format_percent(largest / all),
                 format_percent(touched)),
       "Embedding(..., sparse=True) with an optimizer that takes sparse gradients (SparseAdam, SGD, Adagrad), or an "
       "optimizer of its own for this table",
       {{"optimizer_share", {}, optimizer, {}, ""},
        {"share_of_parameters", {}, largest / all, {}, ""},
        {"rows_touched_share", {}, touched, {}, ""}}});
  return out;
}

}  // namespace stepscope
