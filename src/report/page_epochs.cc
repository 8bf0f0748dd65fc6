#include <algorithm>

#include "base/text_format.h"
#include "report/figures.h"
#include "report/page_blocks.h"

namespace stepscope {
namespace {

constexpr Category kShown[] = {Category::kInputWait, Category::kEpochStart, Category::kValidation,
                               Category::kCheckpoint, Category::kCompile};
constexpr size_t kFirst = 2;

std::vector<const EpochStat*> epochs_to_show(const Snapshot& s, size_t limit) {
  std::vector<const EpochStat*> out;
  for (size_t i = 0; i < s.epochs.size(); ++i)
    if (s.epochs.size() <= limit || i < kFirst || i + limit >= s.epochs.size() + kFirst) out.push_back(&s.epochs[i]);
  return out;
}

double share_of(const EpochStat& e, Category category) {
  double sum = 0;
  for (int64_t ns : e.ledger) sum += static_cast<double>(ns);
  return sum > 0 ? static_cast<double>(e.ledger[index(category)]) / sum : 0;
}

}  // namespace

// The first epochs, which differ by what is cold or compiled, and the newest. Columns of time that is nil in all of
// them are left out.
Block epochs_block(const Snapshot& s, const PageSize& size) {
  Block block{"Epochs", "shares of the epoch's time, mean over ranks; what follows the last step is not in it", {}};
  const std::vector<const EpochStat*> epochs = epochs_to_show(s, size.epochs);
  if (epochs.empty()) return block;
  const auto any = [&](auto test) { return std::any_of(epochs.begin(), epochs.end(), test); };
  std::vector<Category> columns;
  for (Category c : kShown)
    if (any([&](const EpochStat* e) { return share_of(*e, c) >= 0.001; })) columns.push_back(c);
  const bool rates = any([](const EpochStat* e) { return e->samples_per_s.has_value(); });

  Table table{{{.title = "Epoch"}, {.title = "Steps"}, {.title = "Time"}, {.title = "Step", .unit = "ms"}}, {}};
  const auto add_column = [&](std::string title) {
    table.columns.push_back({.title = std::move(title), .priority = static_cast<int>(table.columns.size())});
  };
  for (Category c : columns) add_column(capitalized(category_label(name(c))));
  if (rates) add_column("Samples/s");
  for (const EpochStat* e : epochs) {
    std::vector<std::string> cells = {formatted("{}", e->epoch), format_count(e->steps),
                                      format_seconds(e->wall_ms * 1e-3),
                                      format_ms_bare(e->steps ? MaybeNumber(e->wall_ms / e->steps) : std::nullopt)};
    for (Category c : columns) cells.push_back(format_share(share_of(*e, c)));
    if (rates) cells.push_back(format_value("", e->samples_per_s));
    table.add(std::move(cells));
  }
  block.elements.emplace_back(std::move(table));
  if (epochs.size() < s.epochs_count)
    block.elements.emplace_back(
        Lines{{formatted("{} of {} epochs: the first and the newest.", epochs.size(), s.epochs_count)}, Tone::kSoft});
  return block;
}

}  // namespace stepscope
