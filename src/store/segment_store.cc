#include "store/segment_store.h"

#include <sqlite3.h>

#include <algorithm>

namespace stepscope::store {
namespace {

constexpr size_t kMaxSegmentBytes = 64u << 20, kMaxBlocks = 16384;
constexpr uint64_t kRowOverhead = 24;  // of SQLite, per block: measured, docs/formats/run_file.md

bool fits(int64_t value, int64_t max) { return value >= 0 && value <= max; }

}  // namespace

bool SegmentStore::ready(Statement& statement, std::string_view sql) {
  if (statement) return true;
  auto prepared = db_.prepare(sql);
  if (prepared) statement = std::move(*prepared);
  return static_cast<bool>(statement);
}

Status SegmentStore::insert(Segment& s, ColumnCodec& codec, ColumnCodec::Effort effort) {
  if (!ready(insert_segment_,
             "INSERT INTO segment(attempt, level, step0, step1, rows, ranks, steps, quantum_ns, seal) VALUES(?, ?, ?, "
             "?, ?, ?, ?, ?, ?)") ||
      !ready(insert_block_, "INSERT INTO block(segment, fold, metric, rank0, ranks, data) VALUES(?, ?, ?, ?, ?, ?)")) {
    return std::unexpected(db_.last_error());
  }
  SegmentHead& h = s.head;
  const std::vector<EncodedBlock> blocks = encode(s, codec, effort);
  h.seal = seal_of(h, blocks);
  bool ok =
      insert_segment_.bind(h.attempt, h.level, h.step0, h.step1, h.rows, h.ranks, h.steps, h.quantum_ns, h.seal).run();
  insert_segment_.reset();
  h.id = ok ? sqlite3_last_insert_rowid(db_.raw()) : 0;
  h.bytes = 0;
  for (const EncodedBlock& block : blocks) {
    ok = ok && insert_block_.bind(h.id, block.sum, block.metric, block.rank0, block.ranks, AsBlob{block.bytes}).run();
    h.bytes += block.bytes.size() + kRowOverhead;
  }
  const Error error = ok ? Error() : db_.last_error();
  insert_block_.reset();
  return ok ? Status() : std::unexpected(error);
}

Status SegmentStore::remove(int64_t id) {
  if (!ready(delete_segment_, "DELETE FROM segment WHERE id = ?") ||
      !ready(delete_blocks_, "DELETE FROM block WHERE segment = ?") || !delete_segment_.bind(id).run() ||
      !delete_blocks_.bind(id).run()) {
    return std::unexpected(db_.last_error());
  }
  delete_segment_.reset();
  delete_blocks_.reset();
  return {};
}

Result<std::vector<SegmentHead>> SegmentStore::list(int32_t attempt, uint64_t step0, uint64_t step1,
                                                    uint64_t& damaged) {
  auto select = db_.prepare(
      "SELECT s.id, s.attempt, s.level, s.step0, s.step1, s.rows, s.ranks, s.steps, s.quantum_ns, s.seal, "
      "(SELECT sum(length(data) + 24) FROM block WHERE segment = s.id) FROM segment s "
      "WHERE (?1 < 0 OR s.attempt = ?1) AND s.step0 <= ?3 AND s.step1 >= ?2 ORDER BY s.attempt, s.step0, s.id");
  if (!select) return std::unexpected(select.error());
  select->bind(attempt, step0, step1);
  std::vector<SegmentHead> heads;
  Statement::Step step;
  while ((step = select->step()) == Statement::Step::kRow) {
    SegmentHead h;
    constexpr int64_t kWord = 0xffffffff;
    const bool sound = fits(select->integer(1), INT32_MAX) && fits(select->integer(2), kWord) &&
                       fits(select->integer(3), INT64_MAX) && fits(select->integer(4), INT64_MAX) &&
                       fits(select->integer(5), kWord) && fits(select->integer(6), kWord) &&
                       fits(select->integer(8), kWord);
    h.id = select->integer(0);
    h.attempt = static_cast<int32_t>(select->integer(1));
    h.level = static_cast<uint32_t>(select->integer(2));
    h.step0 = static_cast<uint64_t>(select->integer(3));
    h.step1 = static_cast<uint64_t>(select->integer(4));
    h.rows = static_cast<uint32_t>(select->integer(5));
    h.ranks = static_cast<uint32_t>(select->integer(6));
    h.steps = static_cast<uint64_t>(select->integer(7));
    h.quantum_ns = static_cast<uint32_t>(select->integer(8));
    h.seal = static_cast<uint32_t>(select->integer(9));
    h.bytes = static_cast<uint64_t>(std::max<int64_t>(0, select->integer(10)));
    if (sound && !fault_of(h))
      heads.push_back(h);
    else
      ++damaged;
  }
  if (step == Statement::Step::kError) return std::unexpected(db_.last_error());
  return heads;
}

Result<Segment> SegmentStore::load(const SegmentHead& head, ColumnCodec& codec) {
  if (!ready(select_blocks_, "SELECT fold, metric, rank0, ranks, data FROM block WHERE segment = ? ORDER BY id"))
    return std::unexpected(db_.last_error());
  std::vector<EncodedBlock> blocks;
  size_t size = 0;
  const char* fault = nullptr;
  select_blocks_.bind(head.id);
  Statement::Step step;
  while (!fault && (step = select_blocks_.step()) == Statement::Step::kRow) {
    const std::string_view bytes = select_blocks_.bytes(4);
    size += bytes.size();
    if (!fits(select_blocks_.integer(1), 255) || !fits(select_blocks_.integer(2), kMaxRanks) ||
        !fits(select_blocks_.integer(3), kMaxRanks)) {
      fault = "damaged segment: impossible numbers";
    } else if (size > kMaxSegmentBytes || blocks.size() >= kMaxBlocks) {
      fault = "damaged segment: too large";
    } else {
      blocks.push_back({select_blocks_.integer(0) != 0, static_cast<uint8_t>(select_blocks_.integer(1)),
                        static_cast<uint32_t>(select_blocks_.integer(2)),
                        static_cast<uint32_t>(select_blocks_.integer(3)), std::string(bytes)});
    }
  }
  const Error error = !fault && step == Statement::Step::kError ? db_.last_error() : Error{fault ? fault : ""};
  select_blocks_.reset();
  if (!error.message.empty()) return std::unexpected(error);
  if (seal_of(head, blocks) != head.seal) return fail("damaged segment: its check word does not fit");
  return decode_segment(head, blocks, codec);
}

Result<Segment> decode_segment(const SegmentHead& head, std::span<const EncodedBlock> blocks, ColumnCodec& codec) {
  Segment out;
  out.head = head;
  for (const EncodedBlock& block : blocks)
    if (Status status = apply_block(out, block, codec); !status) return std::unexpected(status.error());
  if (out.step.empty()) return fail("damaged segment: it has no steps");
  if (out.end_us.empty()) out.end_us.assign(head.rows, 0);
  return out;
}

}  // namespace stepscope::store
