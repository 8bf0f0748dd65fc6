#include "store/finding_log.h"

#include <cmath>

#include "store/json_lists.h"

namespace stepscope::store {
namespace {

bool same(const Finding& a, const Finding& b) {
  return a.severity == b.severity && a.last_step == b.last_step && a.title == b.title && a.cost_share == b.cost_share &&
         a.cost_seconds == b.cost_seconds && a.victims == b.victims && a.cause == b.cause && a.pattern == b.pattern &&
         a.first_step == b.first_step && a.id == b.id && a.confidence == b.confidence;
}

std::optional<double> number(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }
std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(one_line(text));
}

}  // namespace

uint64_t FindingLog::put(int32_t attempt, const std::vector<Finding>& findings, int64_t step) {
  uint64_t refused = 0;
  std::map<Key, const Finding*> said;
  for (const Finding& f : findings)
    said.emplace(
        Key{attempt, f.kind.str(), json_list(f.ranks), has(f.kind.id(), kToldApartByCause) ? f.cause.str() : f.phase},
        &f);
  for (const auto& [key, finding] : said) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (entries_.size() >= kMaxFindings) {
        ++refused;
        continue;
      }
      entries_[key] = {*finding, finding->detected_step >= 0 ? finding->detected_step : step};
      waits_ = true;
      continue;
    }
    Entry& entry = found->second;
    if (entry.open && same(entry.finding, *finding)) continue;
    entry.finding = *finding;
    entry.open = entry.changed = waits_ = true;
    entry.closed_step = -1;
  }
  for (auto& [key, entry] : entries_) {
    if (!entry.open || std::get<0>(key) != attempt || said.contains(key)) continue;
    entry.open = false;
    entry.closed_step = step;
    entry.changed = waits_ = true;
  }
  return refused;
}

Status FindingLog::upsert(Statement& statement, const Key& key, const Entry& entry, Database& db) {
  const Finding& f = entry.finding;
  const std::string victims = json_list(f.victims), json = to_json_ ? to_json_(f) : std::string();
  const std::optional<double> saves = f.saves ? number(f.saves->share) : std::nullopt;
  const bool ok =
      statement
          .bind(std::get<0>(key), std::get<1>(key), name(f.severity), f.scope(), std::get<2>(key), victims,
                std::get<3>(key), text_or_null(f.cause.str()), text_or_null(f.pattern), null_if_negative(f.first_step),
                null_if_negative(f.last_step), null_if_negative(f.detected_step), null_if_negative(entry.opened_step),
                null_if_negative(entry.closed_step), number(f.cost_share), number(f.cost_seconds), saves,
                number(f.confidence), number(f.coverage), text_or_null(f.section.str()), text_or_null(f.title),
                text_or_null(f.action), json)
          .run();
  return ok ? Status() : std::unexpected(db.last_error());
}

Status FindingLog::write(Database& db) {
  if (!waits_) return {};
  auto statement = db.prepare(
      "INSERT INTO finding(attempt, kind, severity, scope, ranks, victims, phase, cause, pattern, first_step, "
      "last_step, detected_step, "
      "opened_step, closed_step, cost_share, cost_seconds, saves_share, confidence, coverage, section, title, action, "
      "json) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(attempt, kind, ranks, "
      "phase) DO UPDATE SET "
      "severity = excluded.severity, scope = excluded.scope, victims = excluded.victims, cause = excluded.cause, "
      "pattern = excluded.pattern, "
      "first_step = excluded.first_step, last_step = excluded.last_step, detected_step = excluded.detected_step, "
      "opened_step = min(opened_step, excluded.opened_step), closed_step = excluded.closed_step, cost_share = "
      "excluded.cost_share, "
      "cost_seconds = excluded.cost_seconds, saves_share = excluded.saves_share, confidence = excluded.confidence, "
      "coverage = excluded.coverage, section = excluded.section, title = excluded.title, action = excluded.action, "
      "json = excluded.json");
  if (!statement) return std::unexpected(statement.error());
  for (const auto& [key, entry] : entries_) {
    if (!entry.changed) continue;
    if (Status status = upsert(*statement, key, entry, db); !status) return status;
  }
  return {};
}

void FindingLog::committed() {
  for (auto& [key, entry] : entries_) entry.changed = false;
  waits_ = false;
}

uint64_t FindingLog::give_up() {
  // Nothing is lost for good: findings stay in memory and are written when writing works again.
  uint64_t waiting = 0;
  for (const auto& [key, entry] : entries_) waiting += entry.changed;
  return waiting;
}

}  // namespace stepscope::store
