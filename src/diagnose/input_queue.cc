#include "diagnose/input_queue.h"

#include <algorithm>

#include "base/text_format.h"

namespace stepscope {
namespace {

// The get of queue.Queue or of a multiprocessing queue, called by the program itself.
bool in_queue(const CodeSample& sample) {
  const CodeLine& at = sample.callee;
  const std::string function = at.function.substr(at.function.rfind('.') + 1);
  return function == "get" && (at.file.ends_with("/queue.py") || at.file.ends_with("/multiprocessing/queues.py"));
}

bool fed_by_a_loader(const std::map<int, RankLife>& lives, int rank) {
  const auto life = lives.find(rank);
  return life == lives.end() || !life->second.training_loaders.empty();
}

bool waits_in_queue(const Tally& t) { return t.hits >= kFewest && t.hits >= kDecisive * t.in_scope; }

}  // namespace

void name_input_queue(Finding& f, const CodeSamples& samples, const std::map<int, RankLife>& lives) {
  const bool straggler = f.kind == FindingKind::kStraggler;
  if ((!straggler && f.kind != FindingKind::kWaitHeavy) || f.phase != name(Category::kUnattributed)) return;
  double others = 0, own = 0;
  for (const auto& [rank, list] : samples) {
    const Tally met = tally(list, scope_of(Category::kUnattributed), in_queue);
    if (straggler && f.ranks != std::vector<int>{rank}) {
      others = std::max(others, met.share());
      continue;
    }
    if (!waits_in_queue(met) || fed_by_a_loader(lives, rank)) return;
    own = met.share();
  }
  if (own <= 0 || (straggler && others > kDecisive * own)) return;
  const Finding input = Finding::of(straggler ? FindingKind::kInputStraggler : FindingKind::kInputBound);
  f.kind = input.kind, f.section = input.section;
  const size_t who_waits = f.title.find("; ");
  const std::string waits = straggler && who_waits != f.title.npos ? f.title.substr(who_waits) : "";
  f.title = straggler ? formatted("Rank {} is late waiting for its input, in a queue{}", f.ranks.front(), waits)
                      : formatted("{} of the time is waiting for input, in a queue", format_percent(f.cost_share));
  f.action =
      "What fills this queue is late: see its thread or process, what it reads, and whether there are more of them to "
      "be "
      "had";
}

}  // namespace stepscope
