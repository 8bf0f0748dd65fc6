// INPUT_BOUND: the training waits for batches. Where workers load, the queue that a fetch leaves behind tells two
// things apart: batches lie ready and the time goes into taking one over from its worker (no loader could be faster;
// a loss where it takes longer than a few tensors do), or the queue is empty and the loader is behind (cost). Of a
// loader that is behind, batches that wait out of order tell one slow sample that blocks the others (head_of_line) from
// a supply that is too small: none of the batches is finished (rate_deficit). Where they wait behind the same worker's
// batches turn by turn, it is that worker (worker_skew). A queue that tells neither leaves the cause open.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "analyze/worker_turns.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

// Batches on their way when the fetch was over. Those that came before their turn are no longer in flight.
uint32_t on_their_way(const Cell& cell) { return cell.fetch_in_flight + cell.fetch_out_of_order; }

bool ahead(const RuleInput& in, const Cell& cell) {
  return on_their_way(cell) > 0 && cell.fetch_ready >= in.limits->input_ahead_share * on_their_way(cell);
}

double input_ms(const Cell& cell) { return cell.ms[index(Category::kInputWait)]; }

// The batches on their way while it was waited, as shares of them weighted by how long it was.
struct Queue {
  double blocked = 0;     // finished, but behind an unfinished one; of the waiting in which a queue is known
  double unfinished = 0;  // of all waiting: where no queue is known, nothing says so
};

Queue queue_of(const RuleInput& in) {
  Queue queue;
  double known_ms = 0, waited_ms = 0;
  for (const StepRow* row : in.rows.rows)
    for (const Cell& cell : row->cells) {
      if (ahead(in, cell)) continue;
      waited_ms += input_ms(cell);
      if (on_their_way(cell) == 0) continue;
      known_ms += input_ms(cell);
      const double each_ms = input_ms(cell) / on_their_way(cell);
      queue.blocked += each_ms * cell.fetch_out_of_order;
      queue.unfinished += each_ms * (cell.fetch_in_flight - std::min(cell.fetch_ready, cell.fetch_in_flight));
    }
  if (known_ms > 0) queue.blocked /= known_ms;
  if (waited_ms > 0) queue.unfinished /= waited_ms;
  return queue;
}

// Of the rank that waits longest for one of its workers.
struct SlowWorker {
  int rank = -1, workers = 0;
  WorkerTurns turns;
};

std::optional<SlowWorker> slow_worker(const RuleInput& in) {
  std::optional<SlowWorker> slowest;
  for (const auto& [rank, life] : *in.lives)
    for (const ConfigFact* loader : Configuration(life).training_loaders()) {
      const int workers = static_cast<int>(number(*loader, "workers", 0));
      const auto turns = worker_turns(in.with_warmup, rank, workers);
      if (!turns || turns->share < std::max(in.limits->input_worker_share, 1.5 * turns->usual_share) ||
          turns->late_share < in.limits->input_worker_share)
        continue;
      if (!slowest || turns->share > slowest->turns.share) slowest = {rank, workers, *turns};
    }
  return slowest;
}

void tell_worker(const SlowWorker& slow, FindingBuilder& f) {
  const std::string who = slow.turns.worker < 0 ? formatted("one of its {} workers", slow.workers)
                                                : formatted("worker {} of {}", slow.turns.worker, slow.workers);
  f.caused_by(Cause::kWorkerSkew)
      .evidence("worker_wait_share", slow.turns.share, slow.rank, slow.turns.usual_share)
      .evidence("late_turns_share", slow.turns.late_share, slow.rank)
      .action(
          formatted("Rank {}'s loader waits for {} turn by turn, while the batches of the others lie ready: compare "
                    "what that worker reads and on which core it runs (worker_init_fn, shards by worker id); more "
                    "workers do not help",
                    slow.rank, who));
  if (slow.turns.worker >= 0) f.evidence("worker", slow.turns.worker, slow.rank);
}

