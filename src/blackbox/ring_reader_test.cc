#include "blackbox/ring_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "blackbox/ring_writer.h"
#include "scratch_folder.h"
#include "sealed_record.h"

namespace stepscope::blackbox {
namespace {

constexpr uint64_t kMs = 1'000'000;

class RingReaderTest : public ::testing::Test {
 protected:
  void SetUp() override { start(64); }

  void start(uint64_t capacity) {
    path_ = folder_.file(std::to_string(capacity) + ".ring");
    auto created = RingWriter::create(path_, {.capacity = capacity, .min_capacity = 1, .names_bytes = 1024});
    ASSERT_TRUE(created.has_value()) << created.error().message;
    writer_ = std::move(*created);
  }

  void put(int count) {
    for (int i = 0; i < count; ++i) writer_->put(sealed(0, written_++));
  }

  RingReader open() {
    auto reader = RingReader::open(path_);
    EXPECT_TRUE(reader.has_value()) << reader.error().message;
    return std::move(*reader);
  }

  std::string refusal() {
    auto reader = RingReader::open(path_);
    return reader ? "" : reader.error().message;
  }

  // Overwrites bytes of the file behind everybody's back.
  template <class T>
  void poke(size_t at, const T& value) {
    Fd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), &value, sizeof value, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof value));
  }

  size_t slot_at(uint64_t index) const { return kHeaderBytes + 1024 + index % writer_->capacity() * kRecordBytes; }

  // What a writer leaves that dies between claiming and publishing.
  void claim_without_publishing(bool begun) {
    const uint64_t index = writer_->header().head.fetch_add(1);
    if (begun) poke(slot_at(index), 2 * index + 1);
    written_++;
  }

  testing::ScratchFolder folder_;
  std::string path_;
  std::unique_ptr<RingWriter> writer_;
  uint64_t written_ = 0;
  std::vector<Record> out_;
};

TEST_F(RingReaderTest, GivesBackWhatWasPut) {
  const Record r{.time_ns = 1, .kind = 0x0203, .flags = 4, .thread = 5, .a = 6, .b = 7, .c = 8, .d = 9};
  writer_->put(r);
  auto reader = open();
  const ReadStats pass = reader.read(out_, 100, 1);
  EXPECT_EQ(pass.read, 1u);
  ASSERT_EQ(out_.size(), 1u);
  EXPECT_EQ(std::memcmp(&out_[0], &r, sizeof r), 0);
  EXPECT_EQ(reader.read(out_, 100, 2).read, 0u) << "a record is delivered once";
}

void answer_with(StackBox& box, uint32_t answered, std::string_view text) {
  box.answered = answered;
  box.text_bytes = static_cast<uint32_t>(text.size());
  text.copy(box.text, sizeof box.text);
}

TEST_F(RingReaderTest, GivesTheStackThatWasAskedFor) {
  RingReader reader = open();
  EXPECT_FALSE(reader.stack().has_value());
  EXPECT_EQ(reader.stack_signal(), 0);
  writer_->header().stack.signal = 41;
  answer_with(writer_->header().stack, 16, "61 after my train.py\n9 <module> \"\n");
  EXPECT_EQ(reader.stack_signal(), 41);
  const auto stack = reader.stack();
  ASSERT_TRUE(stack.has_value());
  EXPECT_EQ(stack->request, 7u);
  ASSERT_EQ(stack->frames.size(), 2u);
  EXPECT_EQ(stack->frames[0].line, 61);
  EXPECT_EQ(stack->frames[0].function, "after");
  EXPECT_EQ(stack->frames[0].file, "my train.py");
  EXPECT_EQ(stack->frames[1].file, "my train.py");
}

TEST_F(RingReaderTest, AStackThatIsBeingWrittenOrScribbledIsNone) {
  RingReader reader = open();
  StackBox& box = writer_->header().stack;
  answer_with(box, 15, "61 after train.py\n");
  EXPECT_FALSE(reader.stack().has_value());
  box.answered = 16;
  box.text_bytes = kStackTextBytes + 1;
  EXPECT_FALSE(reader.stack().has_value());
  answer_with(box, 16, std::string_view("61 a\x1b[1m t\x01.py\nno frame", 24));
  ASSERT_TRUE(reader.stack().has_value());
  ASSERT_EQ(reader.stack()->frames.size(), 1u);
  EXPECT_EQ(reader.stack()->frames[0].function, "a [1m");
  box.signal = 4000;
  EXPECT_EQ(reader.stack_signal(), 0);
}

