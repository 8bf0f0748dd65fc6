#include "store/segment.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace stepscope::store {
namespace {

// Most of a rank's waiting in one step is for one rank; the file keeps which.
void find_causers(const StepRow& row, std::vector<FlatCell>& cells) {
  std::vector<float> most(cells.size(), 0);
  for (const Blame& b : row.caused) {
    const Cell* cell = row.find(b.waiter);
    if (!cell) continue;
    const auto waiter = static_cast<size_t>(cell - row.cells.data());
    if (b.ms > most[waiter]) most[waiter] = b.ms, cells[waiter].waited_for = b.causer;
  }
}

double median_wall_ms(std::span<const FlatRow> rows) {
  std::vector<float> walls;
  for (const FlatRow& row : rows) {
    float wall = 0;
    for (const FlatCell& cell : row.cells) wall = std::max(wall, cell.wall_ms);
    if (std::isfinite(wall)) walls.push_back(wall);
  }
  if (walls.empty()) return 0;
  const auto at = walls.begin() + static_cast<ptrdiff_t>(walls.size() / 2);
  std::nth_element(walls.begin(), at, walls.end());
  return *at;
}

int64_t rescaled(size_t metric, int64_t value, uint32_t from_ns, uint32_t to_ns) {
  if (from_ns == to_ns || metric_info(metric).kind != MetricKind::kTime || value == 0) return value;
  const double ratio = static_cast<double>(from_ns) / to_ns;
  const double shift = metric_info(metric).from_one ? 1 : 0;
  return std::llround(std::clamp((static_cast<double>(value) - shift) * ratio + shift, -9e17, 9e17));
}

int64_t add_values(size_t metric, int64_t a, int64_t b) {
  if (metric_info(metric).kind == MetricKind::kReal)
    return float_to_ordered(ordered_to_float(a, 0) + ordered_to_float(b, 0), 0);
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Which rows stay, and for each row the kept one that stands for it.
struct Keeping {
  std::vector<uint32_t> rows, owner;
};

Keeping choose(const std::vector<int64_t>& steps, int64_t stride) {
  Keeping keep;
  for (uint32_t i = 0; i < steps.size(); ++i)
    if (steps[i] % stride == 0) keep.rows.push_back(i);
  // Steps that do not count by ones (some were lost): every second row all the same.
  if (keep.rows.empty() || keep.rows.size() > (steps.size() + 1) / 2) {
    keep.rows.clear();
    for (uint32_t i = 0; i < steps.size(); i += 2) keep.rows.push_back(i);
  }
  uint32_t owner = 0;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    if (owner + 1 < keep.rows.size() && i >= keep.rows[owner + 1]) ++owner;
    keep.owner.push_back(owner);
  }
  return keep;
}

int64_t wall_of(const Segment& s, size_t cell) {
  int64_t sum = 0;
  for (size_t m = 0; m <= kRest; ++m)
    if (!s.cells[m].empty()) sum = add_values(m, sum, s.cells[m][cell]);
  return sum;
}

std::vector<int64_t>& column(MetricColumns& columns, size_t metric, size_t size) {
  if (columns[metric].empty()) columns[metric].resize(size);
  return columns[metric];
}

// Adds the sums of one part, in the whole's quantum: what it kept from earlier thinning, else its own rows.
void add_sums(Segment& whole, const Segment& part) {
  for (size_t m = 0; m < kMetricCount; ++m) {
    if (!metric_info(m).summed()) continue;
    const bool kept = part.head.level > 0;
    const std::vector<int64_t>& from = kept ? part.sums[m] : part.cells[m];
    if (from.empty()) continue;
    std::vector<int64_t>& to = column(whole.sums, m, whole.head.ranks);
    const size_t per_rank = kept ? 1 : part.head.rows;
    for (size_t i = 0; i < from.size(); ++i)
      to[i / per_rank] =
          add_values(m, to[i / per_rank], rescaled(m, from[i], part.head.quantum_ns, whole.head.quantum_ns));
  }
}

// All rows of the parts side by side, in one quantum.
Segment joined(std::span<const Segment> parts) {
  Segment all;
  all.head = parts[0].head;
  all.ranks = parts[0].ranks;
  for (const Segment& part : parts.subspan(1)) {
    all.head.quantum_ns = std::min(all.head.quantum_ns, part.head.quantum_ns);
    all.head.rows += part.head.rows;
    all.head.steps += part.head.steps;
    all.head.step1 = std::max(all.head.step1, part.head.step1);
  }
  const size_t rows = all.head.rows;
  size_t at = 0;
  for (const Segment& part : parts) {
    all.step.insert(all.step.end(), part.step.begin(), part.step.end());
    all.end_us.insert(all.end_us.end(), part.end_us.begin(), part.end_us.end());
    for (size_t m = 0; m < kMetricCount; ++m) {
      if (part.cells[m].empty()) continue;
      std::vector<int64_t>& to = column(all.cells, m, rows * all.head.ranks);
      for (size_t rank = 0; rank < all.head.ranks; ++rank)
        for (size_t row = 0; row < part.head.rows; ++row)
          to[rank * rows + at + row] =
              rescaled(m, part.cells[m][rank * part.head.rows + row], part.head.quantum_ns, all.head.quantum_ns);
    }
    at += part.head.rows;
  }
  return all;
}

// For each kept row, by how much the slowest step it stands for was slower than itself.
void fill_peaks(Segment& out, const Segment& all, const Keeping& keep) {
  const size_t rows = all.head.rows, kept = keep.rows.size();
  std::vector<int64_t>& peak = column(out.cells, kPeak, kept * all.head.ranks);
  std::fill(peak.begin(), peak.end(), 0);
  for (size_t rank = 0; rank < all.head.ranks; ++rank) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t cell = rank * rows + row;
      const int64_t slowest =
          add_values(kRest, wall_of(all, cell), all.cells[kPeak].empty() ? 0 : all.cells[kPeak][cell]);
      const int64_t own = wall_of(all, rank * rows + keep.rows[keep.owner[row]]);
      int64_t& best = peak[rank * kept + keep.owner[row]];
      if (slowest > own)
        best = std::max(best, static_cast<int64_t>(static_cast<uint64_t>(slowest) - static_cast<uint64_t>(own)));
    }
  }
}

