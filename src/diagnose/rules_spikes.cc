// LOSS_SPIKE, GRAD_NORM_SPIKE: the loss or the gradient norm jumps above all that the run's recent past shows
// (analyze/spike_track.h). One that comes back is a hint; one that stays up, as high as the run began or higher, is a
// model that forgets what it had learned. A level between the two may be meant (another loss term, another task), so
// nothing is said of it.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

using Tracks = std::map<int, SpikeTrack>;

bool stays_up(const SpikeTrack::Spike& s) { return !s.recovered && s.highest >= s.start; }
bool told(const SpikeTrack::Spike& s) { return s.first_step >= 0 && (s.recovered || stays_up(s)); }

// The worse: what stays up before what came back, then the larger one.
bool worse(const SpikeTrack::Spike& a, const SpikeTrack::Spike& b) {
  if (stays_up(a) != stays_up(b)) return stays_up(a);
  return a.highest * b.usual > b.highest * a.usual;
}

bool at_the_same_time(const SpikeTrack::Spike& a, const SpikeTrack::Spike& b) {
  constexpr int64_t kSlack = 2 * SpikeTrack::kBlock;
  return a.first_step <= b.last_step + kSlack && b.first_step <= a.last_step + kSlack;
}

struct Words {
  FindingKind kind;
  const char *subject, *figure, *action;
};

void judge(const RuleInput& in, const Tracks& tracks, const Words& words, std::vector<Finding>& out) {
  const SpikeTrack::Spike* most = nullptr;
  for (const auto& [rank, track] : tracks)
    if (told(track.newest()) && (!most || worse(track.newest(), *most))) most = &track.newest();
  if (!most) return;
  std::vector<int> ranks;
  uint64_t times = 0;
  for (const auto& [rank, track] : tracks)
    if (told(track.newest()) && at_the_same_time(track.newest(), *most))
      ranks.push_back(rank), times = std::max(times, track.spikes());
  FindingBuilder f = in.finding(words.kind);
  const bool job = 2 * ranks.size() > tracks.size() || tracks.size() < 2;
  if (job)
    f.about_job();
  else
    f.about(ranks);
  const bool up = stays_up(*most);
  f.graded(up ? Severity::kWarn : Severity::kInfo).from(most->first_step).until(most->last_step).confidence(0.85);
  f.title(formatted("{}{} rose from {:.3g} to {:.3g} at step {} and {}", words.subject,
                    job ? std::string() : " of " + format_ranks(ranks), most->usual, most->highest, most->first_step,
                    up ? "did not come back" : formatted("came back by step {}", most->last_step)));
  f.action(words.action);
  f.evidence(std::string("highest_") + words.figure, most->highest)
      .evidence(std::string("usual_") + words.figure, most->usual)
      .evidence(std::string("first_") + words.figure, most->start)
      .evidence("times", static_cast<double>(times));
  out.push_back(f);
}

}  // namespace

void judge_spikes(const RuleInput& in, std::vector<Finding>& out) {
  if (!in.numerics) return;
  judge(in, in.numerics->losses(),
        {FindingKind::kLossSpike, "The loss", "loss",
         "See the batches around that step and the learning rate there; if it comes again: a lower peak learning rate, "
         "longer warm-up, gradient clipping, or skipping those batches after a restart from a checkpoint before it"},
        out);
  judge(in, in.numerics->norms(),
        {FindingKind::kGradNormSpike, "The gradient norm", "grad_norm",
         "Clip gradients by their norm where only measured, lower the learning rate or warm up longer, and see the "
         "batches around that step"},
        out);
}

}  // namespace stepscope
