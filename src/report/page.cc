#include "report/page.h"

#include <algorithm>

#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/page_blocks.h"
#include "report/section_lines.h"

namespace stepscope {
namespace {

Block findings_block(const Snapshot& s, const PageSize& size) {
  Block block{"Also found", "", {}};
  FindingList list;
  size_t left_out = 0;
  for (size_t i = 0; i < s.findings.size(); ++i) {
    if (static_cast<int>(i) == s.primary) continue;
    if (list.items.size() == size.findings) {
      ++left_out;
      continue;
    }
    const Verdict v = verdict_of(s, s.findings[i]);
    list.items.push_back(
        {.severity = v.severity, .name = v.name, .title = v.headline, .cost = v.cost, .action = v.action});
  }
  if (list.items.empty()) return block;
  block.elements.emplace_back(std::move(list));
  if (left_out > 0)
    block.elements.emplace_back(
        Lines{{formatted("{} more are in final_summary.json.", format_count(left_out))}, Tone::kSoft});
  return block;
}

Block checks_block(const Snapshot& s) {
  Block block{"Checks", "\"healthy\" is said when all pass", {}};
  if (!s.checks.empty()) block.elements.emplace_back(Lines{check_phrases(s), Tone::kPlain});
  return block;
}

Block sections_block(const Snapshot& s) {
  Cards cards;
  for (const Section& section : ordered_sections(s)) {
    cards.cards.push_back({.title = section_title(section.name),
                           .word = display_name(section.diagnosis),
                           .text = section.text,
                           .severity = section.severity,
                           .measured = section.diagnosis != FindingKind::kNoData,
                           .lines = section_lines(section.values)});
  }
  return {"Sections", "", {std::move(cards)}};
}

Block observer_block(const Snapshot& s) {
  Block block{"Observer", "what the figures rest on", {}};
  const bool lossy = s.observer.lost > 0 || s.observer.torn > 0;
  block.elements.emplace_back(Phrases{observer_phrases(s.observer), lossy ? Tone::kWarn : Tone::kPlain});
  Lines lines{{}, Tone::kSoft};
  for (const std::string& reason : s.observer.unavailable) lines.items.push_back("Not available: " + reason);
  for (const std::string& note : s.observer.notes) lines.items.push_back(capitalized(note));
  if (!s.run.thresholds.empty()) lines.items.push_back(thresholds_text(s.run));
  if (!lines.items.empty()) block.elements.emplace_back(std::move(lines));
  return block;
}

}  // namespace

Page build_page(const Snapshot& s, const PageSize& size) {
  Page page{.run_name = s.run.name,
            .run = run_phrases(s.run, s.steps),
            .ended_badly = s.run.status == "crashed" || s.run.status == "hung",
            .verdict = verdict_of(s)};
  const auto add = [&](BlockKind kind, Block block) {
    block.kind = kind;
    if (!block.elements.empty()) page.blocks.push_back(std::move(block));
  };
  add(BlockKind::kLedger, ledger_block(s, size));
  add(BlockKind::kFindings, findings_block(s, size));
  add(BlockKind::kStepTime, step_time_block(s));
  add(BlockKind::kSteps, steps_block(s, size));
  add(BlockKind::kEpochs, epochs_block(s, size));
  add(BlockKind::kRanks, ranks_block(s, size));
  add(BlockKind::kMemory, memory_block(s));
  add(BlockKind::kForecast, forecast_block(s));
  add(BlockKind::kCollectives, collectives_block(s, size));
  add(BlockKind::kChecks, checks_block(s));
  add(BlockKind::kSections, sections_block(s));
  add(BlockKind::kObserver, observer_block(s));
  for (const std::string& word : s.run.command) page.command += (page.command.empty() ? "" : " ") + word;
  for (const auto& [program, version] : s.run.versions) page.versions.push_back(program + " " + version);
  return page;
}

const Block* block_of(const Page& page, BlockKind kind) {
  const auto found = std::ranges::find(page.blocks, kind, &Block::kind);
  return found == page.blocks.end() ? nullptr : &*found;
}

}  // namespace stepscope
