#include "agent/start_watch.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "agent/lay_life.h"
#include "align/rank_end.h"
#include "base/file.h"

namespace stepscope {
namespace {

constexpr size_t kMostStarters = 4096, kMostFailed = 64, kMostExceptionBytes = 400;

int number(const std::string& word, int unset) {
  if (word.empty() || word == "-") return unset;
  char* end = nullptr;
  const long value = std::strtol(word.c_str(), &end, 10);
  return *end || value < 0 || value > (1 << 24) ? unset : static_cast<int>(value);
}

std::string printable(std::string text, size_t most) {
  text.resize(std::min(text.size(), most));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32 && c != '\n'; }, ' ');
  return text;
}

int pid_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return std::atoi(path.c_str() + (slash == std::string::npos ? 0 : slash + 1));
}

}  // namespace

std::optional<StartNote> parse_start_note(const std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::istringstream head(text.substr(0, end));
  std::string rank, local_rank, world_size, restarts, ticks, launcher, more;
  if (!(head >> rank >> local_rank >> world_size >> restarts >> ticks >> launcher) || head >> more) return std::nullopt;
  StartNote note;
  note.rank = number(rank, -1);
  note.local_rank = number(local_rank, -1);
  note.world_size = number(world_size, 0);
  note.restarts = number(restarts, 0);
  note.start_ticks = std::strtoull(ticks.c_str(), nullptr, 10);
  note.launcher_pid = std::atoi(launcher.c_str());
  if (end + 1 >= text.size()) return note;
  const std::string rest = text.substr(end + 1);
  const size_t line = std::min(rest.find('\n'), rest.size());
  note.exception = printable(rest.substr(0, line), kMostExceptionBytes);
  if (line + 1 < rest.size()) note.frames = printable(rest.substr(line + 1), StartWatch::kMaxNoteBytes);
  return note;
}

StartWatch::StartWatch(std::string folder)
    : notes_(std::move(folder), ".start"), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ && notes_.fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, notes_.fd(), &event);
}

void StartWatch::take_up(const std::string& path, uint64_t now_ns) {
  const auto text = read_file(path, kMaxNoteBytes);
  const auto note = text ? parse_start_note(*text) : std::nullopt;
  const int pid = pid_of(path);
  if (!note || pid <= 0) return;
  if (note->launcher_pid > 0 && launchers_.size() < kMostStarters) launchers_[note->launcher_pid] = now_ns;
  Starter starter;
  RankLife& life = starter.life;
  life.rank = note->rank, life.local_rank = note->local_rank, life.world_size = note->world_size;
  life.attempt = note->restarts, life.pid = pid;
  life.process_start_ns = static_cast<int64_t>(now_ns);
  life.open_phase = Category::kStartup;
  if (note->rank < 0) {
    life.exception = note->exception, life.exception_frames = note->frames;
    life.exception_ns = static_cast<int64_t>(now_ns);
    if (!life.exception.empty() && without_rank_.size() < kMostFailed) without_rank_[pid] = life;
    ::unlink(path.c_str());
    return;
  }
  if (starters_.size() >= kMostStarters) return;
  starter.watch = PidWatch(pid, note->start_ticks);
  starter.path = path;
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ && starter.watch.fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, starter.watch.fd(), &event);
  starters_[pid] = std::move(starter);
}

std::vector<RankLife> StartWatch::look(const std::function<bool(int pid)>& has_ring, uint64_t now_ns) {
  for (const std::string& path : notes_.poll(now_ns)) take_up(path, now_ns);
  std::vector<RankLife> failed;
  for (auto it = starters_.begin(); it != starters_.end();) {
    Starter& starter = it->second;
    const bool opened = has_ring(it->first);
    if (!opened && !starter.gone) {
      starter.gone = !starter.watch.alive();
      ++it;
      continue;
    }
    if (!opened) {
      RankLife& life = starter.life;
      const auto text = read_file(starter.path, kMaxNoteBytes);
      const auto note = text ? parse_start_note(*text) : std::nullopt;
      if (note) life.exception = note->exception, life.exception_frames = note->frames;
      if (const std::optional<int> status = starter.watch.exit_status()) lay_exit(*status, life);
      life.ended = true;
      life.end_ns = static_cast<int64_t>(now_ns);
      if (!life.exception.empty()) life.exception_ns = life.end_ns;
      const bool as_it_should = life.exit_signal == 0 && life.exit_code <= 0 && life.exception.empty();
      if (!as_it_should && !told_to_end(life)) failed.push_back(life);
    }
    ::unlink(starter.path.c_str());
    it = starters_.erase(it);
  }
  return failed;
}

std::vector<RankLife> StartWatch::starting() const {
  std::vector<RankLife> lives;
  for (const auto& [pid, starter] : starters_)
    if (!starter.gone && !launches(pid)) lives.push_back(starter.life);
  return lives;
}

std::optional<RankLife> StartWatch::exception_of(int pid) const {
  const auto found = without_rank_.find(pid);
  return found == without_rank_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace stepscope