TEST_F(RingReaderTest, KeepsOrderOverWraps) {
  auto reader = open();
  for (int round = 0; round < 10; ++round) {
    put(50);
    reader.read(out_, 1000, 1);
  }
  ASSERT_EQ(out_.size(), 500u);
  for (uint64_t i = 0; i < 500; ++i) EXPECT_EQ(out_[i].b, i);
  EXPECT_EQ(reader.totals().lost, 0u);
}

TEST_F(RingReaderTest, CountsEveryOverwrittenRecord) {
  auto reader = open();
  put(64 + 37);
  const ReadStats pass = reader.read(out_, 1000, 1);
  EXPECT_EQ(pass.lost, 37u);
  EXPECT_EQ(pass.read, 64u);
  EXPECT_EQ(out_.front().b, 37u);
  EXPECT_EQ(reader.head(), 101u);
}

TEST_F(RingReaderTest, ReadsAtMostMax) {
  put(30);
  auto reader = open();
  EXPECT_EQ(reader.read(out_, 7, 1).read, 7u);
  EXPECT_EQ(reader.read(out_, 0, 1).read, 0u);
  EXPECT_EQ(reader.read(out_, 100, 1).read, 23u);
  for (uint64_t i = 0; i < 30; ++i) EXPECT_EQ(out_[i].b, i);
}

TEST_F(RingReaderTest, WaitsForAnUnpublishedSlotThenSkipsIt) {
  put(3);
  claim_without_publishing(true);
  put(2);
  auto reader = open();
  EXPECT_EQ(reader.read(out_, 100, 1000 * kMs).read, 3u);
  EXPECT_EQ(reader.read(out_, 100, 1200 * kMs).read, 0u) << "200 ms are not over";
  const ReadStats pass = reader.read(out_, 100, 1201 * kMs);
  EXPECT_EQ(pass.torn, 1u);
  EXPECT_EQ(pass.read, 2u);
}

TEST_F(RingReaderTest, SlotThatIsPublishedLateIsNotSkipped) {
  claim_without_publishing(false);
  auto reader = open();
  EXPECT_EQ(reader.read(out_, 100, 1).read, 0u);
  const Record r = sealed(0, 0);
  uint64_t words[8] = {2};
  std::memcpy(&words[1], &r, sizeof r);
  uint64_t payload[6];
  std::memcpy(payload, &r, sizeof r);
  words[7] = checksum(0, payload);
  poke(slot_at(0), words);
  EXPECT_EQ(reader.read(out_, 100, 100 * kMs).read, 1u);
  EXPECT_EQ(reader.totals().torn, 0u);
}

TEST_F(RingReaderTest, ManyStuckSlotsCostOneWait) {
  put(1);
  for (int i = 0; i < 20; ++i) claim_without_publishing(i % 2 == 0);
  put(1);
  auto reader = open();
  reader.read(out_, 100, 1000 * kMs);
  const ReadStats pass = reader.read(out_, 100, 1300 * kMs);
  EXPECT_EQ(pass.torn, 20u);
  EXPECT_EQ(pass.read, 1u);
}

TEST_F(RingReaderTest, EachStuckSlotGetsItsOwnWait) {
  claim_without_publishing(true);
  auto reader = open();
  reader.read(out_, 100, 1000 * kMs);
  put(1);
  claim_without_publishing(true);
  EXPECT_EQ(reader.read(out_, 100, 1300 * kMs).torn, 1u) << "the second one was first seen now";
  EXPECT_EQ(reader.read(out_, 100, 1400 * kMs).torn, 0u);
  EXPECT_EQ(reader.read(out_, 100, 1501 * kMs).torn, 1u);
}

TEST_F(RingReaderTest, OfADeadWriterNothingIsAwaited) {
  put(1);
  claim_without_publishing(true);
  claim_without_publishing(false);
  auto reader = open();
  const ReadStats pass = reader.read(out_, 100, 1, true);
  EXPECT_EQ(pass.read, 1u);
  EXPECT_EQ(pass.torn, 2u);
}

