// The asking end of summary_requests.h, for a view that looks on: asks an agent for the summary as it stands and takes
// the answer when it has come. Never waits. One question at a time; an answer that is not taken is removed.
#pragma once

#include <optional>
#include <string>

namespace stepscope {

class SummaryAsker {
 public:
  explicit SummaryAsker(std::string shm_dir) : folder_(std::move(shm_dir)) {}
  ~SummaryAsker() { give_up(); }
  SummaryAsker(const SummaryAsker&) = delete;
  SummaryAsker& operator=(const SummaryAsker&) = delete;

  bool waits() const { return !token_.empty(); }
  void ask();                         // nothing while one is open
  std::optional<std::string> take();  // JSON
  void give_up();                     // waits no more; leaves nothing behind

 private:
  std::string folder_, token_;
};

}  // namespace stepscope
