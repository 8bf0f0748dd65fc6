// Plays a scenario: the events of its ranks as the hooks would write them, through the whole reader side to the engine.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "align/step_builder.h"
#include "blackbox/event_kind.h"
#include "diagnose/engine.h"
#include "scenario.h"

namespace stepscope::scenario {

// Writes the events of one rank as the hooks would.
class RankWriter {
 public:
  RankWriter(int rank, int world, uint64_t offset_ns) : rank_(rank), t_(1'000'000'000ull + offset_ns) {
    builder_.life().rank = rank;
    builder_.life().world_size = world;
    builder_.life().process_start_ns = static_cast<int64_t>(t_);
    builder_.push_name(static_cast<uint16_t>(NameKind::kGroup), 77, group_text(world));
    pass(500);
  }
  void event(Kind kind, Edge edge, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0, uint16_t flags = 0) {
    builder_.push({t_, pack_kind(kind, edge), flags, static_cast<uint32_t>(1000 + rank_), a, b, c, d});
  }
  void pass(double ms) {
    t_ += static_cast<uint64_t>(std::max(0.0, ms) * 1e6);
    cpu_ns_ += std::max(0.0, ms) * 1e6 * core_share;
  }
  void pass_on_core(double ms, double share) {
    const double usual = std::exchange(core_share, share);
    pass(ms);
    core_share = usual;
  }
  void tell_usage() { event(Kind::kUsage, Edge::kMark, static_cast<uint64_t>(cpu_ns_), involuntary, voluntary); }
  void span(Kind kind, double ms, uint64_t a = 0, uint64_t b = 0, uint16_t flags = 0) {
    event(kind, Edge::kBegin, a, b, 0, 0, flags);
    pass(ms);
    event(kind, Edge::kEnd, a, b);
  }
  StepBuilder& builder() { return builder_; }
  uint64_t now() const { return t_; }
  uint64_t sequence = 0, neighbour_sequence = 0, involuntary = 0, voluntary = 0;
  double core_share = 0;
  bool dead = false;

