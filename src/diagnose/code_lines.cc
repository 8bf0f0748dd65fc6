#include "diagnose/code_lines.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>

#include "base/text_format.h"
#include "diagnose/stack_text.h"

namespace stepscope {
namespace {

constexpr double kZ = 1.96;          // 95 %
constexpr double kPeerFactor = 0.5;  // a peer that is as often there does not differ by it
constexpr double kToldShare = 0.1;   // a smaller one is not worth a word
constexpr double kMostly = 0.8;      // of its samples: what they do there is said
constexpr double kOfAPause = 0.5;    // stays of this part of the usual pause are pauses

constexpr uint32_t bit(Category c) { return 1u << index(c); }
constexpr uint32_t kAll = (1u << kCategoryCount) - 1;
constexpr uint32_t kBetweenPhases = bit(Category::kUnattributed) | bit(Category::kUserCode) | bit(Category::kLogging) |
                                    bit(Category::kCheckpoint) | bit(Category::kValidation) |
                                    bit(Category::kEpochStart);

uint32_t bits_of(const std::string& phase) {
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (phase == kCategoryNames[c]) return 1u << c;
  return 0;
}

// Stalls outside of backward: there it is the gradients that everybody waits for, at the same line in every program.
LineScope of_stalls() { return {.phases = kAll & ~bit(Category::kBackward), .stalled = true}; }

double evidence_of(const Finding& f, std::string_view name) {
  for (const Evidence& e : f.evidence)
    if (e.name == name && e.value) return *e.value;
  return 0;
}

// A pause may be spread over phases: what it takes in the one that is told.
double pause_ms_in_phase(const Finding& f) {
  const double whole = evidence_of(f, "pause_ms"), part = evidence_of(f, f.phase + "_in_pauses_ms");
  return part > 0 ? std::min(part, whole) : whole;
}

// In how many samples, and at which lines.
struct Met {
  double hits = 0, depth = 0;
  double at_loader = 0;  // where it asks torch's loader for a batch: the loop's head in every program
  std::map<int, int> lines;
  CodeLine frame;
};
using Key = std::tuple<std::string, int, std::string>;  // file, line (0 = all of the function), function

enum class Level { kLine, kFunction, kCaller };

std::map<Key, Met> met(const std::vector<const CodeSample*>& samples, Level level) {
  std::map<Key, Met> out;
  for (const CodeSample* sample : samples) {
    std::set<Key> seen;  // of recursion once
    const size_t deep = level == Level::kCaller ? sample->program.size() : std::min<size_t>(1, sample->program.size());
    for (size_t i = 0; i < deep; ++i) {
      const CodeLine& line = sample->program[i];
      const Key key{line.file, level == Level::kFunction ? 0 : line.line, line.function};
      if (!seen.insert(key).second) continue;
      Met& m = out[key];
      ++m.hits, ++m.lines[line.line];
      m.depth += static_cast<double>(i);
      m.at_loader += i == 0 && sample->callee.file.find("utils/data/") != std::string::npos;
      m.frame = line;
    }
  }
  return out;
}

std::string what_it_does(const std::vector<const CodeSample*>& there) {
  double blocked = 0, native = 0, python = 0;
  std::map<std::string, double> modules;
  for (const CodeSample* s : there) {
    python += s->in_interpreter;
    const bool waits = s->without_gil();
    blocked += waits;
    if (s->in_interpreter || waits || s->module.empty()) continue;
    ++native, ++modules[s->module];
  }
  const double enough = kMostly * static_cast<double>(there.size());
  if (blocked >= enough) return "asleep or waiting";
  if (python >= enough) return "Python code";
  if (native < enough) return "";
  const auto most = std::max_element(modules.begin(), modules.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return "native code of " + most->first;
}

class Search {
 public:
  Search(const LineScope& scope, const CodeSamples& samples, const std::vector<int>& of, int peer) : scope_(scope) {
    for (const int rank : of)
      if (const auto found = samples.find(rank); found != samples.end()) take(found->second, own_, own_all_);
    if (peer < 0) return;
    take(samples.at(peer), peers_, peer_all_);
    with_peer_ = peer_all_ >= kFewest;
    own_rate_ = static_cast<double>(own_.size()) / std::max(1.0, own_all_);
    peer_rate_ = static_cast<double>(peers_.size()) / std::max(1.0, peer_all_);
  }

  size_t samples() const { return own_.size(); }

  std::optional<LineShare> best() const {
    if (own_.size() < kFewest) return std::nullopt;
    if (with_peer_ && own_rate_ <= peer_rate_) return std::nullopt;
    for (const Level level : {Level::kLine, Level::kFunction, Level::kCaller})
      if (auto line = best_of(level, true)) return line;
    return best_of(Level::kLine, false);
  }

 private:
  void take(const std::vector<CodeSample>& all, std::vector<const CodeSample*>& in, double& count) const {
    for (const CodeSample& sample : all) {
      if (sample.beside) continue;
      ++count;
      if (scope_.holds(sample) && !sample.program.empty()) in.push_back(&sample);
    }
  }

  std::optional<LineShare> best_of(Level level, bool decisive) const {
    const auto own = met(own_, level), theirs = met(peers_, level);
    std::optional<LineShare> best;
    double best_depth = 0;
    for (const auto& [key, m] : own) {
      if (2 * m.at_loader > m.hits) continue;
      const auto found = theirs.find(key);
      LineShare line = weigh(m, found == theirs.end() ? 0 : found->second.hits);
      if (decisive ? !line.decisive : line.share < kToldShare) continue;
      const double depth = m.depth / m.hits;
      // Of callers all but the innermost hold each other's time.
      const bool better =
          !best || (level == Level::kCaller && decisive ? depth < best_depth : line.share > best->share);
      if (!better) continue;
      describe(line, key, m, level);
      best = std::move(line);
      best_depth = depth;
    }
    return best;
  }

  LineShare weigh(const Met& m, double peer_hits) const {
    LineShare line{.samples = own_.size()};
    if (!scope_.beyond_peer || !with_peer_) {
      const auto count = static_cast<double>(own_.size());
      line.share = m.hits / count;
      line.low = share_interval(m.hits, count).low;
      line.decisive = !scope_.beyond_peer && line.share >= kDecisive && line.low >= kLeastLow;
      return line;
    }
    const double extra = own_rate_ - peer_rate_;
    line.own_share = m.hits / own_all_;
    line.peer_share = peer_hits / peer_all_;
    line.share = std::clamp((line.own_share - line.peer_share) / extra, 0.0, 1.0);
    const double surely = share_interval(m.hits, own_all_).low - share_interval(peer_hits, peer_all_).high;
    line.low = std::clamp(surely / extra, 0.0, 1.0);
    line.decisive = line.share >= kDecisive && line.low > 0 && line.peer_share <= kPeerFactor * line.own_share;
    return line;
  }

  void describe(LineShare& line, const Key& key, const Met& m, Level level) const {
    std::vector<const CodeSample*> there;
    std::map<std::string, int> callees;
    for (const CodeSample* s : own_)
      for (size_t i = 0; i < (level == Level::kCaller ? s->program.size() : 1); ++i) {
        const CodeLine& at = s->program[i];
        if (Key{at.file, level == Level::kFunction ? 0 : at.line, at.function} != key) continue;
        there.push_back(s);
        if (i == 0 && !s->callee.function.empty()) ++callees[place_text(s->callee, 2)];
        break;
      }
    CodeLine frame = m.frame;
    frame.line = m.lines.begin()->first;
    line.place = place_text(frame);
    if (const int last = m.lines.rbegin()->first; last != frame.line) {
      const std::string from = formatted(":{} ", frame.line);
      line.place.replace(line.place.find(from), from.size(), formatted(":{}–{} ", frame.line, last));
    }
    const auto most = std::max_element(callees.begin(), callees.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != callees.end() && most->second * 2 >= static_cast<int>(there.size()))
      line.place += " (" + most->first + ")";
    line.how = what_it_does(there);
  }

  LineScope scope_;
  std::vector<const CodeSample*> own_, peers_;
  double own_all_ = 0, peer_all_ = 0, own_rate_ = 0, peer_rate_ = 0;
  bool with_peer_ = false;
};

// Whose samples are most, of those that the finding is not about.
int peer_of(const Finding& f, const CodeSamples& samples) {
  int peer = -1;
  size_t most = 0;
  for (const auto& [rank, list] : samples) {
    if (std::find(f.ranks.begin(), f.ranks.end(), rank) != f.ranks.end() || list.size() <= most) continue;
    peer = rank, most = list.size();
  }
  return peer;
}

std::string time_words(const Finding& f, const LineScope& scope) {
  if (scope.beyond_peer) return f.ranks.size() == 1 ? "its extra time" : "their extra time";
  if (scope.stay_ms > 0) return "the pauses";
  if (f.kind == FindingKind::kHostBound) return "forward";
  return "it";
}

std::string peer_words(const LineShare& line) {
  if (line.peer < 0) return "";
  if (line.peer_share <= 0) return formatted("where rank {} never is", line.peer);
  return formatted("where rank {} spends {} of its time and this one {}", line.peer, format_percent(line.peer_share),
                   format_percent(line.own_share));
}

// Not its cells: a loop over these is the program's.
bool is_recurrent_module(const CodeLine& frame) {
  return frame.file.ends_with("/nn/modules/rnn.py") && frame.function.ends_with("forward") &&
         frame.function.find("Cell.") == std::string::npos;
}

bool is_logger(const CodeLine& frame) {
  static constexpr const char* kLoggers[] = {"/logging/__init__.py",
                                             "/logging/handlers.py",
                                             "/torch/utils/tensorboard/",
                                             "/tensorboardX/",
                                             "/wandb/",
                                             "/mlflow/",
                                             "/comet_ml/",
                                             "/neptune/",
                                             "/clearml/"};
  return is_library(frame) && std::any_of(std::begin(kLoggers), std::end(kLoggers),
                                          [&](const char* part) { return frame.file.find(part) != std::string::npos; });
}

}  // namespace

ShareInterval share_interval(double hits, double count) {
  if (count <= 0) return {};
  const double p = hits / count, z2 = kZ * kZ;
  const double middle = (p + z2 / (2 * count)) / (1 + z2 / count);
  const double half = kZ * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count)) / (1 + z2 / count);
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

bool CodeSample::without_gil() const {
  const bool libc = module.starts_with("libc.") || module.starts_with("libc-") || module.starts_with("[vdso]");
  return !in_interpreter && !holds_gil && libc;
}

void CodeSample::take_frames(const std::vector<CodeLine>& frames) {
  // Wrappers that call what was meant.
  static const std::set<std::string> kWrappers = {"wrapper",
                                                  "wrapped",
                                                  "inner",
                                                  "decorate_context",
                                                  "decorated",
                                                  "_fn",
                                                  "_call_impl",
                                                  "_wrapped_call_impl",
                                                  "__call__",
                                                  "_wrapper",
                                                  "__torch_function__"};
  const auto own = std::find_if(frames.begin(), frames.end(), [](const CodeLine& f) { return !is_library(f); });
  in_recurrent = std::any_of(frames.begin(), own, is_recurrent_module);
  in_logging = std::any_of(frames.begin(), frames.end(), is_logger);
  for (auto at = own; at != frames.begin();) {
    --at;
    callee = *at;
    if (!kWrappers.contains(at->function.substr(at->function.rfind('.') + 1))) break;  // of a qualified name the last
  }
  for (auto at = own; at != frames.end() && program.size() < kMostLines; ++at)
    if (!is_library(*at)) program.push_back(*at);
  if (program.empty() && !frames.empty()) program.push_back(frames.front()), callee = {};
}

bool LineScope::holds(const CodeSample& sample) const {
  return (phases & bit(sample.phase)) != 0 && sample.stalled == stalled && sample.stay_ms >= stay_ms;
}

LineScope scope_of(Category phase) { return {.phases = bit(phase)}; }

std::optional<LineScope> line_scope(const Finding& f) {
  const uint32_t phase = bits_of(f.phase);
  const bool of_a_stall = phase == bit(Category::kCommTransfer) || phase == bit(Category::kStragglerWait);
  switch (f.kind.id()) {
    case FindingKind::kWaitHeavy: return scope_of(Category::kUnattributed);
    case FindingKind::kHostBound:
      if (f.cause != Cause::kSmallOperators) return std::nullopt;
      return scope_of(Category::kForward);  // the lines that hand them out
    case FindingKind::kBetweenStepsHeavy: return LineScope{.phases = kBetweenPhases};
    case FindingKind::kCommBound: return of_stalls();
    case FindingKind::kUnexplainedLoss:
      if (of_a_stall) return of_stalls();
      [[fallthrough]];
    case FindingKind::kValidationHeavy:
    case FindingKind::kEpochStartStall:
    case FindingKind::kSyncStall:
    case FindingKind::kInputBound:
      if (phase == 0 || phase == bit(Category::kCompile)) return std::nullopt;
      return LineScope{.phases = phase};
    case FindingKind::kCheckpointStall:
    case FindingKind::kPauseStraggler:
    case FindingKind::kLoggingStall:
      if (phase == 0) return std::nullopt;
      return LineScope{.phases = phase, .stay_ms = kOfAPause * pause_ms_in_phase(f)};
    case FindingKind::kInputStraggler:
    case FindingKind::kH2dStraggler:
    case FindingKind::kComputeStraggler:
    case FindingKind::kStraggler: return LineScope{.phases = phase ? phase : kAll, .beyond_peer = true};
    default: return std::nullopt;
  }
}

bool asks_for_lines(const Finding& f) {
  return f.severity != Severity::kInfo || (f.kind == FindingKind::kHostBound && f.cause == Cause::kSmallOperators);
}

std::optional<LineShare> line_of(const Finding& f, const CodeSamples& samples) {
  const auto scope = line_scope(f);
  if (!scope) return std::nullopt;
  std::vector<int> of = f.ranks;
  if (of.empty())
    for (const auto& [rank, list] : samples) of.push_back(rank);
  const int peer = scope->beyond_peer ? peer_of(f, samples) : -1;
  auto line = Search(*scope, samples, of, peer).best();
  if (!line) return std::nullopt;
  line->rank = f.ranks.size() == 1 ? f.ranks.front() : -1;
  if (line->own_share > 0) line->peer = peer;
  return line;
}

std::optional<GilHolder> gil_holder(const Finding& f, const CodeSamples& samples) {
  const auto scope = line_scope(f);
  if (!scope) return std::nullopt;
  std::optional<GilHolder> most;
  for (const auto& [rank, list] : samples) {
    if (!f.ranks.empty() && std::find(f.ranks.begin(), f.ranks.end(), rank) == f.ranks.end()) continue;
    double of_training = 0, waiting = 0, holds = 0;
    GilHolder holder{.rank = rank};
    std::map<std::string, int> places;
    for (const CodeSample& s : list) {
      if (s.beside) {
        ++holder.looks;
        if (s.holds_gil) ++holds, ++places[s.program.empty() ? "" : place_text(s.program.front())];
      } else if (scope->holds(s)) {
        ++of_training;
        waiting += s.without_gil();
      }
    }
    if (holder.looks < kFewest || of_training < kFewest || waiting < kWaitsForGil * of_training) continue;
    holder.share = holds / static_cast<double>(holder.looks);
    if (holder.share < kDecisive || (most && most->share >= holder.share)) continue;
    holder.place = std::max_element(places.begin(), places.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->first;
    most = holder;
  }
  return most;
}

namespace {

// The causes that a thread which holds the GIL explains better, for kinds that it explains at all.
bool is_explained_by_holder(const Finding& f) {
  const bool vague = f.cause == Cause::kNone || f.cause == Cause::kDescheduled || f.cause == Cause::kSameWorkSlower ||
                     f.cause == Cause::kUserCode || f.cause == Cause::kOwnWork;
  return vague && allows(f.kind.id(), Cause::kGilContention);
}

void add_holder(Finding& f, const GilHolder& holder, bool decisive) {
  f.evidence.push_back({"gil_holder_share", holder.rank, holder.share, {}, holder.place});
  if (!decisive) return;
  f.title += formatted("; another thread{} holds the GIL, at {}",
                       f.ranks.size() == 1 ? "" : formatted(" of rank {}", holder.rank), holder.place);
  const std::string move =
      formatted("Move what {} does into another process: Python threads share one lock", holder.place);
  const bool explains = is_explained_by_holder(f);
  if (explains) f.cause = Cause::kGilContention;
  f.action = explains ? move : move + ". " + f.action;
}

}  // namespace

void add_line(Finding& f, const CodeSamples& samples) {
  if (f.severity == Severity::kInfo) return;
  const auto scope = line_scope(f);
  const auto line = line_of(f, samples);
  if (const auto holder = gil_holder(f, samples); holder && !holder->place.empty())
    add_holder(f, *holder, !line || !line->decisive);
  if (!line) return;
  const std::optional<int> rank = line->rank >= 0 ? std::optional(line->rank) : std::nullopt;
  const std::string beside = peer_words(*line);
  std::string text = line->place;
  if (!line->how.empty()) text += ": " + line->how;
  if (!beside.empty()) text += ", " + beside;
  f.evidence.push_back({"line_share", rank, line->share, {}, text});
  f.evidence.push_back({"line_least_share", rank, line->low, {}, ""});
  f.evidence.push_back({"line_samples", rank, static_cast<double>(line->samples), {}, ""});
  if (!line->decisive) return;
  f.title += formatted("; {} of {} at {}", format_percent(line->share), time_words(f, *scope), line->place);
  if (!beside.empty()) f.title += ", " + beside;
  const std::string see = formatted("See {}{}", line->place, line->how.empty() ? "" : " (" + line->how + ")");
  // What these two would have measured next is known now.
  const bool measured = f.kind == FindingKind::kWaitHeavy || f.kind == FindingKind::kUnexplainedLoss;
  f.action = measured ? see + ": do it less often, faster, or off the training thread" : see + ". " + f.action;
}

}  // namespace stepscope
