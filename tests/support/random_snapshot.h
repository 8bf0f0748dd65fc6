// Arbitrary snapshots for property tests: any field may be missing, huge, not a number, empty, or hold hostile text.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "diagnose/snapshot.h"

namespace stepscope::examples {

class RandomSnapshot {
 public:
  // kNewer: also words that only a newer stepscope knows, which the schema of this one does not list.
  enum class Words { kKnown, kNewer };
  explicit RandomSnapshot(uint64_t seed, Words words = Words::kNewer) : newer_(words == Words::kNewer), random_(seed) {}

  Snapshot make() {
    Snapshot s;
    s.run = {.name = text(), .started_at = text(), .duration_s = number(), .world_size = small(), .nodes = small(), .attempts = small(),
             .status = pick({"completed", "crashed", "interrupted", "hung", "running"}), .command = texts(), .versions = {{key(), text()}, {key(), text()}},
             .thresholds = {{text(), 0.125 * small(), 0.5 * small()}, {text(), 1e9 * small(), 2.0 * small()}}};
    if (chance()) s.run.exit_code = small() - 10;
    for (int i = small() % 5; i > 0; --i) s.findings.push_back(finding());
    if (!s.findings.empty() && chance()) s.primary = small() % static_cast<int>(s.findings.size());
    for (int i = small() % 4; i > 0; --i) s.checks.push_back({text(), chance(), maybe(), maybe(), text()});
    for (const char* name : {"system", "process", "step_time", "step_memory"}) {
      if (chance()) s.sections.push_back({name, KindWord::parsed(text()), severity(), text(), values()});
    }
    s.job_clock = chance() ? "gpu" : "cpu";
    for (int64_t& ns : s.job_ledger) ns = duration();
    s.steps = random_();
    s.steps_analyzed = random_();
    s.wall_ms = {maybe(), maybe(), maybe(), maybe()};
    for (size_t c = 0; c < kCategoryCount; ++c) {
      if (chance()) s.phases.push_back({std::string(kCategoryNames[c]), maybe(), maybe(), maybe(), maybe(), chance() ? std::optional<int>(small()) : std::nullopt});
    }
    const int ranks = small();
    for (int r = 0; r < ranks; ++r) s.ranks.push_back(rank(r));
    for (int r = 0; r < small() % 4; ++r) s.memory.push_back({r, maybe(), maybe(), maybe(), maybe(), maybe(), maybe()});
    for (int i = small() % 4; i > 0; --i) s.epochs.push_back({small(), count32(), count32(), count32(), number(), ledger(), maybe()});
    if (!s.epochs.empty()) s.epochs_count = count32();
    for (int i = small() % 3; i > 0; --i) s.collectives.push_back({text(), text(), ints(), number(), number(), maybe(), maybe(), maybe()});
    s.throughput = s.system = s.process = values();
    s.observer = {random_(), random_() % 9, random_() % 3, maybe(), number(), texts(), texts()};
    for (int i = small(); i > 0; --i) s.recent.push_back(point(ranks));
    return s;
  }

  std::string text() {
    static const char* kPieces[] = {"rank", " ", "\x1b[31m", "日本語", "\xff\xfe", "\n", "\t", "é", "\"<script>&'", "\\", "\xe2\x80\xae", "very-long-word-without-a-break-", "\0x", "🙂", "a\u0301"};
    std::string out;
    for (int i = small() % 12; i > 0; --i) out += kPieces[random_() % std::size(kPieces)];
    if (random_() % 20 == 0) out += std::string(300, 'w');
    return out;
  }

  // Valid UTF-8: a repaired key may stand elsewhere in the order when it comes back.
  std::string key() {
    std::string out = text();
    for (char& c : out) c = static_cast<unsigned char>(c) >= 0x80 ? '~' : c;
    return out;
  }

