// The grammar of scenario files: synthetic ranks in, expected findings out. One file is one test (tests/scenarios/*.scn);
// scenario_play.h plays it.
//
//   # words
//   ranks 4                      steps 200                 seed 7            noise 0.05   (relative, log-normal)
//   phase forward 5              own time per step, ms (input_wait, forward, backward, optimizer, gap = unnamed code)
//   comm 1.5 sigma=0.8           transfer of the gradient all-reduce, ms, log-normal by step       world 4 (expected ranks, default ranks)
//   queue 8 6 1                  batches in flight, ready, out of order after each fetch (default: no workers)
//   seen 0 1                     only these ranks are observed, of `ranks` that run (and of `world`)
//   joins rank=3 step=60         the rank is observed from this step on
//   tensor_parallel 2 comm=0.3   neighbours meet in a group of their own between forward and backward; untold=1: no hook tells
//                                what they wait for
//   ranks_per_host 4             so many neighbours live on one host (default: nobody tells of hosts)
//   cpu 0.95 gap=0               of its own time the training thread has a core (default: nobody tells), but in unnamed code;
//                                none in stalls, asleep, or while workers load
//   explicit                     the program marks its steps with trace_step
//   fault rank=1 phase=backward add=10 from=0 to=199 every=1 sigma=0   adds ms to a phase of some steps; rank=all;
//                                phases also: h2d, gc, checkpoint, validation, compile, epoch, sleep (unnamed, after the step), held (at the
//                                end of backward, on a core, when the wait there is over)
//   fault rank=1 factor=1.5      all compute of the rank takes so much longer; with work=1 its tokens are as much more
//   fault rank=1 phase=forward add=10 forwards=2       so many more runs of the model than the one of a step
//   fault rank=1 phase=backward add=90 every=9 involuntary=5 voluntary=20   so often the thread loses its core, or lets it go
//   fault rank=all pace=1.3      everything that the rank does takes so much longer
//   small_collectives 12         per step, outside of backward
//   large_collective bytes=33554432 ms=10   the same
//   memory rank=0 capacity=80000 base=4000 top=2000 reserved=8000 split=200 grow=8 from=0 to=199 stop=.. every=1
//          bend=40 sawtooth=50 per_token=0.5 jump=3000 at=120 noise=2 read=both|top|held     sizes in MB (10^6 bytes);
//                                rank=all; base is held between steps and grows by `grow` per step (every `every` steps)
//                                from..to, or bends: base + grow * bend * (1 - exp(-step / bend)); top is held only within
//                                the step; per_token: MB per token near the top; retries=2 frees=1 per step at which
//                                `hit` divides the step, which lasts slow=20 ms longer
//   tokens 512 sigma=0.3 slope=4 sawtooth=100     per step: log-normal, growing, starting again every so many steps
//   tokens 512 later=1024 from=200                another number from a step on
//   tokens 512 gathered=1                         no loader tells them: they are the elements that the model is given
//   uneven 0.8 from=0 blind=1    forward and backward take a log-normal factor (sigma 0.8) by rank and step, and so do the tokens,
//                                but not with blind=1: then the batches do not tell; asleep=1: a rank that takes longer than
//                                usual has no core meanwhile
//   tenant rank=0 pid=77 mb=20000 own=9000        another process on the rank's device
//   oom rank=0 step=60 mb=4000 allocated=.. reserved=.. free=.. largest=.. grown=..   inside forward
//   lost rank=1 step=50 signal=9 | exception="ValueError: x" | teardown=1 | code=1 (0: in order)
//   lossy rank=0 step=20 count=5000
//   config loader 5 workers=0;batch=8      a fact of the program's set-up that every rank tells (config 1 loader …: rank 1)
//   answers 24 recurrent=20      rank 0 is asked so often where it is in forward; it is in torch's recurrent modules so often
//   silence batchnorm            advice that the user does not want
//   late rank=1 ms=8000          the rank reaches init_process_group so late
//   prepares rank=1 ms=8000      between init_process_group and DDP the rank is busy for so long; others wait=1 in a barrier, or
//                                (default) in DDP's constructor, where no hook tells of them
//   init_group                   every rank calls init_process_group; destroy_group: and leaves by destroy_process_group
//   flops_per_step 2e12          peak_flops 1e15
//   losses start=2.5 end=0.5 tau=50 sigma=0.03 rho=0.5 terms=1    what backward is called on: falls from start to end,
//                                with noise relative to it (rho: of one step with the next); terms: backwards per step, each
//                                with a loss of its own, so many times larger than the one before (ratio=20)
//   norms start=1 sigma=0.1      the gradient norm, the same on all ranks; apart=2: only among so many neighbours
//   rate 0.1 8                   the learning rate of every rank, and how many tensors it is for
//   number loss|norm|rate|trained rank=1|all from=0 to=199 every=1 value=nan|inf|-3 factor=10 add=5 grow=2   changes it; grow: per step
//   scaler from=0 to=199 every=1 a GradScaler steps, and skips these steps
//   unstepped rank=1 from=40 every=15   the rank does not call its optimizer in these steps
//   schedule 1 first=1           advances per step; first: before the first step of the optimizer; wind=50: before training
//   expect KIND [rank=1] [phase=backward] [severity=warn|crit|info] [cause=..] [first=a..b] [detected<=n]
//          [saves=a..b|unknown] [cost=a..b] [pattern=..] [scope=job|ranks|seen] [says="part of the title"]
//   expect_silent                no finding of warn or crit
//   expect_no KIND
//   expect_primary KIND
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/engine.h"

