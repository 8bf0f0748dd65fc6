// docs/formats/blackbox.md says what layout.h says.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "blackbox/layout.h"

namespace stepscope::blackbox {
namespace {

struct Place {
  size_t offset, bytes;
  bool operator==(const Place&) const = default;
};
using Table = std::map<std::string, Place>;

void PrintTo(const Place& p, std::ostream* out) { *out << "offset " << p.offset << ", " << p.bytes << " bytes"; }

std::string document() {
  std::ifstream file(SS_SOURCE_DIR "/docs/formats/blackbox.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The tables of places, in order.
std::vector<Table> tables() {
  std::vector<Table> found;
  std::istringstream lines(document());
  const std::regex row(R"(\| (\d+) \| (\d+) \| `(\w+)` \|.*)");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| offset |")) found.emplace_back();
    std::smatch m;
    if (!found.empty() && std::regex_match(line, m, row)) found.back()[m[3]] = {std::stoul(m[1]), std::stoul(m[2])};
  }
  return found;
}

#define PLACE(type, field)                                 \
  {                                                        \
    #field, { offsetof(type, field), sizeof(type::field) } \
  }

TEST(FormatDocument, TablesMatchTheLayout) {
  const Table header = {PLACE(Header, magic),
                        PLACE(Header, version),
                        PLACE(Header, header_bytes),
                        PLACE(Header, record_bytes),
                        PLACE(Header, names_bytes),
                        PLACE(Header, capacity),
                        PLACE(Header, run_nonce),
                        PLACE(Header, attempt),
                        PLACE(Header, rank),
                        PLACE(Header, local_rank),
                        PLACE(Header, world_size),
                        PLACE(Header, node_rank),
                        PLACE(Header, pid),
                        PLACE(Header, pid_start_ticks),
                        PLACE(Header, hostname),
                        PLACE(Header, process_start_ns),
                        PLACE(Header, anchor_monotonic_ns),
                        PLACE(Header, anchor_realtime_ns),
                        PLACE(Header, evidence),
                        PLACE(Header, life),
                        PLACE(Header, life_changed_ns),
                        PLACE(Header, heartbeat),
                        PLACE(Header, head),
                        PLACE(Header, names_head),
                        PLACE(Header, names_dropped),
                        PLACE(Header, control),
                        PLACE(Header, stack)};
  const Table control = {PLACE(Control, stamp_until_step), PLACE(Control, capture_request), PLACE(Control, layer_mode),
                         PLACE(Control, stop), PLACE(Control, reserved)};
  const Table slot = {PLACE(Slot, seq), PLACE(Slot, words), PLACE(Slot, check)};
  const Table record = {PLACE(Record, time_ns), PLACE(Record, kind), PLACE(Record, flags), PLACE(Record, thread),
                        PLACE(Record, a),       PLACE(Record, b),    PLACE(Record, c),     PLACE(Record, d)};
  const Table name = {PLACE(NameEntry, ready), PLACE(NameEntry, kind), PLACE(NameEntry, length), PLACE(NameEntry, id)};
  const Table stack = {PLACE(StackBox, signal), PLACE(StackBox, answered),   PLACE(StackBox, time_ns),
                       PLACE(StackBox, pc),     PLACE(StackBox, thread),     PLACE(StackBox, flags),
                       PLACE(StackBox, frames), PLACE(StackBox, text_bytes), PLACE(StackBox, reserved),
                       PLACE(StackBox, text),   PLACE(StackBox, ready)};
  const std::vector<Table> found = tables();
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0], header);
  EXPECT_EQ(found[1], control);
  EXPECT_EQ(found[2], stack);
  EXPECT_EQ(found[3], slot);
  EXPECT_EQ(found[4], record);
  EXPECT_EQ(found[5], name);
}

// Fields of the tables together cover the structs, so that a new field cannot be forgotten in both places.
TEST(FormatDocument, TablesLeaveNoGap) {
  const std::vector<Table> found = tables();
  ASSERT_EQ(found.size(), 6u);
  const size_t sizes[] = {0, sizeof(Control), sizeof(StackBox), sizeof(Slot), sizeof(Record), sizeof(NameEntry)};
  for (size_t i = 1; i < 6; ++i) {
    size_t sum = 0;
    for (const auto& [field, place] : found[i]) sum += place.bytes;
    EXPECT_EQ(sum, sizes[i]) << "table " << i;
  }
}

TEST(FormatDocument, NumbersInTheTextMatch) {
  const std::string text = document();
  EXPECT_NE(text.find("(format version " + std::to_string(kVersion) + ")"), std::string::npos);
  const uint64_t zeros[6] = {};
  std::ostringstream check;
  check << "`0x" << std::hex << checksum(0, zeros) << "`";
  EXPECT_NE(text.find(check.str()), std::string::npos) << "check word of an empty record 0: " << check.str();
  EXPECT_EQ(kMaxCapacity, 4'194'304u);
  EXPECT_EQ(kMaxNamesBytes, 16u << 20);
  EXPECT_EQ(kMaxNameLength, 65'528u);
  EXPECT_EQ(kMinCapacity, 4'096u);
  EXPECT_EQ(kNameReady, 0x4e414d45u);
}

}  // namespace
}  // namespace stepscope::blackbox
