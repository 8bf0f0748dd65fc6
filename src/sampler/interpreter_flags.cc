#include "sampler/interpreter_flags.h"

#include <algorithm>

namespace stepscope {
namespace {

bool names_python(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  if (!name.starts_with("python") && !name.starts_with("pypy")) return false;
  const size_t digits = name.find_first_of("0123456789.");
  const std::string stem = name.substr(0, digits);
  const bool version =
      digits == std::string::npos || name.find_first_not_of("0123456789.t", digits) == std::string::npos;
  return version && (stem == "python" || stem == "pypy");
}

// One group of short options: "-IB", "-Xdev", "-Wignore". False when the script begins after it (-c, -m) or with it.
bool read_options(const std::string& word, HooksKeptOut& found, bool& takes_next) {
  for (size_t i = 1; i < word.size(); ++i) {
    const char c = word[i];
    if (c == 'S') found = HooksKeptOut::kNoSite;
    if ((c == 'I' || c == 'E') && found == HooksKeptOut::kNo) found = HooksKeptOut::kPathIgnored;
    if (c == 'c' || c == 'm') return false;
    if (c == 'W' || c == 'X') {
      takes_next = i + 1 == word.size();
      return true;
    }
  }
  return true;
}

// Reads the options that follow the interpreter at `at`; the place of what ended them.
size_t after_options(const std::vector<std::string>& words, size_t at, HooksKeptOut& found) {
  while (++at < words.size() && words[at].size() > 1 && words[at][0] == '-' && words[at] != "--") {
    bool takes_next = words[at] == "--check-hash-based-pycs";
    if (words[at][1] != '-' && !read_options(words[at], found, takes_next)) break;
    if (takes_next) ++at;
  }
  return at;
}

}  // namespace

HooksKeptOut hooks_kept_out(const std::vector<std::string>& command) {
  HooksKeptOut found = HooksKeptOut::kNo;
  for (size_t at = 0; at < command.size(); ++at)
    if (names_python(command[at]))
      at = after_options(command, at, found) - 1;  // what ended the options may be an interpreter, too
  return found;
}

HooksKeptOut hooks_kept_out_of(const std::vector<std::string>& interpreter) {
  HooksKeptOut found = HooksKeptOut::kNo;
  after_options(interpreter, 0, found);
  return found;
}

std::string kept_out_word(HooksKeptOut how, bool pth_installed) {
  if (how == HooksKeptOut::kNoSite)
    return "python -S starts without site, so the hooks cannot come in: leave -S out to see this training";
  if (how == HooksKeptOut::kPathIgnored && !pth_installed)
    return "python -I and -E do not look at PYTHONPATH, so the hooks cannot come in: leave them out, or install "
           "stepscope beside the training's torch";
  return "";
}

}  // namespace stepscope
