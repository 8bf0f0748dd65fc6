// What is handed over by the Arrow C interfaces is laid out as the specification says, and freed once, whatever the
// consumer does with it. Run under AddressSanitizer (`make asan`): there a second release or a leak ends the test.
#include "tables/arrow_export.h"

#include <gtest/gtest.h>

#include <thread>

#include "arrow_consumer.h"
#include "tables/item_source.h"

namespace stepscope::tables {
namespace {

using testing::Held;
using testing::HeldArray;
using testing::HeldSchema;
using testing::HeldStream;
using testing::is_null;
using testing::list;
using testing::metadata_of;
using testing::read_all;
using testing::text;
using testing::value;

struct Item {
  int32_t small = 0;
  std::optional<int64_t> large;
  double real = 0;
  std::string words;
  std::vector<int> ranks;
  Word colour;
  bool on = false;
};

std::vector<ItemColumn<Item>> item_columns() {
  std::vector<ItemColumn<Item>> out = {
      column<Item>("small", "", [](const Item& i) { return i.small; }),
      column<Item>("large_bytes", "bytes", [](const Item& i) { return i.large; }),
      column<Item>("real_ms", "ms", [](const Item& i) { return i.real; }),
      column<Item>("words", "", [](const Item& i) { return std::string_view(i.words); }),
      column<Item>("ranks", "rank", [](const Item& i) { return std::span<const int>(i.ranks); }),
      column<Item>("colour", "", [](const Item& i) { return i.colour; }),
      column<Item>("on", "", [](const Item& i) { return i.on; }),
  };
  const std::vector<std::string> colours = {"red", "green"};
  out[5].field.words = word_list(colours);
  return out;
}

std::vector<Item> items(size_t count) {
  std::vector<Item> out;
  for (size_t i = 0; i < count; ++i) {
    Item item;
    item.small = static_cast<int32_t>(i), item.words = i % 2 ? "odd" : "", item.on = i % 3 == 0;
    if (i % 4) item.large = static_cast<int64_t>(i) << 33;
    item.real = i % 5 ? static_cast<double>(i) / 4 : std::numeric_limits<double>::quiet_NaN();
    item.ranks.assign(i % 3, static_cast<int>(i));
    item.colour = {static_cast<int64_t>(i % 2)};
    out.push_back(item);
  }
  return out;
}

using Pages = std::vector<Result<std::vector<Item>>>;

std::unique_ptr<BatchSource> source(Pages pages) {
  return std::make_unique<ItemSource<Item>>(
      item_columns(), [pages = std::move(pages), at = size_t{0}]() mutable -> Result<std::optional<std::vector<Item>>> {
        if (at == pages.size()) return std::nullopt;
        auto& page = pages[at++];
        if (!page) return std::unexpected(page.error());
        return std::move(*page);
      });
}

HeldStream stream(Pages pages) {
  HeldStream out;
  export_stream(source(std::move(pages)), {{"table", "items"}}, out.get());
  return out;
}

TEST(ArrowExport, ASchemaSaysTypesUnitsAndWhatMayBeMissing) {
  HeldStream s = stream({});
  HeldSchema schema;
  ASSERT_EQ(s->get_schema(s.get(), schema.get()), 0);
  EXPECT_STREQ(schema->format, "+s");
  EXPECT_EQ(metadata_of(*schema), (std::map<std::string, std::string>{{"table", "items"}}));
  ASSERT_EQ(schema->n_children, 7);
  std::string formats;
  for (int64_t c = 0; c < 7; ++c) formats += schema->children[c]->format + std::string(" ");
  EXPECT_EQ(formats, "i l g u +l i b ");
  EXPECT_EQ(metadata_of(*schema->children[1]).at("unit"), "bytes");
  EXPECT_TRUE(metadata_of(*schema->children[3]).empty());
  EXPECT_EQ(schema->children[0]->flags, 0);
  EXPECT_EQ(schema->children[1]->flags, ARROW_FLAG_NULLABLE);
  EXPECT_EQ(schema->children[2]->flags, ARROW_FLAG_NULLABLE);
  EXPECT_STREQ(schema->children[5]->dictionary->format, "u");
  EXPECT_STREQ(schema->children[4]->children[0]->name, "item");
}

TEST(ArrowExport, ValuesStandWhereTheSpecificationWantsThem) {
  const std::vector<Item> was = items(1000);
  HeldStream s = stream({was});
  const testing::ReadStream got = read_all(s.get());
  ASSERT_EQ(got.batches.size(), 1u);
  const ArrowArray& batch = *got.batches[0];
  ASSERT_EQ(batch.length, 1000);
  const auto column = [&](int c) -> const ArrowArray& { return *batch.children[c]; };
  EXPECT_EQ(column(0).null_count, 0);
  EXPECT_EQ(column(1).null_count, 250);
  for (int64_t i = 0; i < batch.length; ++i) {
    const Item& item = was[static_cast<size_t>(i)];
    EXPECT_EQ(value<int32_t>(column(0), i), item.small);
    ASSERT_EQ(is_null(column(1), i), !item.large);
    if (item.large) {
      EXPECT_EQ(value<int64_t>(column(1), i), *item.large);
    }
    ASSERT_EQ(is_null(column(2), i), std::isnan(item.real));
    if (!std::isnan(item.real)) {
      EXPECT_EQ(value<double>(column(2), i), item.real);
    }
    EXPECT_EQ(text(column(3), i), item.words);
    EXPECT_EQ(list(column(4), i), std::vector<int32_t>(item.ranks.begin(), item.ranks.end()));
    EXPECT_EQ(text(*column(5).dictionary, value<int32_t>(column(5), i)), i % 2 ? "green" : "red");
  }
  EXPECT_EQ(got.numbers("on")[3], 1);
  EXPECT_EQ(got.numbers("on")[4], 0);
}

TEST(ArrowExport, BatchesAreBoundedAndPagesRunTogether) {
  HeldStream s = stream({items(kBatchRows - 10), items(0), items(30)});
  const testing::ReadStream got = read_all(s.get());
  ASSERT_EQ(got.batches.size(), 2u);
  EXPECT_EQ((*got.batches[0]).length, static_cast<int64_t>(kBatchRows));
  EXPECT_EQ((*got.batches[1]).length, 20);
  EXPECT_EQ(got.numbers("small").back(), 29);

  std::vector<Item> long_texts(40);
  for (Item& item : long_texts) item.words = std::string(1u << 20, 'x');
  HeldStream other = stream({long_texts});
  EXPECT_EQ(read_all(other.get()).batches.size(), 3u);
}

TEST(ArrowExport, ColumnsOfZerosShareOneBlock) {
  std::vector<Item> zeros(100);
  HeldStream s = stream({zeros});
  const testing::ReadStream got = read_all(s.get());
  const ArrowArray& batch = *got.batches.at(0);
  EXPECT_NE(batch.children[2]->buffers[1], nullptr);
  Column column(ColumnType::kReal);
  column.grow_zeros(50);
  column.put(0.5);
  EXPECT_EQ(column.real(49), 0);
  EXPECT_EQ(column.real(50), 0.5);

  Batch none;
  none.rows = 100;
  for (int i = 0; i < 2; ++i) none.columns.emplace_back(ColumnType::kReal).grow_zeros(100);
  HeldArray array;
  export_batch({{"a", "", ColumnType::kReal}, {"b", "", ColumnType::kReal}}, std::move(none), array.get());
  EXPECT_EQ(array->children[0]->buffers[1], array->children[1]->buffers[1]);
  EXPECT_EQ(value<double>(*array->children[1], 99), 0);
}

TEST(ArrowExport, WhatIsReleasedTwiceIsFreedOnce) {
  HeldStream s = stream({items(10)});
  HeldArray batch;
  HeldSchema schema;
  ASSERT_EQ(s->get_schema(s.get(), schema.get()), 0);
  ASSERT_EQ(s->get_next(s.get(), batch.get()), 0);
  const auto twice = [](auto* what) {
    const auto release = what->release;
    release(what);
    EXPECT_EQ(what->release, nullptr);
    release(what);
    EXPECT_EQ(what->release, nullptr);
  };
  twice(batch.get());
  twice(schema.get());
  twice(s.get());
}

TEST(ArrowExport, ArraysOutliveTheStreamAndEachOther) {
  HeldArray kept, lists;
  {
    HeldStream s = stream({items(100), items(kBatchRows)});
    HeldArray batch;
    ASSERT_EQ(s->get_next(s.get(), batch.get()), 0);
    kept = HeldArray(batch->children[3]);
    lists = HeldArray(batch->children[4]);
    std::thread([&] { const HeldArray gone = std::move(batch); }).join();
  }  // half way through
  EXPECT_EQ(text(*kept, 99), "odd");
  EXPECT_EQ(list(*lists, 98), (std::vector<int32_t>{98, 98}));
  const HeldArray items_of_lists(lists->children[0]);
  lists = HeldArray();
  EXPECT_EQ(value<int32_t>(*items_of_lists, 0), 1);
}

TEST(ArrowExport, ADictionaryOutlivesItsBatch) {
  HeldArray words;
  {
    HeldStream s = stream({items(4)});
    HeldArray batch;
    ASSERT_EQ(s->get_next(s.get(), batch.get()), 0);
    words = HeldArray(batch->children[5]->dictionary);
  }
  EXPECT_EQ(text(*words, 1), "green");
}

TEST(ArrowExport, AnErrorIsToldAndNothingMoreComes) {
  HeldStream s = stream({items(3), fail("run.db: it burns"), items(3)});
  HeldArray batch;
  EXPECT_EQ(s->get_next(s.get(), batch.get()), EIO);
  EXPECT_EQ(batch->release, nullptr);
  EXPECT_STREQ(s->get_last_error(s.get()), "run.db: it burns");
  EXPECT_EQ(s->get_next(s.get(), batch.get()), EIO);
}

TEST(ArrowExport, AnEmptyTableHasASchemaAndNoBatch) {
  HeldStream s = stream({});
  const testing::ReadStream got = read_all(s.get());
  EXPECT_EQ(got.code, 0);
  EXPECT_TRUE(got.batches.empty());
  EXPECT_EQ((*got.schema).n_children, 7);
}

TEST(ArrowExport, TextsAreValidUtf8) {
  std::vector<Item> odd(1);
  odd[0].words = "caf\xc3\xa9 \xff\xfe";
  HeldStream s = stream({odd});
  EXPECT_EQ(read_all(s.get()).texts("words"), std::vector<std::string>{"café ??"});
}

}  // namespace
}  // namespace stepscope::tables