void encode_columns(const Segment& s, const MetricColumns& columns, bool sum, ColumnCodec& codec,
                    ColumnCodec::Effort effort, std::vector<EncodedBlock>& out) {
  const uint32_t rows = sum ? 1 : s.head.rows;
  const uint32_t range = std::max(1u, kBlockCells / rows);
  for (size_t m = 0; m < kMetricCount; ++m) {
    if (columns[m].empty()) continue;
    for (uint32_t rank0 = 0; rank0 < s.head.ranks; rank0 += range) {
      const uint32_t ranks = std::min(range, s.head.ranks - rank0);
      const std::span<const int64_t> part(columns[m].data() + size_t{rank0} * rows, size_t{ranks} * rows);
      if (std::all_of(part.begin(), part.end(), [](int64_t v) { return v == 0; })) continue;
      out.push_back({sum, metric_info(m).id, rank0, ranks, seal(codec.encode(part, rows, effort))});
    }
  }
}

}  // namespace

const char* fault_of(const SegmentHead& h) {
  if (h.attempt < 0 || h.level > kMaxLevel || h.step1 < h.step0) return "impossible steps";
  if (h.rows == 0 || h.rows > kMaxRows || h.ranks == 0 || h.ranks > kMaxRanks) return "impossible size";
  if (size_t{h.rows} * h.ranks > kMaxCells) return "too many cells";
  if (h.quantum_ns == 0 || h.quantum_ns > 1u << 20) return "impossible quantum";
  if (h.steps < h.rows || h.steps > 1ull << 32) return "impossible step count";
  return nullptr;
}

FlatRow to_flat(const StepRow& row) {
  FlatRow flat{.step = row.step, .ranks = {}, .cells = {}};
  for (const Cell& cell : row.cells) {
    flat.ranks.push_back(cell.rank);
    flat.cells.push_back(to_flat(cell));
    if (flat.end_ns == 0) flat.end_ns = cell.end_ns;
  }
  if (!row.caused.empty()) find_causers(row, flat.cells);
  return flat;
}

