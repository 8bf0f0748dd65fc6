#include "report/figures.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text_format.h"

namespace stepscope {
namespace {

// Names that say more in other words than their parts do.
constexpr std::pair<std::string_view, std::string_view> kLabels[] = {
    {"h2d", "host to device"},
    {"comm_transfer", "communication"},
    {"user_code", "your code"},
    {"unresolved", "unresolved: unseen ranks or the link"},
    {"own_excess_ms", "own time above the others'"},
    {"slowdown_by_others_at_most", "slowdown that other programs may cost"},
    {"waiting_caused_share", "part of all waiting"},
    {"others_wait_ms", "the others wait"},
    {"line_share", "time at one line"},
    {"line_least_share", "time there, at least"},
    {"line_samples", "stack samples"},
    {"first_late_bucket", "first late gradient bucket"},
    {"most_often_last_share", "most often the last"}};

// Parts of names that are not written as they are spelled.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"mfu", "MFU"}, {"gc", "garbage collection"},
                                                                    {"cpu", "CPU"}, {"gpu", "GPU"},
                                                                    {"rss", "RSS"}, {"uss", "USS"},
                                                                    {"pss", "PSS"}, {"io", "I/O"},
                                                                    {"oom", "OOM"}, {"ecc", "ECC"},
                                                                    {"xid", "XID"}, {"pcie", "PCIe"},
                                                                    {"sm", "SM"},   {"nvlink", "NVLink"},
                                                                    {"ddp", "DDP"}};

std::string format_flops(double flops) {
  constexpr std::pair<double, const char*> scales[] = {
      {1e18, "EFLOP"}, {1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}};
  for (const auto& [scale, unit] : scales)
    if (flops >= scale) return format_digits(flops / scale) + " " + unit + "/s";
  return format_digits(flops) + " FLOP/s";
}

std::string format_number(double value) {
  if (value >= 0 && value < 1e15 && (value >= 1000 || value == std::floor(value)))
    return format_count(static_cast<uint64_t>(std::llround(value)));
  return format_digits(value);
}

constexpr double kBytesPerGb = 1e9;  // where a name says gb it means powers of ten

// Units at the end of names, the longer ones first: how a figure is written, and what its name is cut by.
struct Unit {
  std::string_view suffix;
  std::string (*text)(double value);
};
constexpr Unit kUnits[] = {
    {"_bytes_per_s", [](double v) { return format_bytes(v) + "/s"; }},
    {"_gb_per_s", [](double v) { return format_bytes(v * kBytesPerGb) + "/s"; }},
    {"_ms_per_s", [](double v) { return format_ms(v) + " per s"; }},
    {"_ms_per_step", [](double v) { return format_ms(v) + " per step"; }},
    {"_per_step", [](double v) { return format_number(v) + " per step"; }},
    {"_per_s", [](double v) { return format_number(v) + "/s"; }},
    {"_celsius", [](double v) { return format_digits(v) + " °C"; }},
    {"_watts", [](double v) { return format_digits(v) + " W"; }},
    {"_bytes", [](double v) { return format_bytes(v); }},
    {"_cores", [](double v) { return format_digits(v) + " cores"; }},
    {"_share", [](double v) { return format_share(v); }},
    {"_pct", [](double v) { return format_share(v / 100); }},
    {"_mhz", [](double v) { return format_digits(v) + " MHz"; }},
    {"_ms", [](double v) { return format_ms(v); }},
    {"_us", [](double v) { return format_digits(v) + " µs"; }},
    {"_ns", [](double v) { return format_digits(v) + " ns"; }},
    {"_c", [](double v) { return format_digits(v) + " °C"; }},
    {"_w", [](double v) { return format_digits(v) + " W"; }},
    {"_s", [](double v) { return format_seconds(v); }},
};
// Names that are a unit as a whole.
struct WholeName {
  std::string_view name, label;
  std::string (*text)(double value);
};
constexpr WholeName kWholeNames[] = {
    {"mfu", "MFU", [](double v) { return format_share(v); }},
    {"flops_per_s", "computes", [](double v) { return format_flops(v); }},
    {"bytes_per_s", "growth", [](double v) { return format_bytes(v) + "/s"; }},
    {"bytes_per_step", "growth", [](double v) { return format_bytes(v) + " per step"; }},
    {"bytes_per_epoch", "growth", [](double v) { return format_bytes(v) + " per epoch"; }},
    {"seconds_to_limit", "time to the limit", [](double v) { return format_seconds(v); }},
    {"seconds_to_limit_low", "time to the limit, at least", [](double v) { return format_seconds(v); }},
    {"seconds_to_limit_high", "time to the limit, at most", [](double v) { return format_seconds(v); }},
    {"steps_to_limit", "steps to the limit", format_number},
    {"steps_to_limit_low", "steps to the limit, at least", format_number},
    {"steps_to_limit_high", "steps to the limit, at most", format_number},
};

const WholeName* whole_name(std::string_view name) {
  for (const WholeName& whole : kWholeNames)
    if (name == whole.name) return &whole;
  return nullptr;
}

constexpr std::string_view kShareOf = "_share_of_";  // "slower_in_share_of_steps"

const Unit* unit_of(std::string_view name) {
  for (const Unit& unit : kUnits)
    if (name.size() > unit.suffix.size() && name.ends_with(unit.suffix)) return &unit;
  return nullptr;
}

}  // namespace

std::string format_value(std::string_view name, MaybeNumber value) {
  if (!value || !std::isfinite(*value)) return std::string(kNotMeasured);
  if (const WholeName* whole = whole_name(name)) return whole->text(*value);
  if (const size_t at = name.find(kShareOf); at != std::string_view::npos)
    return format_share(value) + " of " + category_label(name.substr(at + kShareOf.size()));
  const Unit* unit = unit_of(name);
  return unit ? unit->text(*value) : format_number(*value);
}

std::string category_label(std::string_view category) {
  for (const auto& [from, to] : kLabels)
    if (category == from) return std::string(to);
  std::string out;
  for (size_t pos = 0; pos <= category.size();) {
    const size_t end = std::min(category.find('_', pos), category.size());
    const std::string_view word = category.substr(pos, end - pos);
    const auto known =
        std::find_if(std::begin(kWords), std::end(kWords), [&](const auto& w) { return w.first == word; });
    if (pos > 0) out += ' ';
    out += known == std::end(kWords) ? word : known->second;
    pos = end + 1;
  }
  return out;
}

std::string value_label(std::string_view name) {
  for (const auto& [from, to] : kLabels)
    if (name == from) return std::string(to);
  if (const WholeName* whole = whole_name(name)) return std::string(whole->label);
  if (const size_t at = name.find(kShareOf); at != std::string_view::npos) return category_label(name.substr(0, at));
  const Unit* unit = unit_of(name);
  return category_label(unit ? name.substr(0, name.size() - unit->suffix.size()) : name);
}

size_t phase_order(std::string_view phase) {
  return static_cast<size_t>(std::find(kCategoryNames.begin(), kCategoryNames.end(), phase) - kCategoryNames.begin());
}

std::vector<LedgerSlice> ledger_slices(const LedgerNs& ledger) {
  double sum = 0;
  for (int64_t ns : ledger) sum += static_cast<double>(std::max<int64_t>(ns, 0));
  std::vector<LedgerSlice> slices;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (ledger[i] > 0) slices.push_back({static_cast<Category>(i), ledger[i], static_cast<double>(ledger[i]) / sum});
  }
  return slices;
}

}  // namespace stepscope
