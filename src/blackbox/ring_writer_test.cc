#include "blackbox/ring_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "blackbox/ring_reader.h"
#include "child.h"
#include "scratch_folder.h"

namespace stepscope::blackbox {
namespace {

using testing::ScratchFolder;

TEST(RingWriter, CreatesAPrivateFileOfTheDocumentedSize) {
  ScratchFolder folder;
  auto writer = RingWriter::create(folder.file("a.ring"));
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  struct stat st;
  ASSERT_EQ(::stat(folder.file("a.ring").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(static_cast<size_t>(st.st_size), file_bytes(kDefaultCapacity, kDefaultNamesBytes));
  EXPECT_GE(static_cast<size_t>(st.st_blocks) * 512, file_bytes(kDefaultCapacity, kDefaultNamesBytes))
      << "not reserved";
  EXPECT_NE(::access(folder.file("a.ring.new").c_str(), F_OK), 0) << "the unfinished name is left behind";
}

TEST(RingWriter, HeaderTellsWhoWritesAndLinksTheClocks) {
  ScratchFolder folder;
  const uint64_t before = monotonic_ns();
  auto writer = RingWriter::create(folder.file("a.ring"));
  ASSERT_TRUE(writer.has_value());
  const Header& h = (*writer)->header();
  EXPECT_EQ(h.pid, ::getpid());
  EXPECT_GE(h.anchor_monotonic_ns, before);
  EXPECT_LE(h.anchor_monotonic_ns, monotonic_ns());
  EXPECT_NEAR(static_cast<double>(realtime_ns() - h.anchor_realtime_ns),
              static_cast<double>(monotonic_ns() - h.anchor_monotonic_ns), 50e6);
  EXPECT_EQ(h.rank.load(), -1);
  EXPECT_STRNE(h.hostname, "");
  // Field 22 of /proc/<pid>/stat, read in another way: the 20th word after the last ')'.
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string word;
  for (int i = 3; i <= 22; ++i) rest >> word;
  EXPECT_EQ(std::to_string(h.pid_start_ticks), word);
}

TEST(RingWriter, TheHeaderIsCompleteWhenTheFileAppears) {
  // A reader may open the file the moment it has its name: when the process started must be known then.
  ScratchFolder folder;
  const uint64_t before_ns = monotonic_ns();
  EXPECT_EQ(testing::in_child([&] {
              ::usleep(60'000);
              const auto writer = RingWriter::create(folder.file("a.ring"));
              if (!writer) return 1;
              const Header& h = (*writer)->header();
              if (h.process_start_ns < before_ns - 20'000'000) return 2;
              return h.process_start_ns + 40'000'000 < h.anchor_monotonic_ns ? 0 : 3;
            }),
            0);
}

TEST(RingWriter, NeverReplacesAFile) {
  ScratchFolder folder;
  std::ofstream(folder.file("a.ring")) << "mine";
  auto writer = RingWriter::create(folder.file("a.ring"));
  ASSERT_FALSE(writer.has_value());
  EXPECT_NE(writer.error().message.find("File exists"), std::string::npos) << writer.error().message;
  std::ifstream file(folder.file("a.ring"));
  std::string text;
  file >> text;
  EXPECT_EQ(text, "mine");
  EXPECT_NE(::access(folder.file("a.ring.new").c_str(), F_OK), 0);
}

TEST(RingWriter, FollowsNoLink) {
  ScratchFolder folder;
  std::ofstream(folder.file("victim")) << "mine";
  ASSERT_EQ(::symlink(folder.file("victim").c_str(), folder.file("a.ring.new").c_str()), 0);
  EXPECT_FALSE(RingWriter::create(folder.file("a.ring")).has_value());
}

TEST(RingWriter, SaysWhyWhenTheFolderIsMissing) {
  auto writer = RingWriter::create("/nonexistent/folder/a.ring");
  ASSERT_FALSE(writer.has_value());
  EXPECT_NE(writer.error().message.find("No such file or directory"), std::string::npos);
  EXPECT_EQ(writer.error().message.find('\n'), std::string::npos);
}

TEST(RingWriter, RefusesSizesThatReadersWouldRefuse) {
  ScratchFolder folder;
  EXPECT_FALSE(RingWriter::create(folder.file("a"), {.capacity = 5000}).has_value());
  EXPECT_FALSE(RingWriter::create(folder.file("b"), {.capacity = 0}).has_value());
  EXPECT_FALSE(RingWriter::create(folder.file("c"), {.capacity = kMaxCapacity * 2}).has_value());
  EXPECT_FALSE(RingWriter::create(folder.file("d"), {.names_bytes = 100}).has_value());
}

TEST(RingWriter, FileSizeLimitHalvesTheRingInsteadOfKillingTheProcess) {
  ScratchFolder folder;
  EXPECT_EQ(testing::in_child([&] {
              const rlimit limit{1 << 20, 1 << 20};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              auto writer = RingWriter::create(folder.file("a.ring"));
              return writer && (*writer)->capacity() == 8 * 1024 ? 0 : 1;  // 16 Ki slots + names exceed 1 MiB
            }),
            0);
  EXPECT_EQ(testing::in_child([&] {
              const rlimit limit{100'000, 100'000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              auto writer = RingWriter::create(folder.file("b.ring"));
              return !writer && writer.error().message.find("File too large") != std::string::npos ? 0 : 1;
            }),
            0);
  EXPECT_NE(::access(folder.file("b.ring.new").c_str(), F_OK), 0) << "a refused ring is left behind";
}

TEST(RingWriter, HalvesTheRingWhileTheFileSystemIsFull) {
  const int code = testing::in_child([] {
    ScratchFolder folder;
    if (!folder.mount_tmpfs("size=1m")) return 77;
    // A quarter of 1 MiB holds no ring of the least size, so the least is tried, and fits twice (388 KiB each).
    for (const char* name : {"a.ring", "b.ring"}) {
      auto writer = RingWriter::create(folder.file(name));
      if (!writer || (*writer)->capacity() != kMinCapacity) return 1;
    }
    auto writer = RingWriter::create(folder.file("c.ring"));
    if (writer || writer.error().message.find("No space left on device") == std::string::npos) return 2;
    return ::access(folder.file("c.ring.new").c_str(), F_OK) == 0 ? 3 : 0;
  });
  if (code == 77) GTEST_SKIP() << "cannot mount a tmpfs here";
  EXPECT_EQ(code, 0);
}

TEST(RingWriter, TakesTheRoomThatIsLeft) {
  const int code = testing::in_child([] {
    ScratchFolder folder;
    if (!folder.mount_tmpfs("size=64m")) return 77;
    std::ofstream filler(folder.file("filler"));
    filler << std::string(62 << 20, 'x') << std::flush;  // 2 MiB left: 16 Ki slots and names fit, 32 Ki do not
    auto writer = RingWriter::create(folder.file("a.ring"));
    return writer && (*writer)->capacity() == 16 * 1024 ? 0 : 1;
  });
  if (code == 77) GTEST_SKIP() << "cannot mount a tmpfs here";
  EXPECT_EQ(code, 0);
}

TEST(RingWriter, SixtyFourRanksFitIntoSixtyFourMebibytes) {
  const int code = testing::in_child([] {
    ScratchFolder folder;
    if (!folder.mount_tmpfs("size=64m")) return 77;
    for (int rank = 0; rank < 64; ++rank)
      if (!RingWriter::create(folder.file(std::to_string(rank)), {.siblings = 64})) return 1;
    return folder.free_bytes() >= (32u << 20) ? 0 : 2;  // the data loaders' batches need room too
  });
  if (code == 77) GTEST_SKIP() << "cannot mount a tmpfs here";
  EXPECT_EQ(code, 0);
}

TEST(RingWriter, ManySiblingsShareASmallMemory) {
  // Sizes only: /dev/shm of this machine is far larger than what 4 rings need and far smaller than 100,000 rings.
  ScratchFolder folder("/dev/shm");
  auto few = RingWriter::create(folder.file("few.ring"), {.siblings = 4});
  auto many = RingWriter::create(folder.file("many.ring"), {.siblings = 1'000'000});
  ASSERT_TRUE(few.has_value() && many.has_value());
  EXPECT_EQ((*many)->capacity(), kMinCapacity);
  EXPECT_GT((*few)->capacity(), kMinCapacity);
}

TEST(RingWriter, NamesStayWithinTheirRegion) {
  ScratchFolder folder;
  auto writer = RingWriter::create(folder.file("a.ring"), {.capacity = 16, .min_capacity = 16, .names_bytes = 128});
  ASSERT_TRUE(writer.has_value());
  EXPECT_TRUE((*writer)->add_name(NameKind::kException, 1, std::string(40, 'x')));   // 16 + 40
  EXPECT_FALSE((*writer)->add_name(NameKind::kException, 2, std::string(60, 'y')));  // 16 + 64 > 72
  EXPECT_TRUE((*writer)->add_name(NameKind::kException, 3, std::string(56, 'z')));   // 16 + 56: full to the byte
  EXPECT_FALSE((*writer)->add_name(NameKind::kException, 4, ""));
  EXPECT_EQ((*writer)->header().names_head.load(), 128u);
  EXPECT_EQ((*writer)->header().names_dropped.load(), 2u);
}

TEST(RingWriter, NamesThatNeverEndLeaveRoomForTheOthers) {
  ScratchFolder folder;
  auto writer = RingWriter::create(folder.file("a.ring"), {.capacity = 16, .min_capacity = 16});
  ASSERT_TRUE(writer.has_value());
  uint64_t id = 0;
  while ((*writer)->add_name(NameKind::kPhase, id, "epoch " + std::to_string(id))) ++id;
  EXPECT_GE((*writer)->header().names_head.load(), kDefaultNamesBytes * 3 / 4 - 64);
  EXPECT_FALSE((*writer)->add_name(NameKind::kModule, 1, "Model"));
  EXPECT_TRUE((*writer)->add_name(NameKind::kGroup, 1, "dp|0-7"));
  while ((*writer)->add_name(NameKind::kLoader, id, "DataLoader(workers=4)")) ++id;
  for (uint64_t i = 0; i < 10; ++i)
    EXPECT_TRUE((*writer)->add_name(NameKind::kException, i, std::string(400, 'x'))) << i;
}

TEST(RingWriter, ANameThatIsGivenAgainTakesNoRoom) {
  ScratchFolder folder;
  auto writer = RingWriter::create(folder.file("a.ring"), {.capacity = 16, .min_capacity = 16});
  ASSERT_TRUE(writer.has_value());
  const auto used = [&] { return (*writer)->header().names_head.load(); };
  for (const std::string& text : {std::string("stepscope"), std::string(), std::string(3'000, 'x')}) {
    ASSERT_TRUE((*writer)->add_name(NameKind::kPhase, 1, text));
    const uint64_t once = used();
    for (int i = 0; i < 5'000; ++i) ASSERT_TRUE((*writer)->add_name(NameKind::kPhase, 1, text));
    EXPECT_EQ(used(), once);
  }
  char other = 'a';
  while ((*writer)->add_name(NameKind::kPhase, 1, std::string(60'000, other))) ASSERT_LT(++other, 'z');
  const uint64_t before = used();
  EXPECT_TRUE((*writer)->add_name(NameKind::kPhase, 1, std::string(60'000, static_cast<char>(other - 1))))
      << "no room, and none needed";
  EXPECT_TRUE((*writer)->add_name(NameKind::kFact, 1, "x"));
  EXPECT_TRUE((*writer)->add_name(NameKind::kException, 2, "x")) << "of another kind or id";
  EXPECT_EQ(used(), before + 48);
  EXPECT_EQ((*writer)->header().names_dropped.load(), 1u);
}

TEST(RingWriter, AnIdThatIsRenamedAndNamedBackHasItsNewestText) {
  ScratchFolder folder;
  auto writer = RingWriter::create(folder.file("a.ring"), {.capacity = 16, .min_capacity = 16});
  ASSERT_TRUE(writer.has_value());
  for (const char* text : {"mode=a", "mode=b", "mode=a"}) EXPECT_TRUE((*writer)->add_name(NameKind::kFact, 0, text));
  EXPECT_EQ((*writer)->header().names_head.load(), 3u * 24);
}

TEST(RingWriter, ScribbledHeaderCannotLeadAStoreOutside) {
  ScratchFolder folder;
  auto writer = RingWriter::create(folder.file("a.ring"), {.capacity = 16, .min_capacity = 16, .names_bytes = 128});
  ASSERT_TRUE(writer.has_value());
  std::memset((*writer)->base(), 0xff, kHeaderBytes);
  for (int i = 0; i < 100; ++i) (*writer)->put({.a = static_cast<uint64_t>(i)});
  EXPECT_FALSE((*writer)->add_name(NameKind::kException, 1, "x"));
  (*writer)->header().names_head.store(3);  // not aligned
  EXPECT_FALSE((*writer)->add_name(NameKind::kException, 1, "x"));
  (*writer)->header().names_head.store(127);
  EXPECT_FALSE((*writer)->add_name(NameKind::kException, 1, "x"));
}

TEST(RingWriter, AttachWritesIntoTheSameRing) {
  ScratchFolder folder;
  auto owner = RingWriter::create(folder.file("a.ring"), {.capacity = 64, .min_capacity = 64});
  auto guest = RingWriter::attach(folder.file("a.ring"));
  ASSERT_TRUE(owner.has_value() && guest.has_value());
  (*owner)->put({.a = 1});
  (*guest)->put({.a = 2});
  (*owner)->put({.a = 3});
  auto reader = RingReader::open(folder.file("a.ring"));
  ASSERT_TRUE(reader.has_value());
  std::vector<Record> records;
  reader->read(records, 100, 1);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].a, 1u);
  EXPECT_EQ(records[1].a, 2u);
  EXPECT_EQ(records[2].a, 3u);
}

TEST(RingWriter, AttachRefusesWhatIsNoRing) {
  ScratchFolder folder;
  EXPECT_FALSE(RingWriter::attach(folder.file("missing")).has_value());
  EXPECT_FALSE(RingWriter::attach(folder.path()).has_value());
  std::ofstream(folder.file("short")) << "STEPSCOP";
  EXPECT_FALSE(RingWriter::attach(folder.file("short")).has_value());
  ASSERT_TRUE(RingWriter::create(folder.file("a.ring"), {.capacity = 64, .min_capacity = 64}).has_value());
  ASSERT_EQ(::truncate(folder.file("a.ring").c_str(), 70'000), 0);
  EXPECT_FALSE(RingWriter::attach(folder.file("a.ring")).has_value());
}

}  // namespace
}  // namespace stepscope::blackbox
