#include "diagnose/stack_text.h"

#include <algorithm>
#include <cstdlib>

#include "base/text_format.h"

namespace stepscope {
namespace {

constexpr size_t kMostFramesShown = 6;

}  // namespace

bool is_library(const CodeLine& frame) {
  for (const char* part : {"site-packages/", "dist-packages/", "/torch/", "lib/python3.", "<frozen", "<string>"})
    if (frame.file.find(part) != std::string::npos) return true;
  return frame.file.starts_with("torch/") || frame.file.starts_with("<");
}

std::string place_text(const CodeLine& frame, int parts) {
  size_t at = frame.file.size();
  for (int i = 0; i < parts && at != std::string::npos && at > 0; ++i) at = frame.file.rfind('/', at - 1);
  const std::string file = at == std::string::npos ? frame.file : frame.file.substr(at + 1);
  return formatted("{}:{} {}", file, frame.line, frame.function);
}

std::string place_in_program(const std::vector<CodeLine>& frames) {
  if (frames.empty()) return "";
  const auto own = std::find_if(frames.begin(), frames.end(), [](const CodeLine& f) { return !is_library(f); });
  if (own == frames.end()) return place_text(frames.front(), 3);
  const std::string place = place_text(*own, 1);
  return own == frames.begin() ? place : place + " (" + place_text(frames.front(), 2) + ")";
}

std::vector<CodeLine> frames_of_text(const std::string& text) {
  std::vector<CodeLine> frames;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(" < ", at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 3;
    const size_t number = line.find(' '), function = line.find(' ', number + 1);
    if (number == std::string::npos || function == std::string::npos) continue;
    frames.push_back(
        {std::atoi(line.c_str()), line.substr(number + 1, function - number - 1), line.substr(function + 1)});
  }
  return frames;
}

std::string exception_words(const RankLife& life) {
  const std::string place = place_in_program(frames_of_text(life.exception_frames));
  return life.exception + (place.empty() || life.exception.empty() ? "" : " at " + place);
}

std::vector<std::string> merged_stacks(const JobStanding& job) {
  std::map<std::string, std::vector<int>> same;
  std::vector<std::string> order;
  std::map<std::string, double> since_s;
  for (const RankStanding& r : job.ranks) {
    if (!r.stack || r.stack->frames.empty()) continue;
    std::string text;
    for (size_t i = 0; i < r.stack->frames.size() && i < kMostFramesShown; ++i)
      text += (i ? " < " : "") + place_text(r.stack->frames[i], is_library(r.stack->frames[i]) ? 2 : 1);
    if (r.stack->frames.size() > kMostFramesShown) text += " < …";
    if (!same.contains(text)) order.push_back(text);
    same[text].push_back(r.rank);
    since_s[text] = std::max(since_s[text], r.silent_s);
  }
  std::vector<std::string> out;
  for (const std::string& text : order)
    out.push_back(formatted("{} · {} · for {:.0f} s", format_ranks(same[text]), text, since_s[text]));
  return out;
}

}  // namespace stepscope
