// A rank or a view may ask for the summary as it stands: it makes <token>.ask in the shared folder and finds
// <token>.answer (JSON) there soon after; the asker removes the answer. Nothing is read from an .ask but its name.
// Bounded: at most kMaxAnswered per poll, further ones wait for the next. Cost: one directory listing on tmpfs per
// poll. Failure: no answer, and the asker's own time limit ends its wait.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

inline constexpr std::string_view kAskEnding = ".ask", kAnswerEnding = ".answer";

class SummaryRequests {
 public:
  static constexpr size_t kMaxAnswered = 8;

  explicit SummaryRequests(std::string folder) : folder_(std::move(folder)) {}

  // Tokens asked for since the last call; each is returned once.
  std::vector<std::string> take();
  void answer(const std::string& token, const std::string& json);

 private:
  std::string folder_;
};

}  // namespace stepscope
