#include "recorder/frame_walk.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace stepscope::recorder {
namespace {

constexpr size_t kMostPath = 96;           // of a file's path, its end
constexpr size_t kMostName = 96;           // of a function's name
constexpr size_t kMostLineTable = 65'536;  // bytes of a code object's line table that are looked at
constexpr uint64_t kMostText = 4096;       // a longer str is no path

// Places that are the same in all versions that are known.
constexpr size_t kObjectType = 8, kVarSize = 16, kBytesData = 32, kTextLength = 16, kTextState = 32;

constexpr FrameLayout kLayouts[] = {
    {.minor = 11,
     .thread_frames = 56,
     .frames_current = 8,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_owner = 69,
     .code_first_line = 72,
     .code_file = 112,
     .code_name = 128,
     .code_lines = 136,
     .code_instructions = 184,
     .text_ascii = 48,
     .text_other = 72,
     .text_utf8 = 56},
    {.minor = 12,
     .thread_frames = 56,
     .frames_current = 0,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .owner_of_c = 3,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_lines = 136,
     .code_instructions = 192,
     .text_ascii = 40,
     .text_other = 56,
     .text_utf8 = 48},
    {.minor = 13,
     .thread_frames = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .owner_of_c = 3,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_lines = 136,
     .code_instructions = 200,
     .text_ascii = 40,
     .text_other = 56,
     .text_utf8 = 48},
};

bool read_memory(uintptr_t from, void* to, size_t bytes) {
  iovec here{to, bytes};
  iovec there{reinterpret_cast<void*>(from), bytes};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

template <class T>
bool read_value(uintptr_t at, T& value) {
  return read_memory(at, &value, sizeof value);
}

template <class T>
T field(const unsigned char* bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

size_t encode(uint32_t letter, char (&out)[4]) {
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | (letter >> shift & 63)); };
  if (letter < 0x80) return out[0] = static_cast<char>(letter), 1;
  if (letter < 0x800) return out[0] = static_cast<char>(0xc0 | letter >> 6), out[1] = rest(0), 2;
  if (letter < 0x10000) return out[0] = static_cast<char>(0xe0 | letter >> 12), out[1] = rest(6), out[2] = rest(0), 3;
  return out[0] = static_cast<char>(0xf0 | (letter >> 18 & 7)), out[1] = rest(12), out[2] = rest(6), out[3] = rest(0),
         4;
}

// The end of a str, at most `room` bytes of UTF-8.
size_t read_text(const FrameLayout& layout, uintptr_t object, char* out, size_t room) {
  unsigned char head[80];
  if (!object || !read_memory(object, head, layout.text_ascii)) return 0;
  const auto length = field<uint64_t>(head, kTextLength);
  const auto state = field<uint32_t>(head, kTextState);
  const uint32_t kind = state >> 2 & 7;
  const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
  if (!compact || length == 0 || length > kMostText) return 0;
  const auto take_end = [&](uintptr_t data, uint64_t bytes) -> size_t {
    const size_t take = std::min<uint64_t>(bytes, room);
    return read_memory(data + (bytes - take), out, take) ? take : 0;
  };
  if (ascii) return take_end(object + layout.text_ascii, length);
  if (!read_memory(object, head, layout.text_other)) return 0;
  const auto utf8 = field<uint64_t>(head, layout.text_utf8);
  // Its length stands before the pointer.
  const auto utf8_length = field<uint64_t>(head, layout.text_utf8 - sizeof(uint64_t));
  if (utf8 && utf8_length <= kMostText * 4) return take_end(utf8, utf8_length);
  if (kind != 1 && kind != 2 && kind != 4) return 0;
  size_t used = 0;
  const uint64_t first = length - std::min<uint64_t>(length, room / 2);  // most letters need two bytes
  for (uint64_t i = first; i < length; ++i) {
    uint32_t letter = 0;
    if (!read_memory(object + layout.text_other + i * kind, &letter, kind)) break;
    char bytes[4];
    const size_t size = encode(letter, bytes);
    if (size > room - used) break;
    std::memcpy(out + used, bytes, size);
    used += size;
  }
  return used;
}

// Reads a code object's line table byte by byte, some at a time.
class TableBytes {
 public:
  TableBytes(uintptr_t at, size_t size) : at_(at), left_(std::min(size, kMostLineTable)) {}
  // -1 at the end.
  int next() {
    if (used_ == have_) {
      have_ = std::min(left_, sizeof buffer_);
      if (have_ == 0 || !read_memory(at_, buffer_, have_)) return have_ = used_ = left_ = 0, -1;
      at_ += have_, left_ -= have_, used_ = 0;
    }
    return buffer_[used_++];
  }

