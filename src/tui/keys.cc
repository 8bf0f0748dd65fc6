#include "tui/keys.h"

#include <optional>

namespace stepscope::tui {
namespace {

constexpr char kEscapeByte = '\x1b';

struct Sequence {
  std::string_view bytes;
  KeyKind kind;
};
// As xterm, rxvt, the Linux console, screen and tmux send them.
constexpr Sequence kSequences[] = {
    {"\x1b[A", KeyKind::kUp},        {"\x1b[B", KeyKind::kDown},  {"\x1b[C", KeyKind::kRight},
    {"\x1b[D", KeyKind::kLeft},      {"\x1bOA", KeyKind::kUp},    {"\x1bOB", KeyKind::kDown},
    {"\x1bOC", KeyKind::kRight},     {"\x1bOD", KeyKind::kLeft},  {"\x1b[5~", KeyKind::kPageUp},
    {"\x1b[6~", KeyKind::kPageDown}, {"\x1b[H", KeyKind::kHome},  {"\x1b[F", KeyKind::kEnd},
    {"\x1bOH", KeyKind::kHome},      {"\x1bOF", KeyKind::kEnd},   {"\x1b[1~", KeyKind::kHome},
    {"\x1b[4~", KeyKind::kEnd},      {"\x1b[7~", KeyKind::kHome}, {"\x1b[8~", KeyKind::kEnd},
    {"\x1b[Z", KeyKind::kBackTab},
};

// Where a sequence begins at the front of `bytes`: its length; 0 = more is to come.
size_t sequence_length(std::string_view bytes) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  if (bytes[1] != '[') return 1;  // Escape itself, then another key
  for (size_t i = 2; i < bytes.size(); ++i)
    if (bytes[i] >= 0x40 && bytes[i] <= 0x7e) return i + 1;
  return bytes.size() > 32 ? bytes.size() : 0;  // no key is that long
}

std::optional<Key> plain_key(char byte) {
  switch (byte) {
    case '\r':
    case '\n': return Key{KeyKind::kEnter};
    case '\t': return Key{KeyKind::kTab};
    case 0x7f:
    case 0x08: return Key{KeyKind::kBackspace};
    default: break;
  }
  if (byte < 0x20) return std::nullopt;
  return Key{KeyKind::kChar, byte};
}

}  // namespace

std::vector<Key> KeyDecoder::feed(std::string_view bytes) {
  std::vector<Key> keys;
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    if (rest[0] != kEscapeByte) {
      if (const auto key = plain_key(rest[0])) keys.push_back(*key);
      rest.remove_prefix(1);
      continue;
    }
    const size_t length = sequence_length(rest);
    if (length == 0) break;
    if (length == 1) keys.push_back({KeyKind::kEscape});
    for (const Sequence& s : kSequences)
      if (s.bytes == rest.substr(0, length)) keys.push_back({s.kind});
    rest.remove_prefix(length);
  }
  pending_ = std::string(rest);
  return keys;
}

std::vector<Key> KeyDecoder::flush() {
  const bool escape = pending_ == "\x1b";
  pending_.clear();
  return escape ? std::vector<Key>{{KeyKind::kEscape}} : std::vector<Key>{};
}

}  // namespace stepscope::tui
