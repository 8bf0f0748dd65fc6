// Every column comes back exactly; damaged bytes give an Error and nothing worse.
#include "store/column_codec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <random>

#include "store/varint.h"

namespace stepscope::store {
namespace {

std::vector<int64_t> round_trip(const std::vector<int64_t>& values, size_t length) {
  ColumnCodec codec;
  std::vector<int64_t> out;
  const std::string bytes = codec.encode(values, length);
  const Status status = codec.decode(bytes, values.size(), length, out);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return out;
}

RC_GTEST_PROP(ColumnCodec, AnyColumnComesBack, (const std::vector<int64_t>& run, uint8_t series)) {
  std::vector<int64_t> values;
  for (unsigned s = 0; s < series % 5u + 1; ++s)
    for (int64_t v : run) values.push_back(v + static_cast<int64_t>(s % 3));
  RC_ASSERT(round_trip(values, std::max<size_t>(1, run.size())) == values);
}

TEST(ColumnCodec, ExtremesComeBack) {
  const int64_t lowest = std::numeric_limits<int64_t>::min(), highest = std::numeric_limits<int64_t>::max();
  for (size_t length : {1u, 2u, 3u, 6u}) {
    const std::vector<int64_t> values = {lowest, highest, 0, -1, highest, lowest};
    EXPECT_EQ(round_trip(values, length), values);
  }
  EXPECT_EQ(round_trip({}, 1), std::vector<int64_t>{});
}

TEST(ColumnCodec, NoiseTakesWhatItsEntropyIs) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 100);
  std::vector<int64_t> values;
  for (int i = 0; i < 8192; ++i) values.push_back(20000 + static_cast<int64_t>(noise(random)));
  // log2(sqrt(2 pi e) * 100) = 8.7 bits a value.
  ColumnCodec codec;
  const double bits = 8.0 * static_cast<double>(codec.encode(values, 1024).size()) / 8192;
  EXPECT_GT(bits, 8.6);
  EXPECT_LT(bits, 9.6);
}

TEST(ColumnCodec, WhatRepeatsTakesNothing) {
  ColumnCodec codec;
  EXPECT_LE(codec.encode(std::vector<int64_t>(8192, 1234567), 1024).size(), 8u);  // a constant
  std::vector<int64_t> counting, per_rank, per_row;
  std::mt19937_64 random(5);
  for (int64_t i = 0; i < 8192; ++i) {
    counting.push_back(1'000'000'000'000 + 40 * (i % 1024));
    per_rank.push_back(static_cast<int64_t>(i / 1024) * 1'000'003);
    per_row.push_back(i < 1024 ? static_cast<int64_t>(random() % 256) : per_row[static_cast<size_t>(i) - 1024]);
  }
  EXPECT_LE(codec.encode(counting, 1024).size(), 128u);        // steps of one size
  EXPECT_LE(codec.encode(per_rank, 1024).size(), 64u);         // each rank its own constant
  EXPECT_LE(codec.encode(per_row, 1024).size(), 1024u + 200);  // all ranks alike: one rank's worth
}

RC_GTEST_PROP(ColumnCodec, DamageIsAnErrorOrAnotherColumn, (uint64_t seed)) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> values;
  for (int i = 0; i < 300; ++i) values.push_back(static_cast<int64_t>(random() % (1u << (random() % 24))));
  ColumnCodec codec;
  std::string bytes = codec.encode(values, 100);
  for (unsigned i = 0; i < 1 + seed % 8; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
  if (seed % 3 == 0) bytes.resize(random() % bytes.size());
  std::vector<int64_t> out;
  const Status status = codec.decode(bytes, 300, 100, out);
  if (status)
    RC_ASSERT(out.size() == 300u);
  else
    RC_ASSERT(status.error().message.starts_with("damaged column"));
}

TEST(ColumnCodec, RefusesWhatCannotBe) {
  ColumnCodec codec;
  std::vector<int64_t> out;
  const std::string good = codec.encode(std::vector<int64_t>{1, 2, 300}, 3);
  EXPECT_TRUE(codec.decode(good, 3, 3, out));
  EXPECT_FALSE(codec.decode(good + "x", 3, 3, out));  // bytes left over
  EXPECT_FALSE(codec.decode(good, 4, 4, out));        // another size
  EXPECT_FALSE(codec.decode(good, 3, 0, out));
  EXPECT_FALSE(codec.decode(good, kMaxColumnValues + 1, 1, out));
  EXPECT_FALSE(codec.decode("", 3, 3, out));
  EXPECT_FALSE(codec.decode(std::string("\x10\x09\x00", 3), 1, 1, out));      // nine bytes wide
  EXPECT_FALSE(codec.decode(std::string("\x14\x00\x00", 3), 1, 1, out));      // no such predictor
  EXPECT_FALSE(codec.decode(std::string("\x20\x00\x00", 3), 1, 1, out));      // no such format
  EXPECT_FALSE(codec.decode(std::string("\x10\x01\x00\x07", 4), 1, 1, out));  // no such plane mode
}

RC_GTEST_PROP(Varint, ComesBack, (uint64_t value)) {
  std::string bytes;
  put_varint(bytes, value);
  std::string_view in = bytes;
  RC_ASSERT(take_varint(in) == value);
  RC_ASSERT(in.empty());
  RC_ASSERT(zigzag(unzigzag(value)) == value);
}

TEST(Varint, RefusesWhatDoesNotEndOrFit) {
  for (const std::string& bytes :
       {std::string(), std::string("\x80"), std::string(10, '\xff'), std::string(9, '\x80') + "\x02"}) {
    std::string_view in = bytes;
    EXPECT_FALSE(take_varint(in));
  }
}

}  // namespace
}  // namespace stepscope::store