 private:
  uintptr_t at_;
  size_t left_, have_ = 0, used_ = 0;
  unsigned char buffer_[256];
};

int read_varint(TableBytes& bytes) {
  uint32_t value = 0;
  for (int shift = 0; shift < 30; shift += 6) {
    const int byte = bytes.next();
    if (byte < 0) return 0;
    value |= static_cast<uint32_t>(byte & 63) << shift;
    if (!(byte & 64)) break;
  }
  return static_cast<int>(value);
}

// The line of the instruction at `offset` bytes, by the location table of Python 3.11 and newer; 0 = none.
int line_at(uintptr_t table, int first_line, int64_t offset) {
  uint64_t size = 0;
  if (offset < 0) return first_line;
  if (!table || !read_value(table + kVarSize, size)) return 0;
  TableBytes bytes(table + kBytesData, size);
  int line = first_line;
  int64_t at = 0;
  for (int byte = bytes.next(); byte >= 0;) {
    const int code = byte >> 3 & 15;
    const int64_t end = at + ((byte & 7) + 1) * 2;
    if (code == 13 || code == 14) {
      const int value = read_varint(bytes);
      line += value & 1 ? -(value >> 1) : value >> 1;
    } else if (code >= 10 && code <= 12) {
      line += code - 10;
    }
    if (offset < end) return code == 15 ? 0 : line;
    at = end;
    do byte = bytes.next();
    while (byte >= 0 && !(byte & 0x80));  // the rest of the entry: columns
  }
  return 0;
}

struct Line {
  char* at;
  char* end;
  bool put(const char* text, size_t size) {
    if (size > static_cast<size_t>(end - at)) return false;
    std::memcpy(at, text, size);
    at += size;
    return true;
  }
  bool put_number(unsigned value) {
    char digits[12];
    size_t size = 0;
    do digits[sizeof digits - ++size] = static_cast<char>('0' + value % 10);
    while ((value /= 10) > 0);
    return put(digits + sizeof digits - size, size);
  }
};

// Whole path components from the end, as many as fit.
const char* path_end(const char* text, size_t size, size_t& kept) {
  kept = size;
  if (size < kMostPath) return text;
  const auto* slash = static_cast<const char*>(std::memchr(text, '/', size));
  if (!slash || slash + 1 == text + size) return text;
  kept = static_cast<size_t>(text + size - (slash + 1));
  return slash + 1;
}

void replace_blanks(char* text, size_t size, bool spaces) {
  for (size_t i = 0; i < size; ++i)
    if (static_cast<unsigned char>(text[i]) < 32 || (spaces && text[i] == ' ')) text[i] = '_';
}

}  // namespace

const FrameLayout* frame_layout(int major, int minor) noexcept {
  for (const FrameLayout& layout : kLayouts)
    if (major == 3 && layout.minor == minor && sizeof(void*) == 8) return &layout;
  return nullptr;
}

bool can_read_itself() noexcept {
  const uint64_t here = 0x5354455053434f50;
  uint64_t copy = 0;
  return read_value(reinterpret_cast<uintptr_t>(&here), copy) && copy == here;
}

WalkedStack walk_frames(const FrameLayout& layout, uintptr_t thread_state, uintptr_t code_type, char* text,
                        size_t room) noexcept {
  WalkedStack walked;
  uintptr_t frame = 0, last_file = 0;
  if (!read_value(thread_state + layout.thread_frames, frame)) return walked;
  if (layout.frames_current >= 0 && !read_value(frame + static_cast<size_t>(layout.frames_current), frame))
    return walked;
  Line line{text, text + room};
  // Frames of C code stand between those of Python.
  for (int depth = 0; frame && depth < 2 * kMaxFrames; ++depth) {
    unsigned char bytes[72], code[208];
    if (!read_memory(frame, bytes, sizeof bytes)) break;
    frame = field<uintptr_t>(bytes, layout.frame_previous);
    const auto object = field<uintptr_t>(bytes, layout.frame_code);
    if (bytes[layout.frame_owner] == layout.owner_of_c || !read_memory(object, code, layout.code_instructions))
      continue;
    if (field<uintptr_t>(code, kObjectType) != code_type) continue;
    if (walked.frames == kMaxFrames) {
      walked.cut = true;
      break;
    }
    const auto instruction = field<uintptr_t>(bytes, layout.frame_instruction);
    const auto offset = static_cast<int64_t>(instruction - (object + layout.code_instructions));
    const int number =
        line_at(field<uintptr_t>(code, layout.code_lines), field<int32_t>(code, layout.code_first_line), offset);
    char name[kMostName], path[kMostPath];
    const size_t name_size = read_text(layout, field<uintptr_t>(code, layout.code_name), name, sizeof name);
    replace_blanks(name, name_size, true);
    const auto file = field<uintptr_t>(code, layout.code_file);
    const bool same = file == last_file;
    size_t path_size = same ? 0 : read_text(layout, file, path, sizeof path);
    replace_blanks(path, path_size, false);
    const char* shown = same ? "\"" : path_end(path, path_size, path_size);
    if (same) path_size = 1;
    const Line before = line;
    const bool fits = line.put_number(static_cast<unsigned>(std::max(number, 0))) && line.put(" ", 1) &&
                      (name_size > 0 ? line.put(name, name_size) : line.put("?", 1)) && line.put(" ", 1) &&
                      (path_size > 0 ? line.put(shown, path_size) : line.put("?", 1)) && line.put("\n", 1);
    if (!fits) {
      line = before;
      walked.cut = true;
      break;
    }
    last_file = file;
    ++walked.frames;
  }
  walked.bytes = static_cast<uint32_t>(line.at - text);
  return walked;
}

}  // namespace stepscope::recorder
