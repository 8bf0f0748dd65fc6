#include "agent/step_marks.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/file.h"

namespace stepscope {
namespace {

uint64_t check_word(const StepMark& mark) {
  uint64_t words[7];
  std::memcpy(words, &mark, sizeof words);
  uint64_t hash = 0x9e3779b97f4a7c15ull;
  for (uint64_t word : words) hash = (hash ^ word) * 0xff51afd7ed558ccdull, hash ^= hash >> 32;
  return hash;
}

}  // namespace

StepMarks::StepMarks(const std::string& shm_dir) {
  if (shm_dir.empty()) return;
  const std::string path = path_join(shm_dir, "agent.marks");
  fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_) return;
  StepMark mark;
  for (size_t i = 0; i < kMaxEntries; ++i) {
    if (::pread(fd_.get(), &mark, sizeof mark, static_cast<off_t>(i * sizeof mark)) != sizeof mark) break;
    if (mark.pid <= 0 || mark.check != check_word(mark)) continue;
    before_[{mark.pid, mark.start_ticks}] = mark;
    mine_[{mark.pid, mark.start_ticks}] = {i, mark};
  }
  if (::posix_fallocate(fd_.get(), 0, kMaxEntries * sizeof(StepMark)) != 0) fd_.reset();
}

std::optional<StepMark> StepMarks::predecessor(int pid, uint64_t start_ticks) const {
  const auto found = before_.find({pid, start_ticks});
  return found == before_.end() ? std::nullopt : std::optional(found->second);
}

void StepMarks::put(StepMark mark) {
  if (!fd_) return;
  mark.check = check_word(mark);
  const std::pair key{mark.pid, mark.start_ticks};
  auto found = mine_.find(key);
  if (found == mine_.end()) {
    if (mine_.size() >= kMaxEntries) return;
    const size_t place = mine_.size();
    found = mine_.emplace(key, std::pair{place, StepMark{}}).first;
  }
  if (found->second.second.check == mark.check) return;
  found->second.second = mark;
  [[maybe_unused]] const ssize_t n =
      ::pwrite(fd_.get(), &mark, sizeof mark, static_cast<off_t>(found->second.first * sizeof mark));
}

}  // namespace stepscope