MetricValues Segment::values(uint32_t at, uint32_t row) const {
  MetricValues out{};
  for (size_t m = 0; m < kMetricCount; ++m)
    if (!cells[m].empty()) out[m] = cells[m][size_t{at} * head.rows + row];
  return out;
}

Segment make_segment(int32_t attempt, std::span<const FlatRow> rows, std::span<const int32_t> ranks) {
  Segment s;
  s.head.attempt = attempt;
  s.head.step0 = rows.front().step;
  s.head.step1 = rows.back().step;
  s.head.rows = static_cast<uint32_t>(rows.size());
  s.head.steps = rows.size();
  s.head.ranks = static_cast<uint32_t>(ranks.size());
  if (!ranks.empty() && ranks.back() != static_cast<int32_t>(ranks.size()) - 1)
    s.ranks.assign(ranks.begin(), ranks.end());
  s.head.quantum_ns = quantum_for(median_wall_ms(rows));
  const size_t cells = rows.size() * s.head.ranks;
  for (size_t i = 0; i < rows.size(); ++i) {
    s.step.push_back(rows[i].step);
    s.end_us.push_back(rows[i].end_ns / 1000);
    size_t seen = 0;
    for (size_t at = 0; at < ranks.size(); ++at) {
      const bool present = seen < rows[i].ranks.size() && rows[i].ranks[seen] == ranks[at];
      const MetricValues values = quantise(present ? rows[i].cells[seen++] : FlatCell{}, s.head.quantum_ns);
      for (size_t m = 0; m < kMetricCount; ++m)
        if (values[m] != 0) column(s.cells, m, cells)[at * rows.size() + i] = values[m];
    }
  }
  return s;
}

Segment thin(std::span<const Segment> parts) {
  const Segment all = joined(parts);
  Segment out;
  out.head = all.head;
  out.ranks = all.ranks;
  out.head.level = std::min(all.head.level + 1, kMaxLevel);
  const Keeping keep = choose(all.step, int64_t{1} << out.head.level);
  out.head.rows = static_cast<uint32_t>(keep.rows.size());
  for (uint32_t row : keep.rows) {
    out.step.push_back(all.step[row]);
    out.end_us.push_back(all.end_us[row]);
  }
  for (size_t m = 0; m < kMetricCount; ++m) {
    if (all.cells[m].empty() || m == kPeak) continue;
    std::vector<int64_t>& to = column(out.cells, m, keep.rows.size() * all.head.ranks);
    for (size_t rank = 0; rank < all.head.ranks; ++rank)
      for (size_t i = 0; i < keep.rows.size(); ++i)
        to[rank * keep.rows.size() + i] = all.cells[m][rank * all.head.rows + keep.rows[i]];
  }
  fill_peaks(out, all, keep);
  for (const Segment& part : parts) add_sums(out, part);
  return out;
}

std::vector<EncodedBlock> encode(const Segment& s, ColumnCodec& codec, ColumnCodec::Effort effort) {
  std::vector<EncodedBlock> out;
  out.push_back({false, kStepId, 0, 0, seal(codec.encode(s.step, s.step.size(), effort))});
  out.push_back({false, kEndId, 0, 0, seal(codec.encode(s.end_us, s.end_us.size(), effort))});
  if (!s.ranks.empty()) out.push_back({false, kRanksId, 0, 0, seal(codec.encode(s.ranks, s.ranks.size(), effort))});
  encode_columns(s, s.cells, false, codec, effort, out);
  encode_columns(s, s.sums, true, codec, effort, out);
  return out;
}

