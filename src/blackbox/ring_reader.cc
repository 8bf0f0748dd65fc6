#include "blackbox/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/file.h"
#include "blackbox/text.h"

namespace stepscope::blackbox {
namespace {

constexpr uint64_t kSlotsPerRead = 1024;
constexpr uint64_t kStuckNs = 200'000'000;
// A head that is further ahead than this was not reached by counting (30 hours at 100 ns a record).
constexpr uint64_t kMaxJump = 1ull << 40;

// A slot as plain words. The order of the members of Slot is that of these words.
using RawSlot = std::array<uint64_t, 8>;
static_assert(sizeof(RawSlot) == sizeof(Slot));

enum class SlotState { kGood, kPending, kOverwritten, kScribbled };

// Number of the record that was last claimed in this slot. The slot must have been used (seq != 0).
uint64_t claimed_index(uint64_t seq) { return (seq - 1) >> 1; }

bool fits_check(const RawSlot& slot, uint64_t index) {
  const uint64_t words[6] = {slot[1], slot[2], slot[3], slot[4], slot[5], slot[6]};
  return slot[7] == checksum(index, words);
}

SlotState classify(const RawSlot& slot, uint64_t index, uint64_t mask) {
  const uint64_t seq = slot[0];
  if (seq == 2 * index + 2) return fits_check(slot, index) ? SlotState::kGood : SlotState::kScribbled;
  if (seq == 0 || seq == 2 * index + 1) return SlotState::kPending;
  const uint64_t claimed = claimed_index(seq);
  if (((claimed ^ index) & mask) != 0) return SlotState::kScribbled;  // no writer would have put that number here
  return claimed < index ? SlotState::kPending : SlotState::kOverwritten;
}

bool pread_all(int fd, void* to, size_t bytes, uint64_t at) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, out, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out += n, at += static_cast<uint64_t>(n), bytes -= static_cast<size_t>(n);
  }
  return true;
}

template <class T>
T field(const std::array<char, sizeof(Header)>& bytes, size_t offset) {
  T value;
  memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

using HeaderBytes = std::array<char, sizeof(Header)>;
#define SS_FIELD(type, bytes, member) field<type>(bytes, offsetof(Header, member))

Identity identity_from(const HeaderBytes& h) {
  Identity id;
  memcpy(id.run_nonce, h.data() + offsetof(Header, run_nonce), sizeof id.run_nonce);
  id.attempt = SS_FIELD(int32_t, h, attempt);
  id.rank = SS_FIELD(int32_t, h, rank);
  id.local_rank = SS_FIELD(int32_t, h, local_rank);
  id.world_size = SS_FIELD(int32_t, h, world_size);
  id.node_rank = SS_FIELD(int32_t, h, node_rank);
  id.pid = SS_FIELD(int32_t, h, pid);
  id.pid_start_ticks = SS_FIELD(uint64_t, h, pid_start_ticks);
  const char* host = h.data() + offsetof(Header, hostname);
  id.hostname = printable(std::string_view(host, strnlen(host, sizeof Header::hostname)));
  id.process_start_ns = SS_FIELD(uint64_t, h, process_start_ns);
  id.anchor_monotonic_ns = SS_FIELD(uint64_t, h, anchor_monotonic_ns);
  id.anchor_realtime_ns = SS_FIELD(uint64_t, h, anchor_realtime_ns);
  id.evidence = SS_FIELD(uint64_t, h, evidence);
  id.life = SS_FIELD(uint64_t, h, life);
  id.life_changed_ns = SS_FIELD(uint64_t, h, life_changed_ns);
  return id;
}

}  // namespace

struct RingReader::Impl {
  Fd fd;
  std::string path;
  uint64_t capacity = 0, mask = 0;
  uint32_t names_bytes = 0;
  Identity identity;  // the last one that came from an intact header

  uint64_t next = 0;  // number of the next record to read
  uint64_t head = 0;
  ReadStats totals;
  bool short_file = false;  // counted once
  uint64_t names_at = 0;
  bool names_broken = false;

  // Where the last pass stopped at an unpublished slot: all unpublished numbers below stuck_head are as old as that.
  uint64_t stuck_head = 0, stuck_since_ns = 0;

  std::vector<RawSlot> buffer{kSlotsPerRead};

  uint64_t slot_offset(uint64_t index) const {
    return kHeaderBytes + uint64_t{names_bytes} + (index & mask) * kRecordBytes;
  }

  bool read_slots(uint64_t index, uint64_t count, RawSlot* to) const {
    return pread_all(fd.get(), to, count * kRecordBytes, slot_offset(index));
  }

