#include "report/epoch_rows.h"

#include <algorithm>

#include "base/text_format.h"
#include "report/figures.h"

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

EpochTable epoch_table(const Snapshot& s, size_t limit) {
  EpochTable table;
  const std::vector<const EpochStat*> epochs = epochs_to_show(s, limit);
  if (epochs.empty()) return table;
  const auto any = [&](auto test) { return std::any_of(epochs.begin(), epochs.end(), test); };
  std::vector<Category> columns;
  for (Category c : kShown)
    if (any([&](const EpochStat* e) { return share_of(*e, c) >= 0.001; })) columns.push_back(c);
  const bool rates = any([](const EpochStat* e) { return e->samples_per_s.has_value(); });

  table.titles = {"Epoch", "Steps", "Time", "Step ms"};
  for (Category c : columns) {
    std::string label = category_label(name(c));
    if (label[0] >= 'a' && label[0] <= 'z') label[0] = static_cast<char>(label[0] - 'a' + 'A');
    table.titles.push_back(std::move(label));
  }
  if (rates) table.titles.push_back("Samples/s");
  for (const EpochStat* e : epochs) {
    std::vector<std::string> row = {formatted("{}", e->epoch), format_count(e->steps),
                                    format_seconds(e->wall_ms * 1e-3),
                                    format_ms_bare(e->steps ? MaybeNumber(e->wall_ms / e->steps) : std::nullopt)};
    for (Category c : columns) row.push_back(format_share(share_of(*e, c)));
    if (rates) row.push_back(format_value("", e->samples_per_s));
    table.rows.push_back(std::move(row));
  }
  if (epochs.size() < s.epochs_count)
    table.note = formatted("{} of {} epochs: the first and the newest", epochs.size(), s.epochs_count);
  return table;
}

}  // namespace stepscope
