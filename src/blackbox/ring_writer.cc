#include "blackbox/ring_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

namespace stepscope::blackbox {
namespace {

std::string reason(const char* what, const std::string& path, int error) {
  return std::string(what) + " " + path + ": " + errno_text(error);
}

// The largest capacity whose fair share of the file system is not exceeded.
uint64_t fair_capacity(int fd, const RingOptions& options) {
  struct statvfs fs;
  uint64_t capacity = options.capacity;
  if (::fstatvfs(fd, &fs) != 0 || fs.f_blocks == 0) return capacity;  // tmpfs without a limit reports 0 blocks
  const uint64_t share = static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize / 4 / std::max<uint32_t>(options.siblings, 1);
  while (capacity / 2 >= options.min_capacity && file_bytes(capacity, options.names_bytes) > share) capacity /= 2;
  return capacity;
}

// Reserves the space, halving the capacity while there is none. Returns the capacity, or 0 with errno.
uint64_t reserve(int fd, const RingOptions& options) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  int error = ENOSPC;
  for (uint64_t capacity = fair_capacity(fd, options); capacity >= std::max<uint64_t>(options.min_capacity, 1);
       capacity /= 2) {
    const size_t bytes = file_bytes(capacity, options.names_bytes);
    if (limited && bytes > limit.rlim_cur) {  // would raise SIGXFSZ, whose default is to kill the training
      error = EFBIG;
      continue;
    }
    error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    if (error == 0) {
      if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0) return capacity;
      error = errno;
    }
    if (::ftruncate(fd, 0) != 0) break;
    if (error != ENOSPC && error != ENOMEM && error != EDQUOT && error != EFBIG && error != EINTR) break;
  }
  errno = error;
  return 0;
}

// Field 22 of /proc/self/stat. The command name may hold spaces and brackets: count from the last ')'.
uint64_t own_start_ticks() {
  char text[1024];
  Fd fd(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return 0;
  const ssize_t n = ::read(fd.get(), text, sizeof text - 1);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = strrchr(text, ')');
  for (int field = 2; at && field < 22; ++field) at = strchr(at + 1, ' ');
  return at ? strtoull(at + 1, nullptr, 10) : 0;
}

// When the kernel started this process, on CLOCK_MONOTONIC, to one clock tick; `otherwise` where it does not tell.
uint64_t start_ns_of(uint64_t ticks, uint64_t otherwise) {
  const long hz = ::sysconf(_SC_CLK_TCK);
  if (ticks == 0 || hz <= 0) return otherwise;
  // Ticks count from boot, time suspended included; CLOCK_MONOTONIC leaves that out.
  const uint64_t now_ns = monotonic_ns();
  const uint64_t suspended_ns = clock_ns(CLOCK_BOOTTIME) - now_ns;  // read second: never negative
  const uint64_t start_ns = ticks * (1'000'000'000ull / static_cast<uint64_t>(hz));
  return start_ns > suspended_ns ? std::min(start_ns - suspended_ns, otherwise) : otherwise;
}

void fill_header(Header& h, uint64_t capacity, uint32_t names_bytes) {
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.header_bytes = kHeaderBytes;
  h.record_bytes = kRecordBytes;
  h.names_bytes = names_bytes;
  h.capacity = capacity;
  h.attempt.store(0, std::memory_order_relaxed);
  for (auto* field : {&h.rank, &h.local_rank, &h.world_size, &h.node_rank}) field->store(-1, std::memory_order_relaxed);
  h.pid = static_cast<int32_t>(::getpid());
  h.pid_start_ticks = own_start_ticks();
  if (::gethostname(h.hostname, sizeof h.hostname) != 0) h.hostname[0] = 0;
  h.hostname[sizeof h.hostname - 1] = 0;
  h.anchor_monotonic_ns = monotonic_ns();
  h.anchor_realtime_ns = realtime_ns();
  h.process_start_ns = start_ns_of(h.pid_start_ticks, h.anchor_monotonic_ns);
}

bool rename_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // A file system without the flag: link() refuses an existing name as well.
  if (errno != EINVAL && errno != ENOSYS) return false;
  if (::link(from.c_str(), to.c_str()) != 0) return false;
  ::unlink(from.c_str());
  return true;
}

}  // namespace

RingWriter::RingWriter(std::string path, void* base, uint64_t capacity, uint32_t names_bytes)
    : header_(static_cast<Header*>(base)),
      slots_(reinterpret_cast<Slot*>(static_cast<char*>(base) + kHeaderBytes + names_bytes)),
      mask_(capacity - 1),
      names_(static_cast<char*>(base) + kHeaderBytes),
      names_bytes_(names_bytes),
      bytes_(file_bytes(capacity, names_bytes)),
      path_(std::move(path)) {}