  std::optional<uint64_t> header_word(size_t offset) const {
    uint64_t value;
    if (!pread_all(fd.get(), &value, sizeof value, offset)) return std::nullopt;
    return value;
  }

  Status check_header(const HeaderBytes& h, uint64_t file_size);
  bool intact(const HeaderBytes& h) const;
  std::optional<uint64_t> newest_published(uint64_t at_least) const;
  bool plausible(uint64_t new_head) const;
  bool follow_head(ReadStats& pass);
  bool take(const RawSlot& seen, uint64_t now_ns, bool final, std::vector<Record>& out, ReadStats& pass);
  void note_short(ReadStats& pass);
};

Status RingReader::Impl::check_header(const HeaderBytes& h, uint64_t file_size) {
  if (memcmp(h.data(), kMagic, sizeof kMagic) != 0) return fail(path + ": not a black box");
  const auto version = SS_FIELD(uint32_t, h, version);
  if (version != kVersion)
    return fail(path + ": black box of format version " + std::to_string(version) + ", this build reads version " +
                std::to_string(kVersion));
  if (SS_FIELD(uint32_t, h, header_bytes) != kHeaderBytes || SS_FIELD(uint32_t, h, record_bytes) != kRecordBytes)
    return fail(path + ": black box with header or record sizes that do not belong to its version");
  names_bytes = SS_FIELD(uint32_t, h, names_bytes);
  capacity = SS_FIELD(uint64_t, h, capacity);
  if (!std::has_single_bit(capacity) || capacity > kMaxCapacity || names_bytes > kMaxNamesBytes || names_bytes % 8 != 0)
    return fail(path + ": black box with impossible sizes: " + std::to_string(capacity) + " slots, " +
                std::to_string(names_bytes) + " bytes of names");
  if (file_bytes(capacity, names_bytes) > file_size)
    return fail(path + ": black box is truncated: " + std::to_string(file_size) + " of " +
                std::to_string(file_bytes(capacity, names_bytes)) + " bytes");
  mask = capacity - 1;
  return {};
}

bool RingReader::Impl::intact(const HeaderBytes& h) const {
  return memcmp(h.data(), kMagic, sizeof kMagic) == 0 && SS_FIELD(uint32_t, h, version) == kVersion &&
         SS_FIELD(uint64_t, h, capacity) == capacity && SS_FIELD(uint32_t, h, names_bytes) == names_bytes;
}

// The largest record number >= at_least that some slot holds whole: what the slots say where the header cannot be
// believed. Reads the whole ring; needed only after damage.
std::optional<uint64_t> RingReader::Impl::newest_published(uint64_t at_least) const {
  std::optional<uint64_t> newest;
  std::vector<RawSlot> slots(std::min(kSlotsPerRead, capacity));
  for (uint64_t first = 0; first < capacity; first += slots.size()) {
    if (!read_slots(first, slots.size(), slots.data())) break;
    for (uint64_t i = 0; i < slots.size(); ++i) {
      const uint64_t seq = slots[i][0];
      if (seq == 0 || seq % 2 != 0) continue;
      const uint64_t index = claimed_index(seq);
      if (index < at_least || index - at_least > kMaxJump || (newest && index <= *newest)) continue;
      if (classify(slots[i], index, mask) == SlotState::kGood && ((index ^ (first + i)) & mask) == 0) newest = index;
    }
  }
  return newest;
}

// Whether a head that jumped by more than the whole ring is borne out by the slots.
bool RingReader::Impl::plausible(uint64_t new_head) const {
  if (new_head - next > kMaxJump) return false;
  const uint64_t count = std::min<uint64_t>(64, capacity);
  RawSlot slot;
  for (uint64_t back = 1; back <= count; ++back) {
    if (!read_slots(new_head - back, 1, &slot)) return false;
    if (slot[0] == 0) continue;
    const uint64_t index = claimed_index(slot[0]);
    if (index >= new_head - capacity && index - new_head + capacity <= kMaxJump &&
        classify(slot, index, mask) == SlotState::kGood)
      return true;
  }
  return newest_published(new_head - capacity).has_value();
}

void RingReader::Impl::note_short(ReadStats& pass) {
  if (!short_file) pass.damaged++;
  short_file = true;
}

// Brings `head` and `next` up to date. False when there is nothing to read.
bool RingReader::Impl::follow_head(ReadStats& pass) {
  const auto claimed = header_word(offsetof(Header, head));
  if (!claimed) {
    note_short(pass);
    return false;
  }
  uint64_t now = *claimed;
  const bool back = now < next;
  if (back || (now - next > capacity && !plausible(now))) {
    pass.damaged++;
    if (const auto newest = newest_published(next)) {
      now = *newest + 1;  // what is there is still read; the header is asked again with the next pass
    } else {
      // The writer counts on from a head that was scribbled over: go along, nothing before it can be told apart.
      next = now;
      stuck_head = 0;
    }
  }
  head = now;
  if (head - next > capacity) {
    pass.lost += head - next - capacity;
    next = head - capacity;
  }
  return next < head;
}

