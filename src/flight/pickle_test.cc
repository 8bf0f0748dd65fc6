#include "flight/pickle.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "flight_job.h"

namespace stepscope::flight {
namespace {

using nlohmann::json;
using namespace std::string_literals;

std::string message(const std::string& bytes, const PlainLimits& limits = {}) {
  const auto value = parse_pickle(bytes, limits);
  EXPECT_FALSE(value) << (value ? value->dump() : "");
  return value ? "" : value.error().message;
}

TEST(Pickle, ReadsWhatPythonWrites) {
  // pickle.dumps({'a': [1, -2, 3.5, None, True], 'b': ('x', 2**40), 'c': {}}, protocol=4), and protocol=2
  const std::string four =
      "\x80\x04\x95\x37\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00N\x88"
      "e\x8c\x01"
      "b\x94\x8c\x01x\x94\x8a\x06\x00\x00\x00\x00\x00\x01\x86\x94\x8c\x01"
      "c\x94}\x94u."s;
  const json expected = {{"a", {1, -2, 3.5, nullptr, true}}, {"b", {"x", int64_t{1} << 40}}, {"c", json::object()}};
  const auto value = parse_pickle(four);
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(*value, expected);
  const std::string two =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00N\x88"
      "eX\x01\x00\x00\x00"
      "bq\x03X\x01\x00\x00\x00xq\x04\x8a\x06\x00\x00\x00\x00\x00\x01\x86q\x05X\x01\x00\x00\x00"
      "cq\x06}q\x07u."s;
  ASSERT_TRUE(parse_pickle(two));
  EXPECT_EQ(*parse_pickle(two), expected);
}

TEST(Pickle, EveryInstructionThatLoadsOrCallsIsRefusedByName) {
  EXPECT_EQ(message("\x80\x02"
                    "cos\nsystem\n"),
            "the pickle loads or calls a class (GLOBAL at byte 2); only plain data is read");
  const std::pair<char, const char*> refused[] = {
      {'c', "GLOBAL"},  {'\x93', "STACK_GLOBAL"}, {'R', "REDUCE"},       {'b', "BUILD"},  {'i', "INST"},
      {'o', "OBJ"},     {'\x81', "NEWOBJ"},       {'\x92', "NEWOBJ_EX"}, {'P', "PERSID"}, {'Q', "BINPERSID"},
      {'\x82', "EXT1"}, {'\x83', "EXT2"},         {'\x84', "EXT4"}};
  for (const auto& [op, name] : refused) {
    EXPECT_NE(message("\x80\x02N"s + op + ".").find("("s + name + " at byte"), std::string::npos) << name;
  }
}

TEST(Pickle, WhatIsMalformedIsSaidWithItsPlace) {
  EXPECT_EQ(message("\x80\x02"s), "the pickle ends before its STOP (byte 2)");
  EXPECT_EQ(message("\x80\x02X\x05\x00\x00\x00"
                    "abc"s),
            "the pickle is cut off (byte 2)");
  EXPECT_EQ(message("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s), "the pickle is cut off (byte 2)");
  EXPECT_EQ(message("\x80\x02"
                    "e."s),
            "the pickle misses a MARK (byte 2)");
  EXPECT_EQ(message("\x80\x02"
                    "s."s),
            "the pickle takes from an empty stack (byte 2)");
  EXPECT_EQ(message("\x80\x02K\x01"
                    "Na."s),
            "the pickle appends to what is no list (byte 5)");
  EXPECT_EQ(message("\x80\x02](Nu."s), "the pickle sets items of what is no dict (byte 5)");
  EXPECT_EQ(message("\x80\x02}(Nu."s), "the pickle sets items of what is no dict (byte 5)");
  EXPECT_EQ(message("\x80\x02h\x07."s), "the pickle refers to a value that is not there (byte 2)");
  EXPECT_EQ(message("\x80\x02\x8a\x09"
                    "123456789."s),
            "the pickle holds a number of more than 64 bits (byte 2)");
  EXPECT_EQ(message("\x80\x02NN."s), "the pickle does not end with one value (byte 4)");
  EXPECT_EQ(message("\x80\x02(."s), "the pickle does not end with one value (byte 3)");
  EXPECT_EQ(message("\x80\x02}K\x01Ns."s), "the pickle holds a dict whose key is no text");
  EXPECT_EQ(message("\x80\x02I1\n."s),
            "the pickle holds instruction 0x49, which plain data of torch does not (byte 2)");
}

TEST(Pickle, AValueThatHoldsItselfEnds) {
  EXPECT_EQ(message("\x80\x02]q\x00h\x00"
                    "a."s),
            "the pickle nests deeper than 32");
}

TEST(Pickle, AFewBytesThatMeanBillionsOfValuesEnd) {
  std::string bytes = "\x80\x02]q\x00."s;
  bytes.pop_back();
  for (char level = 1; level < 25; ++level) {  // each list holds the one before ten times
    bytes += "]q"s + level + "(";
    for (int i = 0; i < 10; ++i) bytes += "h"s + static_cast<char>(level - 1);
    bytes += "e";
  }
  bytes += ".";
  EXPECT_NE(message("\x80\x02("s + bytes.substr(2, bytes.size() - 3) + "l."), "");
  EXPECT_EQ(message("\x80\x02("s + bytes.substr(2, bytes.size() - 3) + "l.", {.depth = 64, .values = 10000}),
            "the pickle holds more than 10000 values");
}

json plain(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 7 : 5);
  if (kind == 0) return nullptr;
  if (kind == 1) return *rc::gen::arbitrary<bool>();
  if (kind == 2) return *rc::gen::arbitrary<int64_t>();
  if (kind == 3) return *rc::gen::inRange(-300, 70000);
  if (kind == 4) return *rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~'));
  json out = kind == 5 ? json::array() : json::object();
  const int size = *rc::gen::inRange(0, 4);
  for (int i = 0; i < size; ++i) {
    if (kind == 5)
      out.push_back(plain(depth - 1));
    else
      out[std::to_string(i)] = plain(depth - 1);
  }
  return out;
}

RC_GTEST_PROP(Pickle, AnyPlainValueComesBack, ()) {
  const json value = plain(4);
  const auto back = parse_pickle(examples::pickled(value));
  RC_ASSERT(back);
  RC_ASSERT(*back == value);
}

RC_GTEST_PROP(Pickle, NoPrefixIsTakenForTheWhole, ()) {
  const std::string bytes = examples::pickled(plain(3));
  RC_ASSERT(!parse_pickle(std::string_view(bytes).substr(0, *rc::gen::inRange<size_t>(0, bytes.size()))));
}

}  // namespace
}  // namespace stepscope::flight