void tell_cause(const RuleInput& in, FindingBuilder& f) {
  if (batches_ahead(in.with_warmup) == 0) {
    for (const auto& [rank, life] : *in.lives)
      for (const ConfigFact* loader : Configuration(life).training_loaders())
        if (per_sample_overhead(in, *loader)) {
          const double batch = number(*loader, "batch", 1);
          f.caused_by(Cause::kPerSampleOverhead)
              .evidence("us_per_sample", 1e3 * in.per_step_ms(Category::kInputWait) / batch)
              .evidence("samples_per_batch", batch)
              .action(
                  "Fetch a batch at once: give the dataset __getitems__, slice whole tensors, or sample batches of "
                  "indices; worker processes would hand over the same small pieces");
          return;
        }
    f.caused_by(Cause::kInProcess)
        .action("Load in worker processes (num_workers of the DataLoader), so that loading overlaps with the step");
    return;
  }
  const Queue queue = queue_of(in);
  f.evidence("batches_blocked_share", queue.blocked).evidence("batches_unfinished_share", queue.unfinished);
  const bool blocks = queue.blocked >= in.limits->input_head_of_line_share;
  const auto slow = blocks ? slow_worker(in) : std::nullopt;
  if (slow) {
    tell_worker(*slow, f);
  } else if (blocks) {
    f.caused_by(Cause::kHeadOfLine)
        .action(
            "Single slow samples hold back batches that are finished: raise prefetch_factor, set in_order=False, or "
            "make "
            "those samples cheaper; more workers do not help");
  } else if (queue.unfinished >= in.limits->input_unfinished_share) {
    f.caused_by(Cause::kRateDeficit)
        .action(
            "Make batches arrive faster: more loader workers where cores are idle, cheaper transforms, faster storage");
  } else {
    f.action(
        "The loader's queue does not tell what holds the batches back: see what its workers are at while it is waited "
        "(py-spy dump), and how fast it is without a model");
  }
}

Finding handed_over(const RuleInput& in, double share, double per_step_ms,
                    const std::function<double(const Cell&)>& ms_of) {
  const bool usual = per_step_ms < in.limits->input_handover_ms;
  FindingBuilder f = in.of_job(FindingKind::kInputBound, Category::kInputWait, share,
                               usual ? Severity::kInfo : in.share_severity(share), ms_of);
  f.caused_by(Cause::kHandover)
      .title(formatted("The loader is ahead, but taking a batch over from its worker costs {} per step ({})",
                       format_ms(per_step_ms), format_percent(share)));
  const std::string pinned = in.on_device() ? " or take them over in another thread (pin_memory=True)" : "";
  f.action(
      "Hand over fewer and larger tensors per batch: each one comes through a file of its own, so join lists of "
      "small ones in collate_fn" +
      pinned + "; cheap samples need no workers");
  return f;
}

}  // namespace

void judge_input(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const auto starved_ms = [&](const Cell& cell) { return ahead(in, cell) ? 0.0 : input_ms(cell); };
  const auto handover_ms = [&](const Cell& cell) { return ahead(in, cell) ? input_ms(cell) : 0.0; };
  const double starved = in.share_of_job(starved_ms), handover = in.share_of_job(handover_ms);
  if (const Severity severity = in.share_severity(starved); severity != Severity::kInfo) {
    FindingBuilder f = in.of_job(FindingKind::kInputBound, Category::kInputWait, starved, severity, starved_ms,
                                 in.hidden_by_queue(starved));
    f.title(formatted("Training waits {} of the time for its input, {} per step", format_percent(starved),
                      format_ms(in.per_step_ms(starved_ms))));
    tell_cause(in, f);
    f.saves(
        Change{.usual = removal_of(Category::kInputWait, [&](size_t, const Cell& cell) { return starved_ms(cell); }),
               .goes_on = f->cause == Cause::kInProcess});
    out.push_back(f);
  } else if (in.share_severity(handover) != Severity::kInfo) {
    out.push_back(handed_over(in, handover, in.per_step_ms(handover_ms), handover_ms));
  }
}

}  // namespace stepscope