RingWriter::~RingWriter() { ::munmap(header_, bytes_); }

Result<std::unique_ptr<RingWriter>> RingWriter::create(const std::string& path, const RingOptions& options) {
  if (!std::has_single_bit(options.capacity) || options.capacity > kMaxCapacity || options.min_capacity == 0 ||
      options.names_bytes % 64 != 0 || options.names_bytes > kMaxNamesBytes)
    return fail("black box " + path + ": capacity must be a power of two and names_bytes a multiple of 64");
  const std::string unfinished = path + ".new";
  Fd fd(::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0) return fail(reason("cannot create", unfinished, errno));
  auto give_up = [&](const char* what, int error) {
    ::unlink(unfinished.c_str());
    return fail(reason(what, path, error));
  };
  const uint64_t capacity = reserve(fd.get(), options);
  if (capacity == 0) return give_up("no room in shared memory for", errno);
  const size_t bytes = file_bytes(capacity, options.names_bytes);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (base == MAP_FAILED) return give_up("cannot map", errno);
  std::unique_ptr<RingWriter> writer(new RingWriter(path, base, capacity, options.names_bytes));
  fill_header(writer->header(), capacity, options.names_bytes);
  if (!rename_new(unfinished, path)) return give_up("cannot name", errno);
  return writer;
}

Result<std::unique_ptr<RingWriter>> RingWriter::attach(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return fail(reason("cannot open", path, errno));
  struct stat st;
  Header h{};
  if (::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) ||
      ::pread(fd.get(), static_cast<void*>(&h), sizeof h, 0) != static_cast<ssize_t>(sizeof h))
    return fail(path + ": not a black box");
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.version != kVersion || h.header_bytes != kHeaderBytes ||
      h.record_bytes != kRecordBytes || h.names_bytes % 64 != 0 || !std::has_single_bit(h.capacity) ||
      h.capacity > kMaxCapacity || file_bytes(h.capacity, h.names_bytes) > static_cast<uint64_t>(st.st_size))
    return fail(path + ": not a black box of version " + std::to_string(kVersion));
  const size_t bytes = file_bytes(h.capacity, h.names_bytes);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (base == MAP_FAILED) return fail(reason("cannot map", path, errno));
  return std::unique_ptr<RingWriter>(new RingWriter(path, base, h.capacity, h.names_bytes));
}

namespace {

// The newest text of this id among the complete entries in the first `written` bytes; nothing when it has none.
std::optional<std::string_view> newest_text(const char* names, uint64_t written, NameKind kind, uint64_t id) noexcept {
  std::optional<std::string_view> newest;
  for (uint64_t at = 0; written - at >= sizeof(NameEntry);) {
    const auto* entry = reinterpret_cast<const NameEntry*>(names + at);
    if (entry->ready.load(std::memory_order_acquire) != kNameReady) break;
    const uint64_t size = name_entry_bytes(entry->length);
    if (size > written - at) break;
    if (entry->kind == static_cast<uint16_t>(kind) && entry->id == id)
      newest = std::string_view(names + at + sizeof(NameEntry), entry->length);
    at += size;
  }
  return newest;
}

}  // namespace

bool RingWriter::add_name(NameKind kind, uint64_t id, std::string_view text) noexcept {
  const uint16_t length = static_cast<uint16_t>(std::min<size_t>(text.size(), kMaxNameLength));
  const uint64_t written = std::min<uint64_t>(header_->names_head.load(std::memory_order_relaxed), names_bytes_);
  if (newest_text(names_, written, kind, id) == text.substr(0, length)) return true;
  const uint64_t size = name_entry_bytes(length);
  const uint64_t room = names_bytes_ - names_left_to_others(kind, names_bytes_);
  uint64_t at = header_->names_head.load(std::memory_order_relaxed);
  do {
    if (at % 8 != 0 || at > room || size > room - at) {
      header_->names_dropped.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } while (!header_->names_head.compare_exchange_weak(at, at + size, std::memory_order_relaxed));
  auto* entry = reinterpret_cast<NameEntry*>(names_ + at);
  entry->kind = static_cast<uint16_t>(kind);
  entry->length = length;
  entry->id = id;
  if (length > 0) std::memcpy(names_ + at + sizeof(NameEntry), text.data(), length);  // data() may be null
  entry->ready.store(kNameReady, std::memory_order_release);
  return true;
}

}  // namespace stepscope::blackbox