TEST_F(RingReaderTest, ScribbledSlotIsTornNotBelieved) {
  put(10);
  poke(slot_at(4) + 24, uint64_t{0xdeadbeef});
  poke(slot_at(6), uint64_t{0x1234567});  // a sequence number that this slot cannot have
  auto reader = open();
  const ReadStats pass = reader.read(out_, 100, 1);
  EXPECT_EQ(pass.read, 8u);
  EXPECT_EQ(pass.torn, 2u);
  for (const Record& r : out_) EXPECT_TRUE(is_sealed(r));
}

TEST_F(RingReaderTest, RecordOfAnotherRoundIsNotBelieved) {
  put(64);
  // The slot of record 5 with the number of record 69, which was never written.
  poke(slot_at(5), uint64_t{2 * 69 + 2});
  writer_->header().head.store(70);
  auto reader = open();
  reader.read(out_, 100, 1, true);
  for (const Record& r : out_) EXPECT_NE(r.b, 5u);
  EXPECT_EQ(reader.totals().read + reader.totals().lost + reader.totals().torn, 70u);
}

TEST_F(RingReaderTest, ZeroedHeaderStillYieldsTheSlots) {
  put(20);
  auto reader = open();
  reader.read(out_, 100, 1);
  put(10);
  poke(0, std::array<char, kHeaderBytes>{});
  const ReadStats pass = reader.read(out_, 100, 1);
  EXPECT_EQ(pass.damaged, 1u);
  EXPECT_EQ(pass.read, 10u);
  EXPECT_EQ(out_.back().b, 29u);
  // The rank goes on, counting from zero: its new records come through again.
  reader.read(out_, 100, 1);
  out_.clear();
  put(5);
  reader.read(out_, 100, 1);
  EXPECT_GE(out_.size(), 4u);
  for (const Record& r : out_) EXPECT_GE(r.b, 30u) << "an old record was delivered twice";
}

TEST_F(RingReaderTest, HeadThatJumpsIsNotBelieved) {
  put(20);
  auto reader = open();
  reader.read(out_, 5, 1);
  for (uint64_t head : {uint64_t{1} << 30, ~uint64_t{0}, uint64_t{1} << 63}) {
    writer_->header().head.store(head);
    const ReadStats pass = reader.read(out_, 100, 1);
    EXPECT_EQ(pass.lost, 0u);
    EXPECT_EQ(pass.damaged, 1u);
  }
  EXPECT_EQ(out_.size(), 20u) << "the slots say what is there";
  EXPECT_EQ(reader.totals().damaged, 3u);
}

TEST_F(RingReaderTest, FreshReaderBelievesAWornRing) {
  writer_->header().head.store(64 * 1'000'000);
  written_ = 64 * 1'000'000;
  put(100);
  auto reader = open();
  const ReadStats pass = reader.read(out_, 1000, 1);
  EXPECT_EQ(pass.damaged, 0u);
  EXPECT_EQ(pass.read, 64u);
  EXPECT_EQ(pass.lost, 64u * 1'000'000 + 36);
}

TEST_F(RingReaderTest, ShrinkingFileIsSurvivedAndSaid) {
  put(64);
  auto reader = open();
  reader.read(out_, 10, 1);
  ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(slot_at(20))), 0);
  EXPECT_EQ(reader.read(out_, 100, 1).damaged, 1u);
  ASSERT_EQ(::truncate(path_.c_str(), 0), 0);
  EXPECT_EQ(reader.read(out_, 100, 1).damaged, 0u) << "said once";
  EXPECT_EQ(reader.totals().damaged, 1u);
  std::vector<Name> names;
  reader.read_names(names);
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(reader.identity().pid, ::getpid()) << "the identity of before";
  EXPECT_FALSE(reader.set_control(ControlWord::kStop, 1).has_value());
  struct stat st;
  ASSERT_EQ(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 0) << "asking made the file grow";
}

TEST_F(RingReaderTest, RewindStartsAtTheOldestRecordLeft) {
  put(100);
  writer_->add_name(NameKind::kModule, 1, "Model");
  auto reader = open();
  std::vector<Name> names;
  reader.read(out_, 1000, 1);
  reader.read_names(names);
  reader.rewind();
  EXPECT_EQ(reader.totals().read, 0u);
  out_.clear();
  reader.read(out_, 1000, 1);
  reader.read_names(names);
  EXPECT_EQ(out_.size(), 64u);
  EXPECT_EQ(out_.front().b, 36u);
  EXPECT_EQ(names.size(), 2u);
}

