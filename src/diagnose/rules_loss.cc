// UNEXPLAINED_LOSS: time that is not the model's own compute, is worth a word, and that no other rule has explained.
// Effect before cause: the loss of every category of the ledger is said and priced; the cause is open, and the advice
// is the measurement that would tell it.
//
//   lost(c)       of a category: the share of wall time of the lower median over ranks; of waiting for other ranks the
//   mean
//                 over ranks, since those who wait differ from step to step
//   explained(c)  what the other findings cost that are about this category; of waiting, of those that delay others
//
// Asked last, so that it sees what the others said.
#include <algorithm>
#include <array>

#include "analyze/category_shares.h"
#include "base/text_format.h"
#include "diagnose/explanation.h"
#include "diagnose/leads.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

struct Loss {
  Category category;
  const char* words;
  const char* action;
};
constexpr Loss kLosses[] = {
    {Category::kInputWait, "waiting for batches",
     "See which loader is late and what its workers do: py-spy on a worker, the loader's time without a model"},
    {Category::kH2d, "copying to the device", "See which tensors are copied, and whether their memory is pinned"},
    {Category::kCommTransfer, "Communication that nothing hides",
     "Some is normal in data parallel training: larger batches or accumulation with no_sync hide more of it"},
    {Category::kStragglerWait, "waiting for other ranks, and no rank is late in most steps",
     "See the steps' ledger for what the late rank did in the slow steps; log tokens or samples per step with "
     "stepscope.log to tell uneven batches"},
    {Category::kHostPause, "pauses of the host",
     "See which calls wait for the device, and collections of Python's garbage collector"},
    {Category::kCompile, "compiling",
     "See TORCH_LOGS=recompiles for what is compiled, and cache it (TORCHINDUCTOR_FX_GRAPH_CACHE=1)"},
    {Category::kCheckpoint, "saving checkpoints",
     "Save less often or asynchronously (torch.distributed.checkpoint.async_save)"},
    {Category::kValidation, "validation or other inference", "See how often it runs and on how many batches"},
    {Category::kLogging, "logging", "Log less often, or from another thread"},
    {Category::kEpochStart, "starting epochs",
     "See what the loader, its sampler and its dataset do when an iterator is made"},
    {Category::kUserCode, "phases that the program names itself",
     "The phases are the program's own: see the code that trace_phase wraps"},
};

double explained(const std::vector<Finding>& said, Category category) {
  double sum = 0;
  for (const Finding& f : said) {
    const bool between =
        f.kind == FindingKind::kBetweenStepsHeavy &&
        (category == Category::kCheckpoint || category == Category::kValidation || category == Category::kEpochStart ||
         category == Category::kLogging || category == Category::kUserCode);
    if (between || f.phase == name(category) || (category == Category::kStragglerWait && delays_others(f)))
      sum += f.cost_share;
  }
  return sum;
}

// Waiting and exposed transfer are a part of any synchronous training: they are graded later than the rest.
Severity graded(const RuleInput& in, Category category, double share) {
  const Thresholds& t = *in.limits;
  double warn = t.share_kind_warn, crit = t.share_kind_crit;
  if (category == Category::kStragglerWait) warn = t.loss_wait_warn, crit = t.loss_wait_crit;
  if (category == Category::kCommTransfer) warn = t.comm_bound_warn, crit = t.comm_bound_crit;
  return share >= crit ? Severity::kCrit : share >= warn ? Severity::kWarn : Severity::kInfo;
}

}  // namespace

void judge_loss(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const CategoryShares shares = category_shares(in.rows);
  std::vector<Finding> found;
  for (const Loss& loss : kLosses) {
    const bool waiting = loss.category == Category::kStragglerWait;
    const double share = waiting ? shares.mean[index(loss.category)] : shares[loss.category];
    const double open = share - explained(out, loss.category);
    if (open < in.limits->loss_told_share) continue;
    const Severity severity = graded(in, loss.category, open);
    FindingBuilder f =
        waiting ? in.of_job_by_row(FindingKind::kUnexplainedLoss, loss.category, share, severity, mean_wait_ms)
                : in.of_job(FindingKind::kUnexplainedLoss, loss.category, share, severity);
    found.push_back(
        f.costs(open)
            .title(formatted(
                "{} of the time goes into {}{}", format_percent(open), loss.words,
                open < share ? formatted(", beside what other findings explain of its {}", format_percent(share)) : ""))
            .action(loss.action));
  }
  std::move(found.begin(), found.end(), std::back_inserter(out));
}

}  // namespace stepscope
