// Arbitrary snapshots for property tests: any field may be missing, huge, not a number, empty, or hold hostile text.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "diagnose/snapshot.h"
#include "report/summary_fields.h"

namespace stepscope::examples {

class RandomSnapshot {
 public:
  // kNewer: also words that only a newer stepscope knows, which the schema of this one does not list.
  enum class Words { kKnown, kNewer };
  explicit RandomSnapshot(uint64_t seed, Words words = Words::kNewer) : newer_(words == Words::kNewer), random_(seed) {}

  // Every field that the summary has (report/summary_fields.h).
  Snapshot make() {
    Snapshot s;
    Fields fields{*this};
    summary_fields(fields, s);
    if (s.epochs.empty()) s.epochs_count = 0;
    s.primary = s.findings.empty() || chance() ? -1 : small() % static_cast<int>(s.findings.size());
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
  std::vector<float> points(size_t ranks) {
    std::vector<float> out;
    for (size_t r = 0; r < ranks; ++r) out.push_back(static_cast<float>(std::ldexp(static_cast<double>(random_() >> 40), -static_cast<int>(random_() % 30))));
    if (ranks > 0 && chance()) out[0] = std::nanf("");
    return out;
  }

  // Visits the fields of a snapshot and sets each to something.
  struct Fields {
    static constexpr bool kReads = true;
    RandomSnapshot& any;
    size_t ranks = 0;

    void operator()(std::string_view key, std::string& text) {
      text = key == "status" ? any.pick({"completed", "crashed", "interrupted", "hung", "running"})
             : key == "clock" || key == "job_clock" ? any.pick({"cpu", "gpu"})
             : key == "scope" ? any.pick({"ranks", "job", "seen"})
             : key == "phase" ? any.pick({"", "backward", "input_wait"})
             : key == "id" ? "f" + std::to_string(any.small())
             : key == "explained_by" ? any.pick({"", "f1"})
             : any.text();
    }
    void operator()(std::string_view, bool& flag) { flag = any.chance(); }
    void operator()(std::string_view, int& number) { number = any.small(); }
    void operator()(std::string_view, uint32_t& count) { count = any.count32(); }
    void operator()(std::string_view, uint64_t& count) { count = any.chance() ? any.count32() : any.random_(); }
    void operator()(std::string_view key, double& number) {
      number = any.number();
      const bool threshold = key == "value" || key == "default";  // range-checked where it is set
      if (threshold && !std::isfinite(number)) number = 0.25;
    }
    void operator()(std::string_view, std::optional<double>& number) { number = any.maybe(); }
    void operator()(std::string_view key, std::optional<int>& number) { number = any.chance() ? std::optional<int>(any.small() - (key == "exit_code" ? 10 : 0)) : std::nullopt; }
    void operator()(std::string_view, Severity& severity) { severity = any.severity(); }
    void operator()(std::string_view, KindWord& kind) { kind = KindWord::parsed(any.word({"INPUT_BOUND", "COMPUTE_STRAGGLER", "HANG", "NO_DATA"})); }
    void operator()(std::string_view, CauseWord& cause) { cause = CauseWord::parsed(any.word({"", "same_work_slower", "signal_9"})); }
    void operator()(std::string_view, SectionWord& section) { section = SectionWord::parsed(any.word({"", "step_time"})); }
    void operator()(std::string_view, Word<RankState>& state) {
      state = Word<RankState>::parsed(any.word({"running", "finished", "stopped", "lost", "exception", "hung", "not_seen"}));
    }
    void operator()(std::string_view, std::vector<std::string>& texts) { texts = any.texts(); }
    void operator()(std::string_view, std::vector<int>& numbers) { numbers = any.ints(); }
    void operator()(std::string_view, std::map<std::string, std::string>& texts) { texts = {{any.key(), any.text()}, {any.key(), any.text()}}; }
    void operator()(std::string_view, std::map<std::string, std::optional<double>>& numbers) { numbers = any.values(); }

    void or_null(std::string_view key, auto& value) { (*this)(key, value); }
    void if_any(std::string_view key, auto& value) { (*this)(key, value); }
    void figure(std::string_view key, const std::string&, std::optional<double>& number) { (*this)(key, number); }
    void step(std::string_view, int64_t& step) { step = any.small() - 1; }
    void ms(std::string_view, int64_t& ns) { ns = any.duration(); }
    void ledger(std::string_view, LedgerNs& ledger) { ledger = any.ledger(); }
    void rounded(std::string_view, double& ms) { ms = any.number(); }
    void rounded(std::string_view, std::vector<float>& list) { list = any.points(ranks); }
    void derived(std::string_view, const auto&...) {}
    void object(std::string_view, auto fields) { fields(*this); }
    template <class T>
    void object_or_null(std::string_view, std::optional<T>& value) {
      if (any.chance()) summary_fields(*this, value.emplace());
    }
    template <class T>
    void list(std::string_view, std::vector<T>& items) {
      constexpr bool kLong = std::is_same_v<T, RankStat> || std::is_same_v<T, StepPoint>;
      for (int i = any.small() % (kLong ? 24 : 5); i > 0; --i) {
        summary_fields(*this, items.emplace_back());
        // One entry per rank, in order.
        if constexpr (std::is_same_v<T, RankStat> || std::is_same_v<T, DeviceMemoryRank>) items.back().rank = static_cast<int>(items.size()) - 1;
      }
      if constexpr (std::is_same_v<T, RankStat>) ranks = items.size();
    }
    template <class T>
    void named(std::string_view, std::vector<T>& items, std::string T::* name) {
      const auto add = [&](std::string_view word) {
        if (!any.chance()) return;
        items.emplace_back().*name = word;
        summary_fields(*this, items.back());
      };
      if constexpr (std::is_same_v<T, PhaseStat>)
        for (std::string_view category : kCategoryNames) add(category);
      else
        for (std::string_view section : {"system", "process", "step_time", "step_memory"}) add(section);
    }
    void by_rank(std::string_view, std::vector<RankStat>& all, auto fields) {
      for (RankStat& rank : all) fields(*this, rank);
    }
    void primary(const Snapshot&) {}
  };

  bool newer_;
  std::mt19937_64 random_;
};

}  // namespace stepscope::examples