TEST_F(RingReaderTest, IdentityIsReadAnew) {
  auto reader = open();
  EXPECT_EQ(reader.identity().rank, -1);
  Header& h = writer_->header();
  h.rank = 3, h.world_size = 8, h.local_rank = 1, h.node_rank = 0, h.attempt = 2;
  h.evidence = kEvidenceGroup;
  h.life = kLifeTeardown;
  const Identity id = reader.identity();
  EXPECT_EQ(id.rank, 3);
  EXPECT_EQ(id.world_size, 8);
  EXPECT_EQ(id.local_rank, 1);
  EXPECT_EQ(id.node_rank, 0);
  EXPECT_EQ(id.attempt, 2);
  EXPECT_EQ(id.pid, ::getpid());
  EXPECT_EQ(id.evidence, kEvidenceGroup);
  EXPECT_EQ(id.life, kLifeTeardown);
  EXPECT_EQ(id.hostname, h.hostname);
  poke(0, std::array<char, 512>{});
  EXPECT_EQ(reader.identity().rank, 3) << "a scribbled header does not change who it was";
}

TEST_F(RingReaderTest, HostnameWithoutAnEndIsBounded) {
  poke(offsetof(Header, hostname), [] {
    std::array<char, 64> junk;
    junk.fill('\x1b');
    return junk;
  }());
  EXPECT_EQ(open().identity().hostname, std::string(64, ' '));
}

TEST_F(RingReaderTest, ControlWordsReachTheWriter) {
  auto reader = open();
  ASSERT_TRUE(reader.set_control(ControlWord::kStampUntilStep, 17).has_value());
  ASSERT_TRUE(reader.set_control(ControlWord::kStop, 1).has_value());
  EXPECT_EQ(writer_->header().control.stamp_until_step.load(), 17u);
  EXPECT_EQ(writer_->header().control.stop.load(), 1u);
  writer_->header().control.layer_mode = 5;
  EXPECT_EQ(reader.control(ControlWord::kLayerMode), 5u);
  EXPECT_EQ(reader.control(ControlWord::kCaptureRequest), 0u);
}

TEST_F(RingReaderTest, NamesComeOnceInOrder) {
  auto reader = open();
  std::vector<Name> names;
  reader.read_names(names);
  EXPECT_TRUE(names.empty());
  writer_->add_name(NameKind::kModule, 11, "DDP(Model)");
  writer_->add_name(NameKind::kOptimizer, 12, "");
  reader.read_names(names);
  writer_->add_name(NameKind::kPhase, 13, "evil \x1b[31m\xff");
  reader.read_names(names);
  reader.read_names(names);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0].text, "DDP(Model)");
  EXPECT_EQ(names[0].id, 11u);
  EXPECT_EQ(names[1].kind, NameKind::kOptimizer);
  EXPECT_EQ(names[1].text, "");
  EXPECT_EQ(names[2].text, "evil  [31m?");
}

TEST_F(RingReaderTest, NameThatIsNotReadyIsAwaited) {
  auto reader = open();
  std::vector<Name> names;
  writer_->add_name(NameKind::kModule, 1, "first");
  poke(kHeaderBytes, uint32_t{0});
  reader.read_names(names);
  EXPECT_TRUE(names.empty());
  poke(kHeaderBytes, kNameReady);
  reader.read_names(names);
  EXPECT_EQ(names.size(), 1u);
}

