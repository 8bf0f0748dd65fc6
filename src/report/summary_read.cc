#include "report/summary_read.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_bounds.h"
#include "base/text_format.h"
#include "report/json_fields.h"
#include "report/summary_fields.h"

namespace stepscope {
namespace {

// "" when within bounds.
std::string out_of_bounds(std::string_view json) {
  if (json.size() > kMaxSummaryBytes) return formatted("larger than {} MiB", kMaxSummaryBytes >> 20);
  switch (json_excess(json, {kMaxSummaryDepth, kMaxSummaryValues})) {
    case JsonExcess::kDepth: return formatted("nested deeper than {}", kMaxSummaryDepth);
    case JsonExcess::kValues: return formatted("more than {} values", kMaxSummaryValues);
    case JsonExcess::kNone: break;
  }
  return "";
}

Severity severity_from(const std::string& text) {
  return text == "crit" ? Severity::kCrit : text == "warn" ? Severity::kWarn : Severity::kInfo;
}

// Visits the fields of a snapshot (summary_fields.h) and fills them from one JSON object.
class SummaryReader {
 public:
  static constexpr bool kReads = true;
  explicit SummaryReader(JsonFields fields) : fields_(std::move(fields)) {}

  void operator()(const char* key, std::string& text) { text = fields_.text(key); }
  void operator()(const char* key, bool& flag) { flag = fields_.flag(key); }
  void operator()(const char* key, int& number) { number = fields_.int_or(key, number); }
  void operator()(const char* key, uint32_t& count) { count = fields_.count32(key); }
  void operator()(const char* key, uint64_t& count) { count = fields_.count64(key); }
  void operator()(const char* key, double& number) { number = fields_.number_or_zero(key); }
  void operator()(const char* key, std::optional<double>& number) { number = fields_.number(key); }
  void operator()(const char* key, std::optional<int>& number) { number = fields_.optional_int(key); }
  void operator()(const char* key, Severity& severity) { severity = severity_from(fields_.text(key)); }
  template <class E>
  void operator()(const char* key, Word<E>& word) {
    word = Word<E>::parsed(fields_.text(key));
  }
  void operator()(const char* key, std::vector<std::string>& texts) { texts = fields_.texts(key); }
  void operator()(const char* key, std::vector<int>& numbers) { numbers = fields_.ints(key); }
  void operator()(const char* key, std::map<std::string, std::string>& texts) { texts = fields_.text_map(key); }
  void operator()(const char* key, std::map<std::string, std::optional<double>>& numbers) {
    numbers = fields_.number_map(key);
  }

  void or_null(const char* key, auto& value) { (*this)(key, value); }
  void if_any(const char* key, auto& value) { (*this)(key, value); }
  void figure(const char* key, const std::string&, std::optional<double>& number) { (*this)(key, number); }
  void step(const char* key, int64_t& step) {
    constexpr int64_t kMaxStep = int64_t{1} << 53;
    step = fields_.whole(key, 0, kMaxStep).value_or(-1);
  }
  void ms(const char* key, int64_t& ns) { ns = fields_.ms_as_ns(key); }
  void ledger(const char* key, LedgerNs& ledger) {
    const JsonFields categories = fields_.child(key);
    for (size_t i = 0; i < kCategoryCount; ++i) ledger[i] = categories.ms_as_ns(kCategoryNames[i].data());
  }
  void rounded(const char* key, double& ms) { ms = fields_.number_or_zero(key); }
  void rounded(const char* key, std::vector<float>& list) { list = fields_.floats(key); }
  void derived(const char*, const auto&...) {}

  template <class F>
  void object(const char* key, F fields) {
    SummaryReader part(fields_.child(key));
    fields(part);
  }
  template <class T>
  void object_or_null(const char* key, std::optional<T>& value) {
    if (fields_.has(key)) object(key, [&](auto& part) { summary_fields(part, value.emplace()); });
  }
  template <class T>
  void list(const char* key, std::vector<T>& items) {
    for (JsonFields& entry : fields_.children(key)) {
      SummaryReader part(std::move(entry));
      summary_fields(part, items.emplace_back());
    }
  }
  template <class T>
  void named(const char* key, std::vector<T>& items, std::string T::* member) {
    for (auto& [name, entry] : fields_.children_by_name(key)) {
      SummaryReader part(std::move(entry));
      items.emplace_back().*member = name;
      summary_fields(part, items.back());
    }
  }
  template <class F>
  void by_rank(const char* key, std::vector<RankStat>& ranks, F fields) {
    std::map<int, RankStat*> known;
    for (RankStat& rank : ranks) known.emplace(rank.rank, &rank);
    for (JsonFields& entry : fields_.children(key)) {
      const auto found = known.find(entry.int_or("rank", -1));
      if (found == known.end()) continue;
      SummaryReader part(std::move(entry));
      fields(part, *found->second);
    }
  }
  void primary(const Snapshot&) {}  // once the findings are read: primary_index()

 private:
  JsonFields fields_;
};

// The primary finding stands in the file as a copy; here it is an index.
int primary_index(const JsonFields& root, std::vector<Finding>& findings) {
  if (!root.has("primary")) return -1;
  Finding primary;
  SummaryReader reader(root.child("primary"));
  summary_fields(reader, primary);
  const std::string wanted = finding_json(primary);
  const auto found =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return finding_json(f) == wanted; });
  if (found != findings.end()) return static_cast<int>(found - findings.begin());
  findings.insert(findings.begin(), std::move(primary));
  return 0;
}

}  // namespace

Result<Snapshot> read_summary(std::string_view json, std::string_view source) {
  if (const std::string bound = out_of_bounds(json); !bound.empty()) return fail(formatted("{}: {}", source, bound));
  const nlohmann::json parsed = nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return fail(formatted("{}: not JSON, or cut off", source));
  // Other tools write files of this name too, with a schema_version of their own.
  if (!parsed.is_object() || !parsed.contains("schema_version") || !parsed["schema_version"].is_string() ||
      !parsed.contains("run")) {
    return fail(formatted("{}: not a stepscope summary (schema_version or run is missing)", source));
  }
  const std::string version = parsed["schema_version"].get<std::string>();
  if (!version.starts_with("1.")) {
    return fail(formatted("{}: schema version {} is not known to this stepscope, which reads 1.x", source,
                          version.substr(0, 20)));
  }

  std::string problem;
  const JsonFields root(&parsed, "", &problem);
  Snapshot s;
  SummaryReader reader(root);
  summary_fields(reader, s);
  s.primary = primary_index(root, s.findings);
  if (!problem.empty()) return fail(formatted("{}: {}", source, problem));
  return s;
}

}  // namespace stepscope
