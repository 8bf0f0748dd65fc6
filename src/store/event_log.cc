#include "store/event_log.h"

#include <utility>

#include "store/json_lists.h"

namespace stepscope::store {

bool EventLog::add(RunEvent event) {
  if (waiting_.size() >= kMaxWaiting) return false;
  event.kind = one_line(event.kind, 64);
  event.text = one_line(event.text);
  waiting_.push_back(std::move(event));
  return true;
}

Status EventLog::write(Database& db) {
  if (waiting_.empty()) return {};
  auto insert = db.prepare("INSERT INTO event(at_s, attempt, rank, step, kind, text) VALUES(?, ?, ?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  for (const RunEvent& e : waiting_) {
    const double at_s = static_cast<double>(e.time_ns - start_ns_) * 1e-9;
    if (!insert->bind(at_s, e.attempt, null_if_negative(e.rank), null_if_negative(e.step), e.kind, e.text).run())
      return std::unexpected(db.last_error());
  }
  while (db.integer("SELECT count(*) FROM event") > static_cast<int64_t>(kMaxEvents)) {
    Status status = db.exec(
        "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE kind = (SELECT kind FROM event GROUP BY kind "
        "ORDER BY count(*) DESC LIMIT 1) ORDER BY id LIMIT 4096)");
    if (!status) return status;
  }
  return {};
}

uint64_t EventLog::give_up() { return std::exchange(waiting_, {}).size(); }

}  // namespace stepscope::store