// One slot, copied as `seen`, for record number `next`. False when the pass must stop here.
bool RingReader::Impl::take(const RawSlot& seen, uint64_t now_ns, bool final, std::vector<Record>& out,
                            ReadStats& pass) {
  RawSlot slot = seen;
  SlotState state = classify(slot, next, mask);
  // A copy may mix two states of a slot that is being overwritten: look again before calling it scribbled.
  for (int again = 0; state == SlotState::kScribbled && again < 2; ++again) {
    if (!read_slots(next, 1, &slot)) break;
    state = classify(slot, next, mask);
  }
  switch (state) {
    case SlotState::kGood: {
      Record record;
      memcpy(static_cast<void*>(&record), &slot[1], sizeof record);
      out.push_back(record);
      pass.read++;
      break;
    }
    case SlotState::kOverwritten: pass.lost++; break;
    case SlotState::kScribbled: pass.torn++; break;
    case SlotState::kPending:
      if (!final) {
        if (next >= stuck_head) {
          stuck_head = head;
          stuck_since_ns = now_ns;
        }
        if (now_ns - stuck_since_ns <= kStuckNs || now_ns < stuck_since_ns) return false;
      }
      pass.torn++;
      break;
  }
  next++;
  return true;
}

Result<RingReader> RingReader::open(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  int fd = ::open(path.c_str(), O_RDWR | kFlags);
  if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) fd = ::open(path.c_str(), O_RDONLY | kFlags);
  if (fd < 0) return fail(path + ": " + errno_text(errno));
  return from_fd(fd, path);
}

Result<RingReader> RingReader::from_fd(int fd, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  impl->fd.reset(fd);
  impl->path = name;
  struct stat st;
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return fail(name + ": not a regular file");
  HeaderBytes h;
  if (static_cast<uint64_t>(st.st_size) < kHeaderBytes || !pread_all(fd, h.data(), h.size(), 0))
    return fail(name + ": not a black box: shorter than its header");
  if (Status status = impl->check_header(h, static_cast<uint64_t>(st.st_size)); !status)
    return std::unexpected(status.error());
  impl->identity = identity_from(h);
  return RingReader(impl.release());
}

RingReader::RingReader(RingReader&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}

