// Random histories of a ring against a model, and random damage.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/fd.h"
#include "blackbox/ring_reader.h"
#include "blackbox/ring_writer.h"
#include "scratch_folder.h"
#include "sealed_record.h"

namespace stepscope::blackbox {
namespace {

using testing::ScratchFolder;

struct Ring {
  explicit Ring(uint64_t capacity, uint32_t names_bytes = 4096) : path(folder.file("a.ring")) {
    auto created = RingWriter::create(path, {.capacity = capacity, .min_capacity = 1, .names_bytes = names_bytes});
    RC_ASSERT(created.has_value());
    writer = std::move(*created);
  }
  ScratchFolder folder{"/dev/shm"};
  std::string path;
  std::unique_ptr<RingWriter> writer;
};

rc::Gen<uint64_t> any_capacity() {
  return rc::gen::map(rc::gen::inRange(0, 9), [](int bits) { return uint64_t{1} << bits; });
}

// Any mix of writing, reading with any bound, and rewinding: what is delivered is exactly what the model says, in
// order, and read + lost accounts for every record.
RC_GTEST_PROP(RingProperty, DeliversExactlyWhatTheModelSays, ()) {
  const uint64_t capacity = *any_capacity();
  Ring ring(capacity);
  auto reader = *RingReader::open(ring.path);
  uint64_t written = 0, expected_next = 0, lost = 0;
  const int operations = *rc::gen::inRange(1, 60);
  for (int op = 0; op < operations; ++op) {
    const int what = *rc::gen::inRange(0, 20);
    if (what == 0) {
      reader.rewind();
      expected_next = lost = 0;
    } else if (what < 10) {
      for (uint64_t n = *rc::gen::inRange<uint64_t>(0, 3 * capacity + 2); n > 0; --n)
        ring.writer->put(sealed(1, written++));
    } else {
      const size_t max = *rc::gen::inRange<size_t>(0, 3 * capacity + 2);
      if (written - expected_next > capacity) {
        lost += written - capacity - expected_next;
        expected_next = written - capacity;
      }
      std::vector<Record> out;
      const ReadStats pass = reader.read(out, max, 1);
      RC_ASSERT(pass.read == out.size());
      RC_ASSERT(out.size() == std::min<uint64_t>(max, written - expected_next));
      for (const Record& r : out) {
        RC_ASSERT(is_sealed(r));
        RC_ASSERT(r.b == expected_next++);
      }
      RC_ASSERT(reader.totals().lost == lost);
      RC_ASSERT(reader.totals().torn == 0u);
      RC_ASSERT(reader.totals().damaged == 0u);
    }
  }
}

// Few ids, so that each is renamed and given again in most runs.
RC_GTEST_PROP(RingProperty, NamesComeBackAsGiven, ()) {
  const auto given = *rc::gen::container<std::vector<std::pair<uint64_t, std::string>>>(
      rc::gen::pair(rc::gen::inRange<uint64_t>(0, 5),
                    rc::gen::oneOf(rc::gen::element<std::string>("", "a", "bb"), rc::gen::arbitrary<std::string>())));
  Ring ring(1, 1024);
  auto reader = *RingReader::open(ring.path);
  std::vector<std::pair<uint64_t, std::string>> kept;
  std::map<uint64_t, std::string> newest;  // what an id is called already is not written again
  uint64_t dropped = 0;
  std::vector<Name> names;
  for (const auto& [id, text] : given) {
    const auto known = newest.find(id);
    const bool again = known != newest.end() && known->second == text;
    if (!ring.writer->add_name(NameKind::kPhase, id, text)) {
      RC_ASSERT(!again);
      ++dropped;
    } else if (!again) {
      kept.emplace_back(id, text);
      newest[id] = text;
    }
    if (id % 3 == 0) reader.read_names(names);
  }
  reader.read_names(names);
  RC_ASSERT(names.size() == kept.size());
  RC_ASSERT(reader.names_dropped() == dropped);
  for (size_t i = 0; i < kept.size(); ++i) {
    RC_ASSERT(names[i].id == kept[i].first);
    RC_ASSERT(names[i].text.size() <= kept[i].second.size());
    if (std::all_of(kept[i].second.begin(), kept[i].second.end(), [](char c) { return c >= ' ' && c < 0x7f; }))
      RC_ASSERT(names[i].text == kept[i].second);
  }
}

void scribble(const std::string& path, size_t at, const std::vector<uint8_t>& bytes) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  RC_ASSERT(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
            static_cast<ssize_t>(bytes.size()));
}

// Random bytes over the ring: every record that comes out is one that was put, none comes twice, every claimed number
// is accounted for.
RC_GTEST_PROP(RingProperty, ScribbledSlotsAreNeverBelieved, ()) {
  const uint64_t capacity = *any_capacity();
  Ring ring(capacity);
  auto reader = *RingReader::open(ring.path);
  uint64_t written = 0;
  std::vector<Record> out;
  const size_t ring_at = file_bytes(0, 4096);
  for (int round = *rc::gen::inRange(1, 6); round > 0; --round) {
    for (uint64_t n = *rc::gen::inRange<uint64_t>(0, 2 * capacity + 2); n > 0; --n)
      ring.writer->put(sealed(1, written++));
    const auto junk = *rc::gen::resize(200, rc::gen::arbitrary<std::vector<uint8_t>>());
    const size_t room = capacity * kRecordBytes;
    if (junk.size() <= room) scribble(ring.path, ring_at + *rc::gen::inRange<size_t>(0, room - junk.size() + 1), junk);
    reader.read(out, *rc::gen::inRange<size_t>(0, 2 * capacity), 1, *rc::gen::arbitrary<bool>());
  }
  reader.read(out, written + 1, 1, true);
  std::map<uint64_t, int> seen;
  for (const Record& r : out) {
    RC_ASSERT(is_sealed(r));
    RC_ASSERT(r.b < written);
    RC_ASSERT(++seen[r.b] == 1);
  }
  const ReadStats total = reader.totals();
  RC_ASSERT(total.read == out.size());
  // With every slot scribbled nothing bears the head out any more: then, and only then, the counts are a lower bound.
  if (capacity >= 64) RC_ASSERT(total.damaged == 0u);
  if (total.damaged == 0) RC_ASSERT(total.read + total.lost + total.torn == written);
  RC_ASSERT(total.read + total.lost + total.torn <= written);
}

// Random bytes anywhere, the file cut anywhere, before or after opening: no crash, no endless pass, no false record.
RC_GTEST_PROP(RingProperty, DamageAnywhereIsSurvived, ()) {
  const uint64_t capacity = *any_capacity();
  Ring ring(capacity);
  for (int i = *rc::gen::inRange(0, 1000); i > 0; --i) ring.writer->put(sealed(1, static_cast<uint64_t>(i)));
  ring.writer->add_name(NameKind::kModule, 1, "Model");
  const size_t size = file_bytes(capacity, 4096);
  ring.writer.reset();  // no mapping while the file is cut
  const auto damage = [&] {
    if (*rc::gen::inRange(0, 4) == 0) {
      RC_ASSERT(::truncate(ring.path.c_str(), *rc::gen::inRange<off_t>(0, static_cast<off_t>(size) + 1)) == 0);
      return;
    }
    const auto junk = *rc::gen::arbitrary<std::vector<uint8_t>>();
    // Half of it into the used part of the header, where it matters most.
    const size_t most = *rc::gen::arbitrary<bool>() ? sizeof(Header) : size;
    scribble(ring.path, *rc::gen::inRange<size_t>(0, most), junk);
  };
  if (*rc::gen::arbitrary<bool>()) damage();
  auto reader = RingReader::open(ring.path);
  if (!reader) {
    RC_ASSERT(!reader.error().message.empty());
    RC_ASSERT(reader.error().message.find('\n') == std::string::npos);
    return;
  }
  std::vector<Record> out;
  std::vector<Name> names;
  for (int pass = 0; pass < 4; ++pass) {
    reader->read(out, 10'000, static_cast<uint64_t>(pass), pass == 3);
    reader->read_names(names);
    reader->identity();
    damage();
  }
  for (const Record& r : out) RC_ASSERT(is_sealed(r));
}

}  // namespace
}  // namespace stepscope::blackbox