namespace stepscope::scenario {

using Words = std::map<std::string, std::string>;

struct Fault {
  int rank = -1;  // -1 = all
  std::string phase;
  double add_ms = 0, factor = 1, pace = 1, sigma = 0;
  bool work = false;
  uint32_t forwards = 0, involuntary = 0, voluntary = 0;
  int from = 0, to = 1 << 30, every = 1;
  bool hits(int r, int step) const { return (rank < 0 || rank == r) && step >= from && step <= to && (step - from) % every == 0; }
};

struct Loss { int rank = 0, step = 0, signal = 0; bool teardown = false; std::string exception; int code = -1; };

struct Config { int rank = -1; uint64_t id = 0; std::string text; };  // rank -1 = all
struct MemoryLine {
  int rank = -1;
  Words w;
  double of(const std::string& key, double otherwise) const {
    const auto found = w.find(key);
    return found == w.end() ? otherwise : std::stod(found->second);
  }
};

struct Scenario {
  int ranks = 2, steps = 100, world = 0, small_collectives = 0;
  uint64_t seed = 1;
  double noise = 0.03, comm_ms = 1, comm_sigma = 0;
  Words prepares;
  bool explicit_steps = false, init_group = false, destroy_group = false;
  std::vector<Config> configs;
  EngineOptions options;
  std::array<uint64_t, 3> queue{};
  std::map<std::string, double> phases{{"input_wait", 0.5}, {"forward", 5}, {"backward", 8}, {"optimizer", 1}, {"gap", 0.2}};
  std::vector<Fault> faults;
  std::vector<Loss> losses;
  std::vector<MemoryLine> memory, tenants, ooms;
  std::vector<int> seen;            // empty = all
  std::map<int, int> joins;         // rank → step
  std::map<int, double> late_ms;
  int tensor_parallel = 1;
  bool untold = false;
  int ranks_per_host = 0;
  double tensor_parallel_ms = 0.3;
  Words tokens, uneven, cpu;
  std::map<std::pair<int, int>, uint64_t> lossy;
  Words large_collective, numbers_loss, numbers_norm, scaler, unstepped, schedule, answers;
  std::vector<Words> changes;  // of loss, norm, rate and trained
  double rate = 0, trained = 0;
  std::vector<std::pair<std::string, Words>> expects;  // command, arguments
};

inline Words words_of(std::istringstream& in) {
  Words out;
  std::string word;
  while (in >> word) {
    if (word[0] == '#') break;
    size_t at = word.find("<=");
    size_t width = 2;
    if (at == std::string::npos) at = word.find('='), width = 1;
    if (at == std::string::npos) {
      out[""] = word;
      continue;
    }
    std::string value = word.substr(at + width);
    if (!value.empty() && value[0] == '"')
      while (value.size() < 2 || value.back() != '"') {
        std::string more;
        if (!(in >> more)) break;
        value += " " + more;
      }
    if (value.size() >= 2 && value[0] == '"') value = value.substr(1, value.size() - 2);
    out[word.substr(0, at)] = value;
  }
  return out;
}

inline double number(const Words& w, const std::string& key, double otherwise) {
  const auto found = w.find(key);
  return found == w.end() || found->second == "all" ? otherwise : std::stod(found->second);
}

inline Scenario read(const std::string& path) {
  Scenario s;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string command;
    if (!(in >> command) || command[0] == '#') continue;
    if (command == "ranks") in >> s.ranks;
    else if (command == "steps") in >> s.steps;
    else if (command == "world") in >> s.world;
    else if (command == "seed") in >> s.seed;
    else if (command == "noise") in >> s.noise;
    else if (command == "comm") in >> s.comm_ms, s.comm_sigma = number(words_of(in), "sigma", 0);
    else if (command == "large_collective") s.large_collective = words_of(in);
    else if (command == "small_collectives") in >> s.small_collectives;
    else if (command == "queue") in >> s.queue[0] >> s.queue[1] >> s.queue[2];
    else if (command == "seen") for (int r; in >> r;) s.seen.push_back(r);
    else if (command == "joins") { const Words w = words_of(in); s.joins[static_cast<int>(number(w, "rank", 0))] = static_cast<int>(number(w, "step", 0)); }
    else if (command == "late") { const Words w = words_of(in); s.late_ms[static_cast<int>(number(w, "rank", 0))] = number(w, "ms", 0); }
    else if (command == "ranks_per_host") in >> s.ranks_per_host;
    else if (command == "tensor_parallel") {
      in >> s.tensor_parallel;
      const Words w = words_of(in);
      s.tensor_parallel_ms = number(w, "comm", 0.3), s.untold = number(w, "untold", 0) != 0;
    }
    else if (command == "explicit") s.explicit_steps = true;
    else if (command == "prepares") { s.prepares = words_of(in); }
    else if (command == "init_group") s.init_group = true;
    else if (command == "destroy_group") s.destroy_group = true;
    else if (command == "flops_per_step") in >> s.options.flops_per_step;
    else if (command == "peak_flops") in >> s.options.peak_flops;
    else if (command == "silence") in >> s.options.silence.emplace_back();
    else if (command == "config") {
      Config c;
      std::string subject, values;
      in >> subject;
      if (std::isdigit(static_cast<unsigned char>(subject[0]))) c.rank = std::stoi(subject), in >> subject;
      in >> c.id >> values;
      c.text = subject + "|" + values;
      s.configs.push_back(c);
    }
    else if (command == "phase") { std::string p; in >> p; in >> s.phases[p]; }
    else if (command == "fault") {
      const Words w = words_of(in);
      Fault f;
      f.rank = static_cast<int>(number(w, "rank", -1));
      f.phase = w.count("phase") ? w.at("phase") : "";
      f.add_ms = number(w, "add", 0), f.factor = number(w, "factor", 1), f.pace = number(w, "pace", 1), f.sigma = number(w, "sigma", 0);
      f.work = number(w, "work", 0) != 0;
      f.forwards = static_cast<uint32_t>(number(w, "forwards", 0));
      f.involuntary = static_cast<uint32_t>(number(w, "involuntary", 0)), f.voluntary = static_cast<uint32_t>(number(w, "voluntary", 0));
      f.from = static_cast<int>(number(w, "from", 0)), f.to = static_cast<int>(number(w, "to", 1 << 30)), f.every = static_cast<int>(number(w, "every", 1));
      s.faults.push_back(f);
    } else if (command == "lost") {
      const Words w = words_of(in);
      s.losses.push_back({static_cast<int>(number(w, "rank", 0)), static_cast<int>(number(w, "step", 0)), static_cast<int>(number(w, "signal", 0)),
                          number(w, "teardown", 0) != 0, w.count("exception") ? w.at("exception") : "",
                          static_cast<int>(number(w, "code", -1))});
    } else if (command == "memory" || command == "tenant" || command == "oom") {
      const Words w = words_of(in);
      auto& list = command == "memory" ? s.memory : command == "tenant" ? s.tenants : s.ooms;
      list.push_back({static_cast<int>(number(w, "rank", -1)), w});
    } else if (command == "tokens") {
      s.tokens = words_of(in);
    } else if (command == "cpu") {
      s.cpu = words_of(in);
    } else if (command == "losses") {
      s.numbers_loss = words_of(in), s.numbers_loss.try_emplace("start", "2.5");
    } else if (command == "norms") {
      s.numbers_norm = words_of(in), s.numbers_norm.try_emplace("start", "1");
    } else if (command == "rate") {
      in >> s.rate >> s.trained;
    } else if (command == "number") {
      s.changes.push_back(words_of(in));
    } else if (command == "unstepped") {
      s.unstepped = words_of(in), s.unstepped.try_emplace("from", "0");
    } else if (command == "scaler") {
      s.scaler = words_of(in), s.scaler.try_emplace("from", "0");
    } else if (command == "schedule") {
      s.schedule = words_of(in);
    } else if (command == "answers") {
      s.answers = words_of(in);
    } else if (command == "uneven") {
      s.uneven = words_of(in);
    } else if (command == "lossy") {
      const Words w = words_of(in);
      s.lossy[{static_cast<int>(number(w, "rank", 0)), static_cast<int>(number(w, "step", 0))}] = static_cast<uint64_t>(number(w, "count", 1));
    } else if (command.starts_with("expect")) s.expects.push_back({command, words_of(in)});
    else throw std::runtime_error(path + ": unknown line: " + line);
  }
  return s;
}

// Names of the scenario files, in order; where one lies, and what a test of it is called.
inline std::string path_of(const std::string& file) { return std::string(SS_SOURCE_DIR) + "/tests/scenarios/" + file; }
inline std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(path_of("")))
    if (entry.path().extension() == ".scn") out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

inline std::string test_name(const std::string& file) {
  std::string name = file.substr(0, file.size() - 4);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace stepscope::scenario
