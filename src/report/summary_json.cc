#include "report/summary_json.h"

#include <cmath>

#include "report/json_write.h"
#include "report/summary_fields.h"

namespace stepscope {
namespace {

// Visits the fields of a snapshot (summary_fields.h); `out` is the object.
class SummaryWriter {
 public:
  static constexpr bool kReads = false;
  OrderedJson out = OrderedJson::object();

  template <class T>
  void operator()(const char* key, const T& plain) {
    out[key] = plain;
  }
  void operator()(const char* key, double number) { out[key] = json_number(number); }
  void operator()(const char* key, std::optional<double> number) { out[key] = json_named_number(key, number); }
  void operator()(const char* key, std::optional<int> number) { out[key] = json_int(number); }
  void operator()(const char* key, Severity severity) { out[key] = std::string(name(severity)); }
  template <class E>
  void operator()(const char* key, const Word<E>& word) {
    out[key] = word.text();
  }
  void operator()(const char* key, const std::map<std::string, std::string>& texts) {
    OrderedJson& to = out[key] = OrderedJson::object();
    for (const auto& [name, text] : texts) to[name] = text;
  }
  void operator()(const char* key, const std::map<std::string, std::optional<double>>& numbers) {
    OrderedJson& to = out[key] = OrderedJson::object();
    for (const auto& [name, number] : numbers) to[name] = json_named_number(name, number);
  }

  void or_null(const char* key, const std::string& text) { out[key] = json_text_or_null(text); }
  template <class E>
  void or_null(const char* key, const Word<E>& word) {
    out[key] = json_text_or_null(word.str());
  }
  void figure(const char* key, const std::string& name, std::optional<double> number) {
    if (number && std::isfinite(*number)) out[key] = json_named_number(name, number);
  }
  void if_any(const char* key, std::optional<int> number) {
    if (number) out[key] = *number;
  }
  void if_any(const char* key, const std::string& text) {
    if (!text.empty()) out[key] = text;
  }
  void step(const char* key, int64_t step) { out[key] = step < 0 ? OrderedJson(nullptr) : OrderedJson(step); }
  void ms(const char* key, int64_t ns) { out[key] = json_ns_as_ms(ns); }
  void ledger(const char* key, const LedgerNs& ledger) {
    OrderedJson& to = out[key] = OrderedJson::object();
    for (size_t i = 0; i < kCategoryCount; ++i) to[std::string(kCategoryNames[i])] = json_ns_as_ms(ledger[i]);
  }
  void rounded(const char* key, double ms) { out[key] = in_us(ms); }
  void rounded(const char* key, const std::vector<float>& list) {
    OrderedJson& to = out[key] = OrderedJson::array();
    for (float ms : list) to.push_back(in_us(ms));
  }
  template <class T>
  void derived(const char* key, const T& value) {
    (*this)(key, value);
  }
  void derived(const char* key, const std::string& name, std::optional<double> number) {
    out[key] = json_named_number(name, number);
  }

  template <class F>
  void object(const char* key, F fields) {
    SummaryWriter part;
    fields(part);
    out[key] = std::move(part.out);
  }
  template <class T>
  void object_or_null(const char* key, const std::optional<T>& value) {
    if (value)
      object(key, [&](auto& part) { summary_fields(part, *value); });
    else
      out[key] = nullptr;
  }
  template <class Items, class F>
  void list(const char* key, const Items& items, F fields) {
    OrderedJson to = OrderedJson::array();
    for (const auto& item : items) {
      SummaryWriter part;
      fields(part, item);
      to.push_back(std::move(part.out));
    }
    out[key] = std::move(to);
  }
  template <class Items>
  void list(const char* key, const Items& items) {
    list(key, items, [](auto& part, const auto& item) { summary_fields(part, item); });
  }
  template <class F>
  void by_rank(const char* key, const std::vector<RankStat>& ranks, F fields) {
    list(key, ranks, fields);
  }
  template <class T>
  void named(const char* key, const std::vector<T>& items, std::string T::* name) {
    OrderedJson to = OrderedJson::object();
    for (const T& item : items) {
      SummaryWriter part;
      summary_fields(part, item);
      to[item.*name] = std::move(part.out);
    }
    out[key] = std::move(to);
  }
  void primary(const Snapshot& s) {
    const bool has = s.primary >= 0 && static_cast<size_t>(s.primary) < s.findings.size();
    out["primary"] = has ? json_finding(s.findings[static_cast<size_t>(s.primary)]) : OrderedJson(nullptr);
  }

 private:
  // Enough for a chart.
  static OrderedJson in_us(double ms) {
    return std::fabs(ms) < 1e9 ? json_number(std::round(ms * 1e3) / 1e3) : json_number(ms);
  }
};

}  // namespace

OrderedJson json_finding(const Finding& finding) {
  SummaryWriter writer;
  summary_fields(writer, finding);
  return std::move(writer.out);
}

std::string summary_json(const Snapshot& s, const TextOptions&) {
  SummaryWriter writer;
  writer("schema_version", std::string(kSummarySchemaVersion));
  summary_fields(writer, s);
  return json_layout(writer.out);
}

std::string finding_json(const Finding& finding) { return json_one_line(json_finding(finding)); }

}  // namespace stepscope
