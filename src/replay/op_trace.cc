#include "replay/op_trace.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "base/text_format.h"

namespace stepscope::replay {
namespace {

struct Key {
  uint64_t lane = 0;
  uint64_t name = 0;
  uint32_t row = 0;
};

// The reader keeps stages and data-parallel ranks below 2^16, everything else below 2^31.
uint64_t lane_key(const TraceRow& row) {
  return static_cast<uint64_t>(row.step) << 32 | static_cast<uint32_t>(row.dp_rank);
}
uint64_t name_key(const TraceRow& row) {
  return static_cast<uint64_t>(row.stage) << 40 | static_cast<uint64_t>(row.type) << 32 |
         static_cast<uint32_t>(row.seq_id);
}

OpName name_of(const TraceRow& row) { return {row.type, row.stage, row.seq_id, row.model_chunk, row.global_chunk}; }

std::string lane_text(const TraceRow& row) {
  return formatted("step {}, data-parallel rank {}", row.step, row.dp_rank);
}

using Lane = std::span<const Key>;

class TraceMaker {
 public:
  TraceMaker(const std::vector<TraceRow>& rows, const std::string& where) : rows_(rows), where_(where) {}

  Result<OpTrace> make() {
    sort();
    if (Status status = split_into_lanes(); !status) return std::unexpected(status.error());
    if (Status status = check_lanes(); !status) return std::unexpected(status.error());
    if (Status status = check_names(); !status) return std::unexpected(status.error());
    if (Status status = label_workers(); !status) return std::unexpected(status.error());
    fill();
    return std::move(out_);
  }

 private:
  const TraceRow& row(const Key& key) const { return rows_[key.row]; }

  void sort() {
    keys_.reserve(rows_.size());
    for (uint32_t i = 0; i < rows_.size(); ++i) keys_.push_back({lane_key(rows_[i]), name_key(rows_[i]), i});
    std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) {
      return std::tie(a.lane, a.name, a.row) < std::tie(b.lane, b.name, b.row);
    });
  }

  Status split_into_lanes() {
    for (size_t first = 0; first < keys_.size();) {
      size_t end = first + 1;
      for (; end < keys_.size() && keys_[end].lane == keys_[first].lane; ++end) {
        if (keys_[end].name != keys_[end - 1].name) continue;
        const TraceRow& twice = row(keys_[end]);
        return fail(formatted("{}: {} is there twice in {}", where_, text(name_of(twice)), lane_text(twice)));
      }
      lanes_.push_back(Lane(keys_).subspan(first, end - first));
      first = end;
    }
    return {};
  }

  // Every step must hold every data-parallel rank.
  Status check_lanes() {
    for (const Lane& lane : lanes_) out_.dp_size = std::max(out_.dp_size, row(lane[0]).dp_rank + 1);
    int next = 0;
    for (const Lane& lane : lanes_) {
      const TraceRow& first = row(lane[0]);
      if (next == 0) out_.steps.push_back(first.step);
      if (out_.steps.back() != first.step || first.dp_rank != next) return no_lane(out_.steps.back(), next);
      next = (next + 1) % out_.dp_size;
    }
    return next == 0 ? Status() : no_lane(out_.steps.back(), next);
  }

  std::unexpected<Error> no_lane(int step, int dp) const {
    return fail(formatted("{}: step {} holds no operation of data-parallel rank {}", where_, step, dp));
  }

  Status check_names() {
    const auto same_name = [](const Key& a, const Key& b) { return a.name == b.name; };
    for (const Lane& lane : lanes_) {
      if (!std::equal(lane.begin(), lane.end(), lanes_[0].begin(), lanes_[0].end(), same_name)) return odd_name();
    }
    for (const Key& key : lanes_[0]) out_.names.push_back(name_of(row(key)));
    out_.stages = out_.names.back().stage + 1;
    int next = 0;
    for (const OpName& name : out_.names) {
      if (name.stage > next)
        return fail(formatted("{}: no operation of stage {}, but of stage {}", where_, next, name.stage));
      next = name.stage + 1;
    }
    return {};
  }

  // Lanes differ: names the first operation that some of them lack, from the side of the majority; of two, one lacks
  // it.
  std::unexpected<Error> odd_name() const {
    std::map<uint64_t, size_t> counts;
    for (const Key& key : keys_) ++counts[key.name];
    for (const auto& [name, count] : counts) {
      if (count == lanes_.size()) continue;
      const bool mostly_there = count * 2 >= lanes_.size();
      const auto has_it = [&, name = name](const Lane& lane) {
        return std::ranges::binary_search(lane, name, {}, [](const Key& key) { return key.name; });
      };
      const auto odd = std::ranges::find_if(lanes_, [&](const Lane& lane) { return has_it(lane) != mostly_there; });
      const auto named = std::ranges::find(keys_, name, &Key::name);
      return fail(formatted("{}: {} is {} in {}; every replica and step must hold the same operations", where_,
                            text(name_of(row(*named))), mostly_there ? "missing" : "too many",
                            lane_text(row(odd->front()))));
    }
    return fail(where_ + ": the replicas hold different operations");
  }

  Status label_workers() {
    out_.ranks.assign(static_cast<size_t>(out_.stages) * static_cast<size_t>(out_.dp_size), -1);
    for (const TraceRow& r : rows_) {
      int& label =
          out_.ranks[static_cast<size_t>(r.stage) * static_cast<size_t>(out_.dp_size) + static_cast<size_t>(r.dp_rank)];
      if (label >= 0 && label != r.rank) {
        return fail(formatted("{}: stage {} of data-parallel rank {} is both rank {} and rank {}", where_, r.stage,
                              r.dp_rank, label, r.rank));
      }
      label = r.rank;
    }
    return {};
  }

  void fill() {
    out_.start_s = Matrix(out_.names.size(), lanes_.size());
    out_.duration_s = Matrix(out_.names.size(), lanes_.size());
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      for (size_t i = 0; i < lanes_[lane].size(); ++i) {
        out_.start_s.row(i)[lane] = row(lanes_[lane][i]).start_s;
        out_.duration_s.row(i)[lane] = row(lanes_[lane][i]).duration_s;
      }
    }
  }

  const std::vector<TraceRow>& rows_;
  const std::string& where_;
  std::vector<Key> keys_;
  std::vector<Lane> lanes_;
  OpTrace out_;
};

}  // namespace

std::string text(const OpName& name) {
  return formatted("{} {} of stage {}", replay::name(name.type), name.seq_id, name.stage);
}

Result<OpTrace> make_op_trace(const std::vector<TraceRow>& rows, const std::string& where) {
  if (rows.empty()) return fail(where + ": no operation in it");
  return TraceMaker(rows, where).make();
}

}  // namespace stepscope::replay