Status apply_block(Segment& s, const EncodedBlock& block, ColumnCodec& codec) {
  const auto bytes = unseal(block.bytes);
  if (!bytes) return std::unexpected(bytes.error());
  const uint32_t rows = block.sum ? 1 : s.head.rows;
  if (block.metric == kStepId || block.metric == kEndId) {
    if (block.sum || block.ranks != 0) return fail("damaged block: a row column with ranks");
    return codec.decode(*bytes, rows, rows, block.metric == kStepId ? s.step : s.end_us);
  }
  if (block.metric == kRanksId) {
    if (block.sum || block.ranks != 0) return fail("damaged block: a list of ranks with ranks");
    if (Status status = codec.decode(*bytes, s.head.ranks, s.head.ranks, s.ranks); !status) return status;
    const bool ascending = std::is_sorted(s.ranks.begin(), s.ranks.end(), std::less_equal<>());
    if (!ascending || s.ranks.front() < 0 || s.ranks.back() >= kMaxRanks)
      return fail("damaged block: impossible ranks");
    return {};
  }
  const size_t metric = metric_of_id(block.metric);
  if (metric == kMetricCount) return {};
  if (block.ranks == 0 || block.rank0 >= s.head.ranks || block.ranks > s.head.ranks - block.rank0)
    return fail("damaged block: ranks out of range");
  std::vector<int64_t> values;
  if (Status status = codec.decode(*bytes, size_t{block.ranks} * rows, rows, values); !status) return status;
  std::vector<int64_t>& to = column(block.sum ? s.sums : s.cells, metric, size_t{s.head.ranks} * rows);
  std::copy(values.begin(), values.end(), to.begin() + static_cast<ptrdiff_t>(size_t{block.rank0} * rows));
  return {};
}

StepRow to_row(const Segment& s, uint32_t row) {
  StepRow out;
  const uint32_t ranks = s.head.ranks;
  out.step = static_cast<uint64_t>(std::max<int64_t>(row < s.step.size() ? s.step[row] : 0, 0));
  const int64_t end_us = row < s.end_us.size() ? std::clamp<int64_t>(s.end_us[row], 0, INT64_MAX / 1000) : 0;
  for (uint32_t at = 0; at < ranks; ++at) {
    const MetricValues values = s.values(at, row);
    if (is_absent(values)) continue;
    const int32_t rank = s.rank_of(at);
    Cell& cell = out.cells.emplace_back(restore(rank, values, s.head.quantum_ns));
    cell.end_ns = end_us * 1000;
    out.tags |= cell.tags;
    out.wall_ms = std::max(out.wall_ms, cell.wall_ms);
    const int32_t causer = waited_for(values);
    if (causer >= 0) out.caused.push_back({causer, rank, cell.wait_ms});
  }
  std::erase_if(out.caused, [&](const Blame& b) { return !out.find(b.causer); });
  settle(out.caused);
  return out;
}

uint32_t seal_of(const SegmentHead& h, std::span<const EncodedBlock> blocks) {
  std::vector<uint64_t> words = {
      static_cast<uint64_t>(h.attempt), h.level, h.step0, h.step1, h.rows, h.ranks, h.quantum_ns, h.steps};
  for (const EncodedBlock& block : blocks) {
    uint64_t own = 0;  // a block's own check word
    for (size_t i = 0; i < std::min<size_t>(4, block.bytes.size()); ++i)
      own = own << 8 | static_cast<uint8_t>(block.bytes[block.bytes.size() - 1 - i]);
    words.insert(words.end(), {block.sum, block.metric, block.rank0, block.ranks, own, block.bytes.size()});
  }
  return XXH32(words.data(), words.size() * sizeof words[0], 0);
}

std::string seal(std::string bytes) {
  const uint32_t check = XXH32(bytes.data(), bytes.size(), 0);
  for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(check >> (8 * i));
  return bytes;
}

Result<std::string_view> unseal(std::string_view bytes) {
  if (bytes.size() < 4) return fail("damaged block: cut short");
  const std::string_view body = bytes.substr(0, bytes.size() - 4);
  uint32_t check = 0;
  for (unsigned i = 0; i < 4; ++i)
    check |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[body.size() + i])) << (8 * i);
  if (check != XXH32(body.data(), body.size(), 0)) return fail("damaged block: its check word does not fit");
  return body;
}

}  // namespace stepscope::store
