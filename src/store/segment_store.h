// Segments in the tables segment and block. Stateless but for prepared statements; one thread, the Database's.
#pragma once

#include <span>
#include <vector>

#include "store/segment.h"
#include "store/sql.h"

namespace stepscope::store {

// A segment from its blocks; the head must have been checked (fault_of). Bounded work, whatever the blocks are.
Result<Segment> decode_segment(const SegmentHead& head, std::span<const EncodedBlock> blocks, ColumnCodec& codec);

class SegmentStore {
 public:
  explicit SegmentStore(Database& db) : db_(db) {}

  // Sets head.id and head.bytes.
  Status insert(Segment& segment, ColumnCodec& codec, ColumnCodec::Effort effort = ColumnCodec::Effort::kFull);
  Status remove(int64_t id);
  // Heads of one attempt (-1 = all) that overlap the steps, in the order of attempt and step. Heads that cannot be are
  // left out and counted in `damaged`.
  Result<std::vector<SegmentHead>> list(int32_t attempt, uint64_t step0, uint64_t step1, uint64_t& damaged);
  Result<Segment> load(const SegmentHead& head, ColumnCodec& codec);

 private:
  bool ready(Statement& statement, std::string_view sql);

  Database& db_;
  Statement insert_segment_, insert_block_, delete_segment_, delete_blocks_, select_blocks_;
};

}  // namespace stepscope::store