RingReader& RingReader::operator=(RingReader&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

RingReader::~RingReader() { delete impl_; }

Identity RingReader::identity() const {
  HeaderBytes h;
  if (pread_all(impl_->fd.get(), h.data(), h.size(), 0) && impl_->intact(h)) impl_->identity = identity_from(h);
  return impl_->identity;
}

ReadStats RingReader::read(std::vector<Record>& out, size_t max, uint64_t now_ns, bool final) {
  Impl& r = *impl_;
  ReadStats pass;
  bool going = r.follow_head(pass);
  while (going && r.next < r.head && pass.read < max) {
    const uint64_t to_end_of_ring = r.capacity - (r.next & r.mask);
    const uint64_t count = std::min({r.head - r.next, to_end_of_ring, kSlotsPerRead, uint64_t{max} - pass.read});
    if (!r.read_slots(r.next, count, r.buffer.data())) {
      r.note_short(pass);
      break;
    }
    for (uint64_t i = 0; going && i < count; ++i) going = r.take(r.buffer[i], now_ns, final, out, pass);
  }
  r.totals += pass;
  return pass;
}

void RingReader::read_names(std::vector<Name>& out) {
  Impl& r = *impl_;
  if (r.names_broken) return;
  const auto claimed = header_word_or_zero(offsetof(Header, names_head));
  const uint64_t limit = std::min<uint64_t>(claimed, r.names_bytes);
  std::vector<char> entry;
  while (r.names_at + sizeof(NameEntry) <= limit) {
    // Two reads: only what is copied after `ready` was seen is sure to be whole.
    uint32_t ready;
    if (!pread_all(r.fd.get(), &ready, sizeof ready, kHeaderBytes + r.names_at) || ready == 0) return;
    char head[sizeof(NameEntry)];
    if (!pread_all(r.fd.get(), head, sizeof head, kHeaderBytes + r.names_at)) return;
    uint16_t kind, length;
    uint64_t id;
    memcpy(&kind, head + offsetof(NameEntry, kind), sizeof kind);
    memcpy(&length, head + offsetof(NameEntry, length), sizeof length);
    memcpy(&id, head + offsetof(NameEntry, id), sizeof id);
    if (ready != kNameReady || name_entry_bytes(length) > limit - r.names_at) {
      r.names_broken = true;  // scribbled: where the next entry begins is not known any more
      r.totals.damaged++;
      return;
    }
    entry.resize(length);
    if (!pread_all(r.fd.get(), entry.data(), length, kHeaderBytes + r.names_at + sizeof(NameEntry))) return;
    out.push_back({static_cast<NameKind>(kind), id, printable({entry.data(), entry.size()})});
    r.names_at += name_entry_bytes(length);
  }
}

uint64_t RingReader::header_word_or_zero(size_t offset) const { return impl_->header_word(offset).value_or(0); }

uint64_t RingReader::names_dropped() const { return header_word_or_zero(offsetof(Header, names_dropped)); }

void RingReader::rewind() {
  Impl& r = *impl_;
  r.next = r.head = r.names_at = r.stuck_head = r.stuck_since_ns = 0;
  r.totals = {};
  r.short_file = r.names_broken = false;
}

ReadStats RingReader::totals() const { return impl_->totals; }
uint64_t RingReader::head() const { return impl_->head; }
uint64_t RingReader::capacity() const { return impl_->capacity; }
const std::string& RingReader::path() const { return impl_->path; }

Status RingReader::set_control(ControlWord word, uint64_t value) {
  const size_t at = offsetof(Header, control) + sizeof(uint64_t) * static_cast<uint32_t>(word);
  struct stat st;
  if (::fstat(impl_->fd.get(), &st) != 0 || static_cast<uint64_t>(st.st_size) < kHeaderBytes)
    return fail(impl_->path + ": black box is truncated");  // writing would make the file grow again
  if (::pwrite(impl_->fd.get(), &value, sizeof value, static_cast<off_t>(at)) == static_cast<ssize_t>(sizeof value))
    return {};
  return fail(impl_->path + ": cannot write a control word: " + errno_text(errno));
}

uint64_t RingReader::control(ControlWord word) const {
  return header_word_or_zero(offsetof(Header, control) + sizeof(uint64_t) * static_cast<uint32_t>(word));
}

namespace {

// StackBox as plain words.
struct RawStack {
  uint32_t signal, answered;
  uint64_t time_ns, pc;
  uint32_t thread, flags, frames, text_bytes;
  uint32_t reserved[6];
  char text[kStackTextBytes];
  uint32_t ready[kStackThreads];
};
static_assert(sizeof(RawStack) == sizeof(StackBox) && offsetof(RawStack, text) == offsetof(StackBox, text));

void parse_frames(std::string_view text, std::vector<StackFrame>& out) {
  while (!text.empty() && out.size() < kMaxStackFrames) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t name_at = line.find(' '), file_at = line.find(' ', name_at + 1);
    if (name_at == line.npos || file_at == line.npos) return;  // no writer of ours wrote that
    StackFrame frame;
    std::from_chars(line.data(), line.data() + name_at, frame.line);
    frame.function = printable(line.substr(name_at + 1, file_at - name_at - 1));
    const std::string_view file = line.substr(file_at + 1);
    frame.file = file == "\"" && !out.empty() ? out.back().file : printable(file);
    out.push_back(std::move(frame));
  }
}

}  // namespace

int RingReader::stack_signal() const {
  const auto signal = static_cast<uint32_t>(header_word_or_zero(offsetof(Header, stack)));
  return signal <= 64 ? static_cast<int>(signal) : 0;
}

bool RingReader::may_ask(uint32_t thread) const {
  uint32_t ready[kStackThreads];
  return thread != 0 &&
         pread_all(impl_->fd.get(), ready, sizeof ready, offsetof(Header, stack) + offsetof(StackBox, ready)) &&
         std::ranges::find(ready, thread) != std::end(ready);
}

std::optional<StackReading> RingReader::stack() const {
  RawStack raw, again;
  if (!pread_all(impl_->fd.get(), &raw, sizeof raw, offsetof(Header, stack)) || raw.answered == 0 ||
      raw.answered % 2 != 0 || raw.text_bytes > kStackTextBytes)
    return std::nullopt;
  if (!pread_all(impl_->fd.get(), &again, sizeof again, offsetof(Header, stack)) || raw.answered != again.answered ||
      raw.time_ns != again.time_ns)
    return std::nullopt;
  StackReading reading{raw.answered / 2 - 1, raw.thread, raw.flags, raw.time_ns, raw.pc, {}};
  parse_frames({raw.text, raw.text_bytes}, reading.frames);
  return reading;
}

}  // namespace stepscope::blackbox
