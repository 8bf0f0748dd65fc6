// Made-up jobs that write Flight Recorder dumps as torch does: pickle or JSON, all operations or the unfinished ones only,
// with and without the status of groups. The story is told by calls: done() is a collective that every member finishes,
// issue() one that a single rank has issued and not finished.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stepscope::examples {

// Python's pickle, protocol 2, of plain data.
inline void pickle_value(const nlohmann::json& value, std::string& out) {
  const auto little = [&](uint64_t number, size_t width) {
    for (size_t i = 0; i < width; ++i) out += static_cast<char>(number >> (8 * i) & 0xff);
  };
  if (value.is_null()) out += 'N';
  else if (value.is_boolean()) out += value.get<bool>() ? '\x88' : '\x89';
  else if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (number >= 0 && number < 256) out += 'K', little(static_cast<uint64_t>(number), 1);
    else if (number >= INT32_MIN && number <= INT32_MAX) out += 'J', little(static_cast<uint64_t>(number), 4);
    else out += "\x8a\x08", little(static_cast<uint64_t>(number), 8);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    out += 'X', little(text.size(), 4), out += text;
  } else if (value.is_array()) {
    out += "](";
    for (const auto& item : value) pickle_value(item, out);
    out += 'e';
  } else {
    out += "}(";
    for (const auto& [key, item] : value.items()) pickle_value(key, out), pickle_value(item, out);
    out += 'u';
  }
}

inline std::string pickled(const nlohmann::json& value) {
  std::string out = "\x80\x02";
  pickle_value(value, out);
  return out + '.';
}

struct DumpForm {
  bool pickle = true;
  bool only_unfinished = false;
  bool status = true;
};

struct FlightOp {
  std::string name = "all_reduce";
  std::vector<int> size = {16};
  std::string dtype = "Float";
  std::string state = "scheduled";
  std::string backend = "nccl";
  bool retired = false;
};

class FlightJob {
 public:
  using Op = FlightOp;

  explicit FlightJob(int ranks) : entries_(static_cast<size_t>(ranks), nlohmann::json::array()) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    group("0", "default_pg", all);
  }

  void group(const std::string& name, const std::string& description, std::vector<int> ranks) {
    ids_[name] = static_cast<int>(ids_.size()) + 2;  // a number of the process, not the name
    groups_[name] = {description, std::move(ranks)};
  }

  bool timed = false;  // TORCH_NCCL_ENABLE_TIMING: starts on the GPU are seen

  void issue(int rank, const std::string& group, Op op = {}) {
    const bool p2p = op.name.starts_with("send") || op.name.starts_with("recv");
    Count& count = counts_[{rank, group}];
    const int64_t sequence = p2p ? ++count.transfers : ++count.collectives;
    count.enqueued = sequence;
    if (op.state == "completed") count.completed = sequence;
    if (timed && op.state != "scheduled") count.started = sequence;
    clock_ns_ += 1'000'000;
    const auto started = timed && op.state != "scheduled" ? nlohmann::json(clock_ns_) : nlohmann::json();
    auto& list = entries_[static_cast<size_t>(rank)];
    list.push_back({{"record_id", ++records_[rank]}, {"pg_id", ids_[group]}, {"process_group", {group, groups_[group].description}},
                    {"collective_seq_id", count.collectives}, {"p2p_seq_id", count.transfers}, {"op_id", records_[rank]},
                    {"profiling_name", op.backend + ":" + op.name}, {"time_created_ns", clock_ns_}, {"input_sizes", {op.size}},
                    {"input_dtypes", {op.dtype}}, {"output_sizes", {op.size}}, {"output_dtypes", {op.dtype}}, {"state", op.state},
                    {"time_discovered_started_ns", started}, {"time_discovered_completed_ns", nullptr}, {"retired", op.retired}, {"timeout_ms", 600000},
                    {"is_p2p", p2p}});
  }

  // Every member but `except` issues it and has not finished.
  void issue_all(const std::string& group, Op op = {}, const std::vector<int>& except = {}) {
    for (const int rank : groups_[group].ranks) {
      if (std::ranges::find(except, rank) == except.end()) issue(rank, group, op);
    }
  }

  void done(const std::string& group, Op op = {}) {
    if (op.backend == "nccl") op.state = "completed";
    op.retired = true;
    issue_all(group, op);
  }

  nlohmann::json json(int rank, const DumpForm& form) const {
    nlohmann::json out = {{"version", "2.10"}, {"entries", nlohmann::json::array()}, {"pg_config", nlohmann::json::object()}};
    for (const auto& [name, group] : groups_) {
      if (std::ranges::find(group.ranks, rank) == group.ranks.end()) continue;
      out["pg_config"][name] = {{"name", name}, {"desc", group.description}, {"ranks", nlohmann::json(group.ranks).dump()}};
      if (!form.status) continue;
      const auto found = counts_.find({rank, name});
      const Count count = found == counts_.end() ? Count() : found->second;
      out["pg_status"][std::to_string(ids_.at(name))] = {{"last_enqueued_collective", count.enqueued}, {"last_started_collective", count.started},
                                                         {"last_completed_collective", count.completed}};
    }
    for (const auto& entry : entries_[static_cast<size_t>(rank)]) {
      if (!form.only_unfinished || (entry["state"] != "completed" && !entry["retired"].get<bool>())) out["entries"].push_back(entry);
    }
    return out;
  }

  std::string bytes(int rank, const DumpForm& form) const { return form.pickle ? pickled(json(rank, form)) : json(rank, form).dump(); }
  int ranks() const { return static_cast<int>(entries_.size()); }

 private:
  struct Count {
    int64_t collectives = 0, transfers = 0, enqueued = -1, started = -1, completed = -1;
  };
  struct Named {
    std::string description;
    std::vector<int> ranks;
  };
  std::vector<nlohmann::json> entries_;
  std::map<std::string, Named> groups_;
  std::map<std::string, int> ids_;
  std::map<std::pair<int, std::string>, Count> counts_;
  std::map<int, int64_t> records_;
  int64_t clock_ns_ = 1'700'000'000'000'000'000;
};

}  // namespace stepscope::examples
