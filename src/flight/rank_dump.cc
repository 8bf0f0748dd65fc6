#include "flight/rank_dump.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json_bounds.h"
#include "base/text_format.h"
#include "flight/pickle.h"

namespace stepscope::flight {
namespace {

using Json = nlohmann::json;

constexpr PlainLimits kLimits;
constexpr size_t kMaxOperations = 1u << 20;
constexpr size_t kMaxGroups = 1u << 16;
constexpr size_t kMaxRanks = 1u << 20;
constexpr size_t kMaxText = 256;

Result<Json> parse(std::string_view bytes) {
  if (bytes.empty()) return fail("an empty file");
  if (bytes.size() > kMaxDumpBytes) return fail(formatted("larger than {} MiB", kMaxDumpBytes >> 20));
  if (looks_like_pickle(bytes)) return parse_pickle(bytes, kLimits);
  switch (json_excess(bytes, {kLimits.depth, kLimits.values})) {
    case JsonExcess::kDepth: return fail(formatted("the JSON nests deeper than {}", kLimits.depth));
    case JsonExcess::kValues: return fail(formatted("the JSON holds more than {} values", kLimits.values));
    case JsonExcess::kNone: break;
  }
  Json out = Json::parse(bytes, nullptr, false);
  if (out.is_discarded()) return fail("neither a pickle nor JSON, or cut off");
  return out;
}

const Json& field(const Json& object, const char* name) {
  static const Json none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

// Texts end up on a terminal, one line each.
std::string text(const Json& value) {
  std::string out = value.is_string()           ? value.get<std::string>()
                    : value.is_number_integer() ? std::to_string(value.get<int64_t>())
                                                : "";
  out.resize(std::min(out.size(), kMaxText));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return out;
}

std::optional<int64_t> integer(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

// "[0, 1, 2]" as torch writes it, or a list.
std::optional<std::vector<int>> ranks_of(const Json& value) {
  std::vector<int> out;
  const auto add = [&](int64_t rank) {
    if (rank < 0 || rank >= static_cast<int64_t>(kMaxRanks) || out.size() == kMaxRanks) return false;
    out.push_back(static_cast<int>(rank));
    return true;
  };
  if (value.is_array()) {
    for (const Json& item : value) {
      const auto rank = integer(item);
      if (!rank || !add(*rank)) return std::nullopt;
    }
    return out;
  }
  if (!value.is_string()) return std::nullopt;
  const std::string& list = value.get_ref<const std::string&>();
  for (const char *at = list.data(), *end = at + list.size(); at != end;) {
    if (*at < '0' || *at > '9') {
      if (*at != '[' && *at != ']' && *at != ',' && *at != ' ') return std::nullopt;
      ++at;
      continue;
    }
    int rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc() || !add(rank)) return std::nullopt;
    at = next;
  }
  return out;
}

std::string joined(const Json& texts) {
  if (!texts.is_array()) return text(texts);
  std::string out;
  for (const Json& item : texts) out += (out.empty() ? "" : ", ") + text(item);
  out.resize(std::min(out.size(), kMaxText));
  return out;
}

int64_t elements_of(const Json& sizes) {
  int64_t sum = 0;
  for (const Json& shape : sizes.is_array() ? sizes : Json::array()) {
    int64_t product = 1;
    for (const Json& extent : shape.is_array() ? shape : Json::array()) {
      if (__builtin_mul_overflow(product, integer(extent).value_or(0), &product)) return -1;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return -1;
  }
  return sum;
}

OpState state_of(const Json& entry) {
  const std::string state = text(field(entry, "state"));
  const Json& retired = field(entry, "retired");
  // gloo's operations stay "scheduled"; that they are retired is all that says they are done. NCCL's are retired by a
  // timeout, too.
  const bool has_states = text(field(entry, "profiling_name")).starts_with("nccl:");
  if (state == "completed" || (!has_states && retired.is_boolean() && retired.get<bool>())) return OpState::kCompleted;
  return state == "started" ? OpState::kStarted : OpState::kScheduled;
}

std::string frame_of(const Json& entry) {
  const Json& frames = field(entry, "frames");
  if (!frames.is_array()) return "";
  for (const Json& frame : frames) {
    const std::string file = frame.is_object() ? text(field(frame, "filename")) : "";
    // The caller's line says more than torch's own.
    if (file.empty() || file.find("/torch/") != std::string::npos || file == "??") continue;
    return file.substr(file.rfind('/') + 1) + ":" + text(field(frame, "line")) + " " + text(field(frame, "name"));
  }
  return "";
}

class DumpReader {
 public:
  DumpReader(const Json& json, const std::string& file) : json_(json) { out_.file = file; }

  Result<RankDump> read() {
    if (!json_.is_object() || (!json_.contains("entries") && !json_.contains("pg_config")))
      return fail("no Flight Recorder dump");
    out_.version = text(field(json_, "version"));
    if (Status status = read_groups(); !status) return std::unexpected(status.error());
    if (Status status = read_operations(); !status) return std::unexpected(status.error());
    read_status();
    out_.recorded = !out_.operations.empty() || !out_.status.empty();
    if (Status status = find_rank(); !status) return std::unexpected(status.error());
    return std::move(out_);
  }

 private:
  Status read_groups() {
    const Json& groups = field(json_, "pg_config");
    if (!groups.is_object()) return {};
    if (groups.size() > kMaxGroups) return fail(formatted("more than {} process groups", kMaxGroups));
    for (const auto& [key, group] : groups.items()) {
      if (!group.is_object()) return fail("pg_config is malformed");
      const std::string name = group.contains("name") ? text(group["name"]) : text(Json(key));
      auto ranks = ranks_of(field(group, "ranks"));
      if (!ranks) return fail(formatted("process group {} has no list of ranks", name));
      out_.groups[name] = {text(field(group, "desc")), std::move(*ranks)};
    }
    return {};
  }

  Status read_operations() {
    const Json& entries = field(json_, "entries");
    if (entries.is_null()) return {};
    if (!entries.is_array()) return fail("entries is no list");
    if (entries.size() > kMaxOperations) return fail(formatted("more than {} operations", kMaxOperations));
    for (const Json& entry : entries) {
      if (!entry.is_object()) return fail("an operation is no dict");
      read_operation(entry);
    }
    std::ranges::stable_sort(out_.operations, {}, &Operation::record);
    return {};
  }

  void read_operation(const Json& entry) {
    Operation op;
    const Json& group = field(entry, "process_group");
    if (group.is_array() && !group.empty()) {
      op.group = text(group[0]);
      if (group.size() > 1) op.description = text(group[1]);
    }
    if (const auto id = integer(field(entry, "pg_id"))) group_of_id_[*id] = op.group;
    const std::string name = text(field(entry, "profiling_name"));
    const size_t colon = name.find(':');
    op.name = colon == std::string::npos ? name : name.substr(colon + 1);
    op.p2p = field(entry, "is_p2p").is_boolean() && field(entry, "is_p2p").get<bool>();
    op.record = integer(field(entry, "record_id")).value_or(0);
    op.sequence = integer(field(entry, op.p2p ? "p2p_seq_id" : "collective_seq_id")).value_or(-1);
    op.state = state_of(entry);
    op.timed = op.state == OpState::kStarted || integer(field(entry, "time_discovered_started_ns"));
    const Json& sizes = field(entry, "input_sizes");
    op.sizes = sizes.is_array() ? text(Json(sizes.dump(-1, ' ', false, Json::error_handler_t::replace))) : "";
    op.elements = elements_of(sizes);
    op.dtypes = joined(field(entry, "input_dtypes"));
    op.created_ns = integer(field(entry, "time_created_ns"));
    op.frame = frame_of(entry);
    out_.operations.push_back(std::move(op));
  }

  void read_status() {
    const Json& status = field(json_, "pg_status");
    if (!status.is_object()) return;
    name_silent_ids(status);
    for (const auto& [key, group] : status.items()) {
      if (!group.is_object()) continue;
      std::string name = text(Json(key));
      if (const auto id = number(name)) {
        const auto found = group_of_id_.find(*id);
        if (found == group_of_id_.end()) continue;
        name = found->second;
      }
      const auto at = [&](const char* which) { return integer(field(group, which)).value_or(-1); };
      out_.status[name] = {at("last_enqueued_collective"), at("last_started_collective"),
                           at("last_completed_collective")};
    }
  }

  static std::optional<int64_t> number(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
  }

  // pg_status knows groups by a number of this process, pg_config by name; operations tell which is which, but a rank
  // that waits for nothing has none. Both count groups in the order in which they were made, so where there are as many
  // of one as of the other they can be laid side by side. Given up as soon as an operation disagrees.
  void name_silent_ids(const Json& status) {
    std::vector<int64_t> ids;
    for (const auto& [key, unused] : status.items()) {
      if (const auto id = number(key)) ids.push_back(*id);
    }
    std::vector<std::pair<int64_t, std::string>> names;
    for (const auto& [name, unused] : out_.groups) {
      if (const auto order = number(name)) names.emplace_back(*order, name);
    }
    if (ids.size() != names.size() || ids.size() != out_.groups.size()) return;
    std::ranges::sort(ids);
    std::ranges::sort(names);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto known = group_of_id_.find(ids[i]);
      if (known != group_of_id_.end() && known->second != names[i].second) return;
    }
    for (size_t i = 0; i < ids.size(); ++i) group_of_id_.emplace(ids[i], names[i].second);
  }

  Status find_rank() {
    std::optional<std::vector<int>> common;
    for (const auto& [name, group] : out_.groups) {
      std::vector<int> members = group.ranks, both;
      std::ranges::sort(members);
      if (members.empty()) continue;
      if (common) std::ranges::set_intersection(*common, members, std::back_inserter(both));
      common = common ? both : members;
    }
    std::string_view stem = std::string_view(out_.file).substr(out_.file.rfind('/') + 1);
    for (const std::string_view ending : {".json", ".pkl", ".pickle"}) {
      if (stem.ends_with(ending)) stem.remove_suffix(ending.size());
    }
    const size_t last = stem.find_last_not_of("0123456789");
    const auto named = number(last == std::string_view::npos ? stem : stem.substr(last + 1));
    if (named && *named < static_cast<int64_t>(kMaxRanks)) {
      out_.rank = static_cast<int>(*named);
      if (common && !std::ranges::binary_search(*common, out_.rank)) {
        return fail(formatted("rank {} by its name, but its process groups are those of another rank", out_.rank));
      }
      return {};
    }
    if (!common || common->size() != 1) return fail("whose rank it is cannot be told: name the file ..._<rank>");
    out_.rank = common->front();
    return {};
  }

  const Json& json_;
  RankDump out_;
  std::map<int64_t, std::string> group_of_id_;
};

}  // namespace

Result<RankDump> read_dump(std::string_view bytes, const std::string& file) {
  const auto named = [&](const Error& error) { return fail(file + ": " + error.message); };
  const auto json = parse(bytes);
  if (!json) return named(json.error());
  auto dump = DumpReader(*json, file).read();
  if (!dump) return named(dump.error());
  return dump;
}

}  // namespace stepscope::flight