 private:
  bool chance() { return random_() % 3 != 0; }
  int small() { return static_cast<int>(random_() % 24); }
  uint32_t count32() { return static_cast<uint32_t>(random_()); }
  LedgerNs ledger() {
    LedgerNs out{};
    for (int64_t& ns : out) ns = duration();
    return out;
  }
  int64_t duration() { return random_() % 4 == 0 ? 0 : static_cast<int64_t>(random_() >> (17 + random_() % 35)); }  // a day and a half at most
  double number() {
    switch (random_() % 12) {
      case 0: return 0;
      case 1: return std::numeric_limits<double>::quiet_NaN();
      case 2: return std::numeric_limits<double>::infinity();
      case 3: return 1e300;
      case 4: return -1e-300;
      case 5: return static_cast<double>(random_());
      default: return std::ldexp(static_cast<double>(static_cast<int64_t>(random_())), -static_cast<int>(random_() % 64));
    }
  }
  std::optional<double> maybe() { return chance() ? std::optional<double>(number()) : std::nullopt; }
  std::string pick(std::initializer_list<const char*> words) { return *(words.begin() + random_() % words.size()); }
  std::string word(std::initializer_list<const char*> known) { return newer_ && chance() ? text() : pick(known); }
  Severity severity() { return static_cast<Severity>(random_() % 3); }
  std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (int i = small() % 4; i > 0; --i) out.push_back(text());
    return out;
  }
  std::vector<int> ints() {
    std::vector<int> out;
    for (int i = small(); i > 0; --i) out.push_back(static_cast<int>(random_() % 4096));
    return out;
  }
  std::map<std::string, std::optional<double>> values() {
    return {{"cpu_share", maybe()}, {"memory_used_bytes", maybe()}, {"samples_per_s", maybe()}, {key() + "_ms", maybe()}};
  }
  Finding finding() {
    Finding f{.id = "f" + std::to_string(small()), .kind = KindWord::parsed(word({"INPUT_BOUND", "COMPUTE_STRAGGLER", "HANG", "NO_DATA"})), .severity = severity(),
              .job_scope = chance(), .ranks = ints(), .victims = ints(), .phase = pick({"", "backward", "input_wait"}), .cause = CauseWord::parsed(word({"", "same_work_slower", "signal_9"})), .pattern = text(),
              .first_step = small() - 1, .last_step = small() - 1, .detected_step = small() - 1, .cost_share = number(), .cost_seconds = number(),
              .saves_share = maybe(), .confidence = number(), .coverage = number(), .clock = pick({"cpu", "gpu"}), .section = SectionWord::parsed(word({"", "step_time"})),
              .title = text(), .action = text()};
    for (int i = small() % 4; i > 0; --i) {
      f.evidence.push_back({.name = text() + "_ms", .value = maybe(), .others_median = maybe(), .text = text()});
      if (chance()) f.evidence.back().rank = small();
    }
    return f;
  }
  RankStat rank(int number_of_rank) {
    RankStat r;
    r.rank = number_of_rank;
    r.local_rank = small();
    r.node = small();
    r.pid = static_cast<int>(random_() >> 33);
    r.hostname = text();
    r.state = Word<RankState>::parsed(word({"running", "finished", "stopped", "lost", "exception", "hung", "not_seen"}));
    r.steps = static_cast<uint32_t>(random_());
    r.step_ms = maybe(), r.own_ms = maybe(), r.stall_ms = maybe(), r.caused_wait_ms = maybe();
    r.phase_ms = {{"forward", maybe()}, {key(), maybe()}};
    r.cpu_share = maybe(), r.rss_peak_bytes = maybe(), r.uss_peak_bytes = maybe(), r.samples_per_s = maybe(), r.tokens_per_s = maybe();
    r.last_phase = text();
    r.steps_wall_ms = number();
    for (int64_t& ns : r.ledger) ns = duration();
    return r;
  }
  StepPoint point(int ranks) {
    StepPoint p{.step = static_cast<uint32_t>(random_()), .wall_ms = number(), .tags = static_cast<uint32_t>(random_())};
    for (int r = 0; r < ranks; ++r) p.rank_ms.push_back(static_cast<float>(std::ldexp(static_cast<double>(random_() >> 40), -static_cast<int>(random_() % 30))));
    if (ranks > 0 && chance()) p.rank_ms[0] = std::nanf("");
    return p;
  }

  bool newer_;
  std::mt19937_64 random_;
};

}  // namespace stepscope::examples
