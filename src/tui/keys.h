// Keys out of the bytes that a terminal sends. Pure. A byte sequence may come in pieces: what could still become a key
// is kept until more arrives or flush() says that nothing does (a lone Escape).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepscope::tui {

enum class KeyKind : unsigned char {
  kChar,
  kEnter,
  kEscape,
  kTab,
  kBackTab,
  kBackspace,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
};

struct Key {
  KeyKind kind = KeyKind::kChar;
  char character = 0;  // of kChar, ASCII; what is typed beyond ASCII means nothing to us and is left out

  bool operator==(const Key&) const = default;
};

class KeyDecoder {
 public:
  std::vector<Key> feed(std::string_view bytes);
  std::vector<Key> flush();

 private:
  std::string pending_;
};

}  // namespace stepscope::tui