TEST_F(RingReaderTest, ScribbledNamesEndTheList) {
  writer_->add_name(NameKind::kModule, 1, "first");
  writer_->add_name(NameKind::kModule, 2, "second");
  std::vector<Name> names;
  poke(kHeaderBytes + 24 + 6, uint16_t{60'000});  // a length that leaves the region
  auto reader = open();
  reader.read_names(names);
  EXPECT_EQ(names.size(), 1u);
  EXPECT_EQ(reader.totals().damaged, 1u);
  poke(kHeaderBytes, uint32_t{42});
  names.clear();
  reader.rewind();
  reader.read_names(names);
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(reader.totals().damaged, 1u);
}

TEST_F(RingReaderTest, NamesHeadBeyondTheRegionIsBounded) {
  for (uint64_t id = 0; writer_->add_name(NameKind::kException, id, "x");) ++id;
  writer_->header().names_head = ~uint64_t{0};
  std::vector<Name> names;
  auto reader = open();
  reader.read_names(names);
  EXPECT_EQ(names.size(), 1024u / 24);
  EXPECT_EQ(reader.names_dropped(), 1u);
}

TEST_F(RingReaderTest, RefusesWithOneClearLine) {
  poke(offsetof(Header, version), uint32_t{2});
  EXPECT_EQ(refusal(), path_ + ": black box of format version 2, this build reads version 1");
  poke(offsetof(Header, version), kVersion);
  poke(offsetof(Header, record_bytes), uint32_t{32});
  EXPECT_NE(refusal().find("record sizes"), std::string::npos);
  poke(offsetof(Header, record_bytes), kRecordBytes);
  for (uint64_t capacity : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}}) {
    poke(offsetof(Header, capacity), capacity);
    EXPECT_NE(refusal().find("impossible sizes"), std::string::npos) << capacity;
  }
  poke(offsetof(Header, capacity), uint64_t{128});
  EXPECT_NE(refusal().find("truncated"), std::string::npos);
  poke(offsetof(Header, capacity), uint64_t{64});
  for (uint32_t bytes : {1001u, 0xffffffffu}) {
    poke(offsetof(Header, names_bytes), bytes);
    EXPECT_NE(refusal().find("impossible sizes"), std::string::npos) << bytes;
  }
  poke(offsetof(Header, names_bytes), uint32_t{1024});
  EXPECT_EQ(refusal(), "");
  poke(0, 'X');
  EXPECT_NE(refusal().find("not a black box"), std::string::npos);
}

TEST_F(RingReaderTest, RefusesWhatIsNoRegularFile) {
  EXPECT_NE(RingReader::open(folder_.file("missing")).error().message.find("No such file"), std::string::npos);
  EXPECT_FALSE(RingReader::open(folder_.path()).has_value());
  ASSERT_EQ(::mkfifo(folder_.file("fifo").c_str(), 0600), 0);
  EXPECT_NE(RingReader::open(folder_.file("fifo")).error().message.find("not a regular file"), std::string::npos);
  ASSERT_EQ(::symlink(path_.c_str(), folder_.file("link").c_str()), 0);
  EXPECT_FALSE(RingReader::open(folder_.file("link")).has_value());
  std::ofstream(folder_.file("short")) << "STEPSCOP";
  EXPECT_NE(RingReader::open(folder_.file("short")).error().message.find("shorter than its header"), std::string::npos);
}

// The fuzzer's seeds (16 bytes of script, then a file), so that what it once found stays found.
TEST(RingReaderCorpus, EveryFileIsRefusedOrReadToItsEnd) {
  testing::ScratchFolder folder;
  int refused = 0, read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SS_SOURCE_DIR "/tests/corpus/ring")) {
    if (entry.path().extension() == ".py") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const std::string copy = folder.file(entry.path().filename());
    std::ofstream(copy, std::ios::binary) << bytes.substr(std::min<size_t>(16, bytes.size()));
    auto reader = RingReader::open(copy);
    if (!reader) {
      refused++;
      continue;
    }
    read++;
    std::vector<Record> out;
    std::vector<Name> names;
    reader->read(out, 1 << 20, 1, true);
    reader->read_names(names);
    const ReadStats total = reader->totals();
    if (total.damaged == 0) {
      EXPECT_EQ(total.read + total.lost + total.torn, reader->head()) << entry.path();
    }
    EXPECT_EQ(reader->read(out, 1 << 20, 1, true).read, 0u) << entry.path();
  }
  EXPECT_GE(refused, 4) << "other_version, odd_capacity, too_large, cut";
  EXPECT_GE(read, 6);
}

TEST_F(RingReaderTest, MovesWithoutLosingItsPlace) {
  put(10);
  auto first = open();
  first.read(out_, 4, 1);
  RingReader second = std::move(first);
  second.read(out_, 3, 1);
  RingReader third = open();
  third = std::move(second);
  third.read(out_, 100, 1);
  ASSERT_EQ(out_.size(), 10u);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(out_[i].b, i);
}

}  // namespace
}  // namespace stepscope::blackbox
