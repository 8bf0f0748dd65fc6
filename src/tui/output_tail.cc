#include "tui/output_tail.h"

#include <cctype>

#include "report/text_layout.h"

namespace stepscope::tui {
namespace {

// "[rank3]: text" → 3 and "text".
OutputLine line_of(std::string_view text) {
  OutputLine line{.rank = -1, .text = printable(text)};
  const size_t close = text.find("]:");
  if (!text.starts_with('[') || close == std::string_view::npos) return line;
  size_t digits = close;
  while (digits > 1 && std::isdigit(static_cast<unsigned char>(text[digits - 1]))) --digits;
  if (digits == close || close - digits > 6) return line;
  for (const char c : text.substr(1, digits - 1))
    if (!std::isalpha(static_cast<unsigned char>(c)) && c != '_') return line;
  line.rank = std::stoi(std::string(text.substr(digits, close - digits)));
  text.remove_prefix(close + 2);
  line.text = printable(text.substr(text.starts_with(' ') ? 1 : 0));
  return line;
}

}  // namespace

void OutputTail::feed(std::string_view bytes) {
  for (const char byte : bytes) take(byte);
  if (open_.empty()) return;
  if (open_shown_) lines_.pop_back();
  lines_.push_back(line_of(open_));
  open_shown_ = true;
}

void OutputTail::end_line() {
  if (open_shown_) lines_.pop_back();
  lines_.push_back(line_of(open_));
  if (lines_.size() > kMaxLines) lines_.pop_front();
  open_.clear();
  open_shown_ = returned_ = false;
}

void OutputTail::take(char byte) {
  switch (state_) {
    case State::kEscape:
      state_ = byte == '[' ? State::kSequence : byte == ']' || byte == 'P' ? State::kCommand : State::kText;
      return;
    case State::kSequence:
      if (byte >= 0x40 && byte <= 0x7e) state_ = State::kText;
      return;
    case State::kCommand:  // until BEL, or Escape and a backslash
      state_ = byte == '\a' ? State::kText : byte == '\x1b' ? State::kCommandEnd : State::kCommand;
      return;
    case State::kCommandEnd: state_ = State::kText; return;
    case State::kText: break;
  }
  if (byte == '\x1b') {
    state_ = State::kEscape;
  } else if (byte == '\n') {
    end_line();
  } else if (byte == '\r') {
    returned_ = true;
  } else {
    if (returned_) open_.clear();
    returned_ = false;
    if (open_.size() < kMaxBytes) open_ += byte == '\t' ? ' ' : byte;
  }
}

}  // namespace stepscope::tui
