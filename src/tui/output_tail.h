// The last lines that a training wrote, cleaned for a screen: escape sequences taken out, what a carriage return
// overwrote gone (progress bars), the rank told from the prefix that torchrun or torch puts before a line ("[rank3]:",
// "[default3]:"). Bounded. Pure.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace stepscope::tui {

struct OutputLine {
  int rank = -1;  // -1 = the line does not say
  std::string text;
};

class OutputTail {
 public:
  static constexpr size_t kMaxLines = 2000, kMaxBytes = 1000;  // of a line: what is longer is cut

  void feed(std::string_view bytes);
  const std::deque<OutputLine>& lines() const { return lines_; }  // the last one may still grow

 private:
  enum class State : unsigned char { kText, kEscape, kSequence, kCommand, kCommandEnd };

  void take(char byte);
  void end_line();

  std::deque<OutputLine> lines_;
  std::string open_;
  bool open_shown_ = false, returned_ = false;
  State state_ = State::kText;
};

}  // namespace stepscope::tui