 private:
  static std::string group_text(int world) {
    std::string text = "default_pg|";
    for (int r = 0; r < world; ++r) text += (r ? "," : "") + std::to_string(r);
    return text;
  }
  int rank_;
  uint64_t t_;
  double cpu_ns_ = 0;
  StepBuilder builder_{0};
};

class Play {
 public:
  explicit Play(const Scenario& s) : s_(s), rng_(s.seed) {
    for (int r = 0; r < s.ranks; ++r) lanes_.emplace_back(r, world(), 3'000'000ull * static_cast<uint64_t>(r * r + 1));
    for (int r = 0; r < s.ranks; ++r)
      if (const MemoryLine* m = memory_of(r))
        lanes_[r].builder().push_name(static_cast<uint16_t>(NameKind::kFact), 0,
                                      "device_memory_bytes=" + std::to_string(static_cast<uint64_t>(m->of("capacity", 80'000) * kMb)));
    for (RankWriter& lane : lanes_) lane.core_share = number(s.cpu, "", 0);
    for (const Config& c : s.configs)
      for (int r = 0; r < s.ranks; ++r)
        if (c.rank < 0 || c.rank == r) lanes_[r].builder().push_name(static_cast<uint16_t>(NameKind::kAdvice), c.id, c.text);
    for (int r = 0; r < s.ranks && !s.schedule.empty(); ++r) {
      lanes_[r].event(Kind::kScheduler, Edge::kMark, 4, 1);
      for (int k = 0; k < number(s.schedule, "wind", 0); ++k) lanes_[r].event(Kind::kScheduler, Edge::kMark, 4, static_cast<uint64_t>(2 + k));
    }
    if (s.init_group)
      for (int r = 0; r < s.ranks; ++r) {
        if (const auto late = s.late_ms.find(r); late != s.late_ms.end()) lanes_[r].pass(late->second);
        lanes_[r].span(Kind::kInitGroup, 5);
      }
    if (!s.prepares.empty()) prepare();
    EngineOptions options = s.options;
    engine_ = std::make_unique<Engine>(options);
    for (int r = 0; r < s.ranks; ++r)
      if (observed(r) && !s.joins.contains(r)) engine_->announce(r, world());
  }

  // For those who listen while it plays, and for what is left of the ranks afterwards.
  Engine& engine() { return *engine_; }
  struct Group {
    uint64_t id = 0;
    std::string description;
    std::vector<int> ranks;
  };
  // The groups that the ranks meet in.
  std::vector<Group> groups() const {
    std::vector<Group> all = {{77, "default_pg", all_ranks(world())}};
    if (s_.tensor_parallel > 1)
      for (int first = 0; first < world(); first += s_.tensor_parallel) all.push_back({group_of(first), "tp", block_of(first)});
    return all;
  }
  // What each delivery of a rank's steps becomes on its way to the engine.
  std::function<std::vector<RankStep>(int rank, std::vector<RankStep>)> on_the_way;
  std::vector<RankLife> lives() {
    std::vector<RankLife> out;
    for (int r = 0; r < s_.ranks; ++r)
      if (observed(r)) out.push_back(life_of(r));
    return out;
  }

  Snapshot run() {
    for (const Group& group : groups()) engine_->set_group(group.id, group.description, group.ranks);
    for (const MemoryLine& t : s_.tenants) {
      DeviceRoom& room = rooms_[std::max(0, t.rank)];
      room.own_bytes = t.of("own", 0) * kMb;
      room.others.push_back({static_cast<int>(t.of("pid", 1)), t.of("mb", 0) * kMb});
    }
    for (const auto& [rank, room] : rooms_) engine_->set_device_room(rank, room);
    for (int step = 0; step < s_.steps; ++step) {
      bool any = false;
      for (int r = 0; r < s_.ranks; ++r) any |= !lanes_[r].dead;
      if (!any) break;
      one_step(step);
      deliver();
    }
    for (int r = 0; r < s_.ranks; ++r) {
      RankWriter& lane = lanes_[r];
      if (!lane.dead) {
        lane.pass(3);
        if (s_.destroy_group) lane.span(Kind::kTeardown, 1);
        lane.event(Kind::kProcess, Edge::kMark, static_cast<uint64_t>(ProcessEvent::kExit));
        lane.builder().finish(static_cast<int64_t>(lane.now()));
        lane.builder().life().ended = lane.builder().life().clean_exit = true;
      }
      deliver({r});
    }
    answer();
    engine_->finish();
    return engine_->snapshot();
  }

 private:
  int world() const { return s_.world ? s_.world : s_.ranks; }
  static std::vector<int> all_ranks(int count) {
    std::vector<int> v;
    for (int r = 0; r < count; ++r) v.push_back(r);
    return v;
  }
  void answer() {
    const auto all = static_cast<int>(number(s_.answers, "", 0)), recurrent = static_cast<int>(number(s_.answers, "recurrent", 0));
    for (int k = 0; k < all; ++k) {
      CodeSample sample;
      sample.phase = Category::kForward;
      std::vector<CodeLine> frames = {{33, "Model.forward", "/job/model.py"}, {60, "main", "/job/train.py"}};
      if (k < recurrent) frames.insert(frames.begin(), {1449, "GRU.forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/rnn.py"});
      sample.take_frames(frames);
      engine_->note_code(0, sample);
    }
  }
  // All leave together: in a barrier, told as a wait, or in DDP's constructor.
  void prepare() {
    const int busy = static_cast<int>(number(s_.prepares, "rank", 0));
    const double ms = number(s_.prepares, "ms", 0);
    const bool barrier = number(s_.prepares, "wait", 0) > 0;
    for (int r = 0; r < s_.ranks; ++r) {
      RankWriter& lane = lanes_[r];
      if (r == busy) lane.pass(ms);
      if (!barrier) lane.event(Kind::kRendezvous, Edge::kMark, static_cast<uint64_t>(RendezvousPlace::kDistributedDataParallel));
      if (barrier) lane.event(Kind::kWait, Edge::kBegin, 77, 3, 0, static_cast<uint64_t>(CollectiveOp::kBarrier));
      lane.pass(r == busy ? 1 : ms);
      if (barrier) lane.event(Kind::kWait, Edge::kEnd, 77, 3);
    }
  }
  double own(const std::string& phase, int r, int step) {
    std::lognormal_distribution<double> jitter(0, std::max(s_.noise, 1e-9));
    double ms = s_.phases.count(phase) ? s_.phases.at(phase) * jitter(rng_) : 0;
    for (const Fault& f : s_.faults) {
      if (!f.hits(r, step)) continue;
      if (f.factor != 1 && (phase == "forward" || phase == "backward" || phase == "optimizer")) ms *= f.factor;
      ms *= f.pace;
      if (f.phase != phase) continue;
      ms += f.sigma > 0 ? f.add_ms * std::lognormal_distribution<double>(0, f.sigma)(rng_) : f.add_ms;
    }
    return ms;
  }

  const MemoryLine* memory_of(int r) const {
    for (const MemoryLine& m : s_.memory)
      if (m.rank < 0 || m.rank == r) return &m;
    return nullptr;
  }

  double held_mb(const MemoryLine& m, int step) {
    const double grow = m.of("grow", 0), bend = m.of("bend", 0);
    const int from = static_cast<int>(m.of("from", 0)), to = static_cast<int>(m.of("to", 1 << 30));
    double steps = std::clamp(step, from, to) - from;
    if (const double saw = m.of("sawtooth", 0); saw > 0) steps = std::fmod(steps, saw);
    if (const double every = m.of("every", 1); every > 1) steps = std::floor(steps / every) * every;
    double mb = m.of("base", 1000) + (bend > 0 ? grow * bend * (1 - std::exp(-steps / bend)) : grow * steps);
    if (step >= m.of("at", 1e9)) mb += m.of("jump", 0);
    if (const double noise = m.of("noise", 0); noise > 0) mb += std::normal_distribution<double>(0, noise)(rng_);
    return mb;
  }

  uint32_t forwards_at(int r, int step) const {
    uint32_t forwards = 1;
    for (const Fault& f : s_.faults)
      if (f.hits(r, step)) forwards += f.forwards;
    return forwards;
  }

  // Tokens of the rank over those of the others.
  double work_at(int r, int step) const {
    double work = 1;
    for (const Fault& f : s_.faults)
      if (f.work && f.hits(r, step)) work *= f.factor;
    return work;
  }
  double tokens_at(int step) {
    if (s_.tokens.empty()) return 0;
    const double saw = number(s_.tokens, "sawtooth", 0);
    const bool later = s_.tokens.contains("later") && step >= number(s_.tokens, "from", 0);
    double n = number(s_.tokens, later ? "later" : "", 512) + number(s_.tokens, "slope", 0) * (saw > 0 ? std::fmod(step, saw) : step);
    if (const double sigma = number(s_.tokens, "sigma", 0); sigma > 0) n *= std::lognormal_distribution<double>(0, sigma)(rng_);
    return std::round(n);
  }

  static bool hits(const Words& w, int r, int step) {
    const double rank = number(w, "rank", -1), from = number(w, "from", 0);
    return (rank < 0 || rank == r) && step >= from && step <= number(w, "to", 1 << 30) &&
           (step - static_cast<int>(from)) % static_cast<int>(number(w, "every", 1)) == 0;
  }
  double changed(const char* what, double value, int r, int step) const {
    for (const Words& w : s_.changes) {
      if (w.at("") != what || !hits(w, r, step)) continue;
      if (w.contains("value")) value = std::stod(w.at("value"));
      value = value * number(w, "factor", 1) * std::pow(number(w, "grow", 1), step - number(w, "from", 0)) + number(w, "add", 0);
    }
    return value;
  }
  // A relative deviation of standard deviation sigma, alike for each rank (or group of them) and step.
  double wobble(const Words& w, int who) {
    const double rho = number(w, "rho", 0);
    double& z = wobbles_[{&w, who}];
    z = rho * z + std::sqrt(1 - rho * rho) * std::normal_distribution<double>()(numbers_);
    return std::exp(number(w, "sigma", 0.03) * z);
  }
  static void tell(RankWriter& lane, ScalarOf what, double value) {
    lane.event(Kind::kScalar, Edge::kMark, static_cast<uint64_t>(what), std::bit_cast<uint64_t>(value));
  }
  // The backwards of a step but the last, and what the last is called on.
  void write_losses(RankWriter& lane, int r, int step) {
    const Words& w = s_.numbers_loss;
    const int terms = w.empty() ? 1 : static_cast<int>(number(w, "terms", 1));
    for (int k = 0; k < terms; ++k) {
      if (!w.empty()) {
        const double end = number(w, "end", number(w, "start", 0));
        double value = end + (number(w, "start", 0) - end) * std::exp(-step / number(w, "tau", 50));
        value *= wobble(w, r) * std::pow(number(w, "ratio", 1), k);
        tell(lane, ScalarOf::kLoss, changed("loss", value, r, step));
      }
      if (k + 1 == terms) break;
      lane.pass(0.5);
      lane.event(Kind::kBackward, Edge::kEnd, 1);
      advance(lane, step);
      lane.event(Kind::kBackward, Edge::kBegin, 1);
    }
  }
  // Once per backward where there are several, else as often as the scenario says.
  void advance(RankWriter& lane, int step) {
    if (s_.schedule.empty()) return;
    lane.event(Kind::kScheduler, Edge::kMark, 4, static_cast<uint64_t>(2 + step));
  }
  void write_optimizer(RankWriter& lane, int r, int step) {
    if (const Words& w = s_.numbers_norm; !w.empty()) {
      const int group = r / static_cast<int>(number(w, "apart", s_.ranks));
      if (norms_step_ != step) norms_step_ = step, norms_.clear();
      if (!norms_.contains(group)) norms_[group] = number(w, "start", 1) * wobble(w, group);
      tell(lane, ScalarOf::kGradNorm, changed("norm", norms_[group], r, step));
    }
    if (s_.rate > 0)
      lane.event(Kind::kScalar, Edge::kMark, static_cast<uint64_t>(ScalarOf::kLearningRate),
                 std::bit_cast<uint64_t>(changed("rate", s_.rate, r, step)), 0,
                 static_cast<uint64_t>(changed("trained", s_.trained, r, step)));
    const bool first = number(s_.schedule, "first", 0) != 0;
    const int advances = s_.schedule.empty() ? 0 : static_cast<int>(number(s_.schedule, "", 1));
    for (int k = 0; first && k < advances; ++k) advance(lane, step);
    if (!s_.unstepped.empty() && hits(s_.unstepped, r, step)) return;
    const double ms = own("optimizer", r, step);
    const bool skips = !s_.scaler.empty() && hits(s_.scaler, r, step);
    if (!s_.scaler.empty()) lane.event(Kind::kScalerStep, Edge::kBegin, 3);
    if (skips)
      lane.pass(ms);
    else
      lane.span(Kind::kOptimizer, ms, 3);
    if (!s_.scaler.empty()) lane.event(Kind::kScalerStep, Edge::kEnd, 3);
    if (!s_.cpu.empty()) lane.tell_usage();
    for (int k = 0; !first && k < advances; ++k) advance(lane, step);
  }

  // How much more work than usual a rank gets in a step.
  double load_at(int step) {
    const double sigma = number(s_.uneven, "", 0);
    return sigma > 0 && step >= number(s_.uneven, "from", 0) ? std::lognormal_distribution<double>(0, sigma)(rng_) : 1;
  }

  void work(RankWriter& lane, double load, double ms) {
    const double asleep = number(s_.uneven, "asleep", 0) != 0 ? std::max(0.0, load - 1) : 0;
    lane.pass((load - asleep) * ms);
    lane.pass_on_core(asleep * ms, 0);
  }

  // A reading of the allocator, as the recorder writes it.
  void read_memory(RankWriter& lane, const MemoryLine& m, int r, int step, bool top, double held, double tokens) {
    const std::string read = m.w.count("read") ? m.w.at("read") : "both";
    const auto at = pack_kind(top ? Kind::kBackward : Kind::kOptimizer, top ? Edge::kBegin : Edge::kEnd);
    const auto bytes = [](double mb) { return static_cast<uint64_t>(std::max(0.0, mb) * kMb); };
    const double near_top = held + m.of("top", 0) + m.of("per_token", 0) * tokens;
    peak_[r] = std::max({peak_[r], near_top, m.of("peak", 0)});
    const double reserved = std::max(m.of("reserved", 0), peak_[r] + m.of("split", 0));
    if (const int hit = static_cast<int>(m.of("hit", 0)); top && hit > 0 && step % hit == 0 && step >= m.of("from", 0)) {
      retries_[r] += static_cast<uint64_t>(m.of("retries", 0));
      frees_[r] += static_cast<uint64_t>(m.of("retries", 0) + m.of("frees", 0));
    }
    if (read != "both" && read != (top ? "top" : "held")) return;
    const double allocated = top ? near_top : held;
    lane.event(Kind::kMemory, Edge::kMark, bytes(allocated), bytes(reserved), bytes(allocated), bytes(m.of("split", 0)), at);
    lane.event(Kind::kMemoryPeak, Edge::kMark, bytes(peak_[r]), bytes(reserved), 0, 0, at);
    lane.event(Kind::kMemoryCounters, Edge::kMark, retries_[r], 0, 0, frees_[r], at);
  }

  void run_out(RankWriter& lane, int r, int step) {
    for (const MemoryLine& o : s_.ooms) {
      if (std::max(0, o.rank) != r || step != static_cast<int>(o.of("step", 0))) continue;
      const auto bytes = [&](const char* key) { return static_cast<uint64_t>(o.of(key, 0) * kMb); };
      lane.event(Kind::kOutOfMemory, Edge::kMark, bytes("mb"), bytes("allocated"), bytes("reserved"), bytes("capacity"));
      lane.event(Kind::kOutOfMemoryDetail, Edge::kMark, bytes("largest"), bytes("free"), bytes("split"), bytes("grown"));
    }
  }

  void one_step(int step) {
    const double tokens_of_all = tokens_at(step);
    std::vector<double> held(static_cast<size_t>(s_.ranks), 0);
    std::vector<double> tail(s_.ranks, 0);
    std::vector<int> alive;
    for (int r = 0; r < s_.ranks; ++r)
      if (!lanes_[r].dead) alive.push_back(r);
    // Lateness is measured on each rank's own clock since the last sync point.
    std::vector<double> spent(s_.ranks, 0), loads(s_.ranks, 1);
    for (int r : alive) {
      RankWriter& lane = lanes_[r];
      for (const Fault& f : s_.faults)
        if (f.hits(r, step)) lane.involuntary += f.involuntary, lane.voluntary += f.voluntary;
      const uint64_t before = lane.now();
      const double load = loads[r] = load_at(step), tokens = (number(s_.uneven, "blind", 0) != 0 ? tokens_of_all : tokens_of_all * load) * work_at(r, step);
      if (const auto loss = s_.lossy.find({r, step}); loss != s_.lossy.end()) lane.builder().note_lost(loss->second);
      if (const double ms = own("epoch", r, step); ms > 0) {
        lane.span(Kind::kLoaderCreate, ms, 5, 2);
      }
      lane.event(Kind::kFetch, Edge::kBegin, 5);
      lane.pass_on_core(own("input_wait", r, step), s_.queue[0] > 0 ? 0 : number(s_.cpu, "", 0));
      lane.event(Kind::kFetch, Edge::kEnd, 5, s_.queue[0], s_.queue[1], s_.queue[2]);
      if (s_.explicit_steps) lane.event(Kind::kStep, Edge::kBegin);
      lane.pass_on_core(own("gap", r, step), number(s_.cpu, "gap", number(s_.cpu, "", 0)));
      if (const double ms = own("h2d", r, step); ms > 0) lane.span(Kind::kH2d, ms, 1 << 20);
      for (uint32_t more = forwards_at(r, step); more > 1; --more) lane.span(Kind::kForward, 0, 9, 0, kForwardTraining);
      const bool gathered = number(s_.tokens, "gathered", 0) != 0;
      lane.event(Kind::kForward, Edge::kBegin, 9, gathered ? static_cast<uint64_t>(tokens) : 0, 0, 0,
                 kForwardGrad | kForwardTraining);
      if (const double ms = own("compile", r, step); ms > 0) lane.span(Kind::kCompile, ms);
      if (tokens > 0 && !gathered) lane.event(Kind::kShape, Edge::kMark, 8, static_cast<uint64_t>(tokens));
      run_out(lane, r, step);
      work(lane, load, own("forward", r, step));
      const MemoryLine* m = memory_of(r);
      if (const int hit = m ? static_cast<int>(m->of("hit", 0)) : 0; hit > 0 && step % hit == 0 && step >= m->of("from", 0)) lane.pass(m->of("slow", 0));
      lane.event(Kind::kForward, Edge::kEnd, 9);
      spent[r] = static_cast<double>(lane.now() - before) * 1e-6 + debt_[r];
    }
    if (s_.tensor_parallel > 1) meet_neighbours(alive, spent);
    for (int r : alive) {
      RankWriter& lane = lanes_[r];
      const uint64_t before = lane.now();
      const double load = loads[r], tokens = (number(s_.uneven, "blind", 0) != 0 ? tokens_of_all : tokens_of_all * load) * work_at(r, step);
      const MemoryLine* m = memory_of(r);
      lane.event(Kind::kBackward, Edge::kBegin, 1);
      write_losses(lane, r, step);
      if (m) {
        held[static_cast<size_t>(r)] = held_mb(*m, step);
        read_memory(lane, *m, r, step, true, held[static_cast<size_t>(r)], tokens);
      }
      if (const double ms = own("gc", r, step); ms > 0) lane.span(Kind::kGc, ms, 2);
      const double backward = own("backward", r, step);
      for (int bucket = 0; bucket < 3; ++bucket) {
        work(lane, load, backward / 3);
        lane.event(Kind::kCollective, Edge::kMark, 77, lane.sequence++, 1 << 20, static_cast<uint64_t>(CollectiveOp::kAllReduce));
      }
      lane.event(Kind::kBackwardOwn, Edge::kMark);
      spent[r] += static_cast<double>(lane.now() - before) * 1e-6;
    }
    double latest = 0;
    for (int r : alive) latest = std::max(latest, spent[r]);
    const double transfer_ms = s_.comm_sigma > 0 ? s_.comm_ms * std::lognormal_distribution<double>(0, s_.comm_sigma)(rng_) : s_.comm_ms;
    for (int r : alive) {
      RankWriter& lane = lanes_[r];
      lane.pass_on_core(s_.ranks > 1 ? latest - spent[r] + transfer_ms : 0, 0);
      if (const double ms = own("held", r, step); ms > 0) {
        lane.pass_on_core(ms, 1);
        held_[r] = ms;
      }
      lane.event(Kind::kBackward, Edge::kEnd, 1);
      const uint64_t after = lane.now();
      for (int k = 0; k < s_.small_collectives; ++k) {
        lane.event(Kind::kCollective, Edge::kMark, 77, lane.sequence, 8, static_cast<uint64_t>(CollectiveOp::kAllReduce));
        lane.span(Kind::kWait, 0.2, 77, lane.sequence++);
      }
      if (const Words& w = s_.large_collective; !w.empty()) {
        const auto bytes = static_cast<uint64_t>(number(w, "bytes", 0));
        lane.event(Kind::kCollective, Edge::kMark, 77, lane.sequence, bytes, static_cast<uint64_t>(CollectiveOp::kBroadcast));
        lane.span(Kind::kWait, number(w, "ms", 1), 77, lane.sequence++);
      }
      write_optimizer(lane, r, step);
      if (const MemoryLine* m = memory_of(r)) read_memory(lane, *m, r, step, false, held[static_cast<size_t>(r)], tokens_of_all);
      if (s_.explicit_steps) lane.event(Kind::kStep, Edge::kEnd);
      if (const double ms = own("checkpoint", r, step); ms > 0) lane.span(Kind::kSave, ms, 1);
      if (const double ms = own("validation", r, step); ms > 0)
        for (int k = 0; k < 10; ++k) {
          lane.span(Kind::kFetch, ms / 20, 6);
          lane.span(Kind::kForward, ms / 20, 9, 0, 0);
        }
      lane.pass_on_core(own("sleep", r, step), 0);
      debt_[r] = static_cast<double>(lane.now() - after) * 1e-6 + std::exchange(held_[r], 0);
      for (const Loss& loss : s_.losses)
        if (loss.rank == r && loss.step == step) kill(r, loss);
    }
  }

  void kill(int r, const Loss& loss) {
    RankWriter& lane = lanes_[r];
    lane.dead = true;
    RankLife& life = lane.builder().life();
    if (!loss.exception.empty()) {
      lane.builder().push_name(static_cast<uint16_t>(NameKind::kException), 1, loss.exception);
      lane.event(Kind::kException, Edge::kMark, 1);
    }
    if (loss.teardown) lane.span(Kind::kTeardown, 1);
    lane.builder().finish(static_cast<int64_t>(lane.now()));
    life.ended = true;
    life.exit_signal = loss.signal;
    life.exit_code = loss.code;
    life.clean_exit = loss.code == 0;
  }

  // The ranks of a group go on when the last of them is there; `spent` then holds the same for all of them.
  void meet_neighbours(const std::vector<int>& alive, std::vector<double>& spent) {
    for (int r : alive) {
      double latest = 0;
      for (int other : alive)
        if (group_of(other) == group_of(r)) latest = std::max(latest, arrived_.empty() ? spent[other] : arrived_[other]);
      if (arrived_.empty()) arrived_ = spent;
      const double ms = latest - arrived_[r] + s_.tensor_parallel_ms;
      RankWriter& lane = lanes_[r];
      const auto op = static_cast<uint64_t>(s_.untold ? CollectiveOp::kUnknown : CollectiveOp::kAllReduce);
      const uint64_t group = s_.untold ? 77 : group_of(r);
      if (!s_.untold) lane.event(Kind::kCollective, Edge::kMark, group, lane.neighbour_sequence, 1 << 20, op);
      lane.event(Kind::kWait, Edge::kBegin, group, lane.neighbour_sequence, 0, op);
      lane.pass(ms);
      lane.event(Kind::kWait, Edge::kEnd, group, lane.neighbour_sequence++);
      spent[r] = arrived_[r] + ms;
    }
    arrived_.clear();
  }
  RankLife life_of(int rank) {
    RankLife life = lanes_[rank].builder().life();
    if (s_.ranks_per_host > 0) life.hostname = "host" + std::to_string(rank / s_.ranks_per_host);
    return life;
  }
  uint64_t group_of(int rank) const { return 100 + static_cast<uint64_t>(rank / s_.tensor_parallel); }
  std::vector<int> block_of(int rank) const {
    std::vector<int> block;
    for (int r = 0; r < world(); ++r)
      if (group_of(r) == group_of(rank)) block.push_back(r);
    return block;
  }

  bool observed(int r) const { return s_.seen.empty() || std::find(s_.seen.begin(), s_.seen.end(), r) != s_.seen.end(); }
  bool joined(int r, uint32_t step) const {
    const auto joins = s_.joins.find(r);
    return joins == s_.joins.end() || step >= static_cast<uint32_t>(joins->second);
  }

  // As the agent does: who has steps is announced, they are fed, and then their ends are told.
  void deliver(const std::vector<int>& ranks) {
    std::vector<std::pair<int, std::vector<RankStep>>> all;
    for (int r : ranks) {
      std::vector<RankStep> steps = lanes_[r].builder().take_completed();
      if (!observed(r)) continue;
      std::erase_if(steps, [&](const RankStep& step) { return !joined(r, step.step); });
      if (!steps.empty()) engine_->announce(r, world());
      if (on_the_way) steps = on_the_way(r, std::move(steps));
      all.push_back({r, std::move(steps)});
    }
    for (auto& [r, steps] : all) {
      const bool any = !s_.joins.contains(r) || !steps.empty();
      for (RankStep& step : steps) engine_->feed(r, std::move(step));
      if (any || lanes_[r].builder().life().ended) engine_->set_life(r, life_of(r));
    }
  }
  void deliver() { deliver(all_ranks(s_.ranks)); }

  const Scenario& s_;
  std::mt19937_64 rng_;
  std::vector<RankWriter> lanes_;
  static constexpr double kMb = 1e6;
  std::vector<double> arrived_;  // while neighbours meet
  std::map<int, double> debt_, held_, peak_;
  std::mt19937_64 numbers_{11};  // of their own: times stay what they are without them
  std::map<std::pair<const Words*, int>, double> wobbles_;
  std::map<int, double> norms_;  // by group, of norms_step_
  int norms_step_ = -1;
  std::map<int, uint64_t> retries_, frees_;
  std::map<int, DeviceRoom> rooms_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace stepscope::scenario
