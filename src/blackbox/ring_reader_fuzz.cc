// The reader on a file of arbitrary bytes, live: read, damaged while open, read again, rewound.
//
// Input: 16 bytes of script, then the file. The script says what is done to the file between the passes; its last byte
// asks for a repair of the fields that open() checks, so that most inputs get past it, and of some slots' check words.
// Unless the script says otherwise the bytes are what follows the header, which is all zeros but for eight of them, and
// the file is filled up to a few slots: short inputs are whole rings.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "blackbox/ring_reader.h"

namespace {

using namespace stepscope::blackbox;

constexpr size_t kScript = 16;
constexpr size_t kMaxFile = 64 * 1024;
constexpr size_t kLeastBody = 2048;

template <class T>
void put(std::vector<uint8_t>& file, size_t at, const T& value) {
  if (at + sizeof value <= file.size()) std::memcpy(file.data() + at, &value, sizeof value);
}

void repair(std::vector<uint8_t>& file, uint8_t how) {
  if (!(how & 1) || file.size() < kHeaderBytes + kRecordBytes) return;
  const uint32_t names_bytes = (file.size() - kHeaderBytes) / 4 & ~63u;
  const uint64_t capacity = std::bit_floor((file.size() - kHeaderBytes - names_bytes) / kRecordBytes);
  std::memcpy(file.data(), kMagic, sizeof kMagic);
  put(file, offsetof(Header, version), kVersion);
  put(file, offsetof(Header, header_bytes), kHeaderBytes);
  put(file, offsetof(Header, record_bytes), kRecordBytes);
  put(file, offsetof(Header, names_bytes), names_bytes);
  put(file, offsetof(Header, capacity), capacity);
  if (how & 2) put(file, offsetof(Header, head), uint64_t{how} * capacity / 64);
  if (how & 4) put(file, offsetof(Header, names_head), uint64_t{names_bytes});
  if (!(how & 8)) return;
  for (uint64_t i = 0; i < capacity; i += 1 + (how >> 5)) {  // whole records of round 0 or 1
    const size_t at = kHeaderBytes + names_bytes + i * kRecordBytes;
    const uint64_t index = i + (how & 16 ? capacity : 0);
    uint64_t words[6];
    std::memcpy(words, file.data() + at + 8, sizeof words);
    put(file, at, 2 * index + 2);
    put(file, at + 56, checksum(index, words));
  }
}

void expect(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kScript || size > kMaxFile) return 0;
  const uint8_t* script = data;
  std::vector<uint8_t> file(data + kScript, data + size);
  if (!(script[14] & 1)) {
    uint8_t eight[8] = {};
    std::memcpy(eight, file.data(), std::min(file.size(), sizeof eight));
    file.insert(file.begin(), kHeaderBytes, 0);
    if (script[14] & 2) std::memcpy(file.data() + script[13] * sizeof(Header) / 264, eight, sizeof eight);
    file.resize(std::max(file.size(), kHeaderBytes + kLeastBody));
  }
  repair(file, script[15]);

  const int fd = ::memfd_create("ring", MFD_CLOEXEC);
  const int second = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);  // the "writer" side; the reader owns the first
  expect(::write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  auto reader = RingReader::from_fd(fd, "fuzz");
  if (!reader) {
    expect(!reader.error().message.empty());
    ::close(second);
    return 0;
  }
  std::vector<Record> records;
  std::vector<Name> names;
  uint64_t now_ns = 0;
  for (int i = 0; i < 14; ++i) {
    now_ns += uint64_t{script[i]} * 10'000'000;
    const ReadStats pass = reader->read(records, script[i] % 32 * 8, now_ns, i == 13);
    expect(pass.read <= reader->capacity() && pass.torn <= 2 * reader->capacity());
    reader->read_names(names);
    reader->identity();
    switch (script[i] % 8) {
      case 0: expect(::ftruncate(second, file.size() * script[i + 1] / 256) == 0); break;
      case 1: reader->rewind(); break;
      case 2: expect(::pwrite(second, data, size, script[i + 1] * 16) == static_cast<ssize_t>(size)); break;
      case 3: (void)reader->set_control(ControlWord::kStop, script[i]); break;
      case 4: {
        const uint64_t head = uint64_t{script[i + 1]} << script[i] / 4;
        expect(::pwrite(second, &head, sizeof head, offsetof(Header, head)) == sizeof head);
        break;
      }
      default: break;
    }
  }
  expect(records.size() <= 15 * reader->capacity());
  for (const Name& n : names) expect(n.text.size() <= kMaxNameLength);
  ::close(second);
  return 0;
}
