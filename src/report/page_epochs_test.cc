#include <gtest/gtest.h>

#include "example_snapshot.h"
#include "report/page_blocks.h"
#include "report/summary_html.h"
#include "report/summary_text.h"

namespace stepscope {
namespace {

Snapshot with_epochs(int count) {
  Snapshot s = examples::straggler();
  for (int i = 0; i < count; ++i) {
    EpochStat e;
    e.epoch = i;
    e.first_step = static_cast<uint32_t>(100 * i), e.last_step = e.first_step + 99, e.steps = 100;
    e.wall_ms = i == 0 ? 9000 : 5000;
    e.ledger[index(Category::kForward)] = 4'000'000'000;
    e.ledger[index(Category::kInputWait)] = i == 0 ? 5'000'000'000 : 1'000'000'000;
    e.samples_per_s = 100 * 32 / (e.wall_ms * 1e-3);
    s.epochs.push_back(e);
  }
  s.epochs_count = static_cast<uint32_t>(count);
  return s;
}

std::vector<std::string> titles(const Table& table) {
  std::vector<std::string> out;
  for (const Column& c : table.columns) out.push_back(c.title);
  return out;
}

TEST(EpochsBlock, OneLineEachWithTheTimeThatSomeEpochHas) {
  const Block block = epochs_block(with_epochs(3), {.epochs = 8});
  ASSERT_EQ(block.elements.size(), 1u) << "no note where all are shown";
  const Table& table = std::get<Table>(block.elements[0]);
  EXPECT_EQ(titles(table), (std::vector<std::string>{"Epoch", "Steps", "Time", "Step", "Input wait", "Samples/s"}));
  EXPECT_EQ(table.columns[3].unit, "ms");
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].cells, (std::vector<std::string>{"0", "100", "9.00 s", "90.0", "55.6 %", "356"}));
  EXPECT_EQ(table.rows[2].cells, (std::vector<std::string>{"2", "100", "5.00 s", "50.0", "20.0 %", "640"}));
}

TEST(EpochsBlock, OfManyTheFirstAndTheNewest) {
  const Block block = epochs_block(with_epochs(90), {.epochs = 6});
  std::vector<std::string> shown;
  for (const Row& row : std::get<Table>(block.elements.at(0)).rows) shown.push_back(row.cells[0]);
  EXPECT_EQ(shown, (std::vector<std::string>{"0", "1", "86", "87", "88", "89"}));
  EXPECT_EQ(std::get<Lines>(block.elements.at(1)).items[0], "6 of 90 epochs: the first and the newest.");
}

TEST(EpochsBlock, IsLeftOutWhereEpochsAreNotKnown) {
  EXPECT_TRUE(epochs_block(examples::straggler(), {}).elements.empty());
  EXPECT_EQ(summary_text(examples::straggler()).find("Epochs"), std::string::npos);
  EXPECT_EQ(summary_html(examples::straggler()).find("Epochs"), std::string::npos);
  EXPECT_NE(summary_text(with_epochs(2)).find("Epochs"), std::string::npos);
  EXPECT_NE(summary_html(with_epochs(2)).find("<h3>Epochs"), std::string::npos);
}

}  // namespace
}  // namespace stepscope
