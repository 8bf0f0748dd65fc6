#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/report_files.h"
#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/load_run.h"
#include "cli/verbs.h"
#include "report/summary_json.h"
#include "report/summary_read.h"
#include "report/summary_text.h"
#include "store/rebuild.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

// What a node's agent said last, by itself: figures of processes and its notes, which no row holds.
void add_told(Snapshot& merged, RunReader& reader, const std::string& name) {
  const auto json = reader.snapshot();
  if (!json || !*json) return;
  const auto told = read_summary(**json, name);
  if (!told) return;
  for (const std::string& note : told->observer.notes) merged.observer.notes.push_back(name + ": " + note);
  for (const std::string& reason : told->observer.unavailable)
    merged.observer.unavailable.push_back(name + ": " + reason);
  for (RankStat& rank : merged.ranks) {
    for (const RankStat& same : told->ranks) {
      if (same.rank != rank.rank) continue;
      rank.cpu_share = same.cpu_share;
      rank.rss_peak_bytes = same.rss_peak_bytes;
      rank.uss_peak_bytes = same.uss_peak_bytes;
    }
  }
}

Result<MergeSource> source_of(const std::string& path) {
  const std::string file = is_dir(path) ? path_join(path, "run.db") : path;
  if (!is_file(file))
    return fail(is_dir(path) ? path + ": no run.db in it, not a run folder" : path + ": no such file");
  auto reader = RunReader::open(file);
  if (!reader) return std::unexpected(reader.error());
  return MergeSource{path, std::move(*reader)};
}

std::string last_part(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

int verb_merge(const MergeVerb& verb) {
  std::vector<MergeSource> sources;
  for (const std::string& path : verb.runs) {
    auto source = source_of(path);
    if (!source) return say(source.error().message), kExitUsage;
    sources.push_back(std::move(*source));
  }
  auto merge = RunMerge::of(std::move(sources));
  if (!merge) return say(merge.error().message), kExitUsage;
  if (is_file(path_join(verb.output, "final_summary.json")) || is_file(path_join(verb.output, "run.db")))
    return say(verb.output + ": holds a run already; name another folder"), kExitUsage;
  if (Status status = make_dirs(verb.output); !status) return say(status.error().message), 1;

  // A file of steps that each stand for several cannot be written anew without losing what stands behind them.
  std::unique_ptr<RunWriter> writer;
  MergedSink sink;
  if (!merge->thinned()) {
    RunWriterOptions options{.run_id = merge->run().run_id, .version = SS_VERSION, .start_ns = merge->run().start_ns};
    options.finding_json = finding_json;
    writer = std::make_unique<RunWriter>(path_join(verb.output, "run.db"), options);
    const auto tell = [&](int32_t attempt) {
      std::vector<RankLife> lives;
      for (const RankLife& life : merge->lives())
        if (life.attempt == attempt) lives.push_back(life);
      writer->set_lives(lives);
      for (const StoredGroup& group : merge->groups())
        if (group.attempt == attempt) writer->set_group(group.id, group.description, group.ranks);
    };
    tell(0);
    sink.attempt = [&, tell](int32_t attempt) { writer->begin_attempt(attempt), tell(attempt); };
    sink.row = [&](const StepRow& row) { writer->add_row(row); };
  }
  auto snapshot = rebuild_merged(*merge, {}, sink);
  if (!snapshot) return say(snapshot.error().message), 1;
  snapshot->run.name = last_part(verb.output);
  for (MergeSource& source : merge->sources()) add_told(*snapshot, source.reader, source.name);
  if (writer) {
    writer->set_run(snapshot->run);
    const int64_t last_step = static_cast<int64_t>(snapshot->steps) - 1;
    writer->put_findings(snapshot->findings, last_step);
    for (const RunEvent& event : merge->events()) writer->add_event(event);
    writer->put_snapshot(summary_json(*snapshot), last_step, merge->run().start_ns);
    writer->close();
    if (auto error = writer->take_error()) say(error->message);
  } else {
    say("no run.db is written: steps of these runs were thinned out");
  }

  std::vector<std::string> asked;
  if (verb.html) asked.emplace_back("html");
  RunFolder folder(verb.output);
  WrittenReport report = write_report(*snapshot, asked, folder);
  if (const std::string& error = folder.first_error(); !error.empty()) return say(error), 1;
  report.places.color = ::isatty(STDOUT_FILENO);
  return write_all(STDOUT_FILENO, summary_text(*snapshot, report.places), "stdout") ? 0 : 1;
}

}  // namespace stepscope
