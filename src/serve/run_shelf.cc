#include "serve/run_shelf.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <tuple>

#include "base/clock.h"
#include "base/file.h"
#include "report/summary_read.h"
#include "store/run_manifest.h"

namespace stepscope {
namespace {

constexpr const char *kSummaryFile = "final_summary.json", *kRunFile = "run.db", *kManifest = "manifest.json";
constexpr uint64_t kLeastReloadNs = 5'000'000'000;
constexpr uint64_t kCostFactor = 10;  // a run that goes on costs a tenth of the time at most

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  return hash;
}

// Time and size of a file; 0 = there is none.
uint64_t stamp_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return 0;
  return mix(mix(static_cast<uint64_t>(info.st_mtim.tv_sec), static_cast<uint64_t>(info.st_mtim.tv_nsec)),
             static_cast<uint64_t>(info.st_size));
}

uint64_t stamp_of_run(const std::string& path) {
  if (!is_dir(path)) return stamp_of(path);
  uint64_t hash = 0;
  for (const char* file : {kSummaryFile, kRunFile, "run.db-wal", kManifest})
    hash = mix(hash, stamp_of(path_join(path, file)));
  return std::max<uint64_t>(hash >> 11, 1);  // what JavaScript's numbers hold
}

int64_t changed_s(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? info.st_mtim.tv_sec : 0;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string base_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

bool is_run_folder(const std::string& path) {
  return is_file(path_join(path, kSummaryFile)) || is_file(path_join(path, kRunFile)) ||
         is_file(path_join(path, kManifest));
}

RunShelf::RunShelf(ShelfOptions options) : options_(std::move(options)) {}

std::string RunShelf::path_of(const std::string& name) const {
  if (is_live(name)) return options_.live_dir;
  if (alone()) return base_name(options_.only) == name ? options_.only : "";
  if (options_.logs.empty() || name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    return "";
  const std::string path = path_join(options_.logs, name);
  return is_run_folder(path) ? path : "";
}

uint64_t RunShelf::version(const std::string& name) {
  if (is_live(name)) return options_.live->get(monotonic_ns()).version;
  const std::string path = path_of(name);
  return path.empty() ? 0 : stamp_of_run(path);
}

void RunShelf::make_room() {
  while (kept_.size() > kMaxKept) {
    const auto oldest = std::min_element(kept_.begin(), kept_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    kept_.erase(oldest);
  }
}

Result<RunState> RunShelf::find(const std::string& name) {
  if (is_live(name)) {
    const LiveSlot::State live = options_.live->get(monotonic_ns());
    if (!live.snapshot) return fail(name + ": the run has just begun; nothing is known of it yet");
    RunState state{.name = name, .version = live.version, .snapshot = live.snapshot, .host = live.host};
    state.going_on = live.snapshot->run.status == "running";
    const std::string file = options_.live_dir.empty() ? "" : path_join(options_.live_dir, kRunFile);
    if (!file.empty() && is_file(file)) state.run_file = file;
    return state;
  }
  const std::string path = path_of(name);
  if (path.empty()) return fail("no run is called " + name);
  const uint64_t stamp = stamp_of_run(path), now_ns = monotonic_ns();
  if (const auto found = kept_.find(name); found != kept_.end()) {
    Kept& kept = found->second;
    kept.used = ++uses_;
    const bool rests = now_ns < kept.loaded_ns + std::max(kLeastReloadNs, kept.cost_ns * kCostFactor);
    if (kept.state.version == stamp || (kept.state.going_on && rests)) return kept.state;
  }
  if (!load_.valid()) begin_load(name, path, stamp);
  const bool ready = load_.wait_for(std::chrono::milliseconds(kPatienceMs)) == std::future_status::ready;
  if (ready && load_name_ == name) return take(name, path);
  if (ready) {  // nobody came back for the other one: it is kept all the same
    const std::string other = load_name_;
    (void)take(other, path_of(other));
    return find(name);
  }
  // What there is of it is shown until the newer state is there.
  if (const auto found = kept_.find(name); found != kept_.end()) return found->second.state;
  return fail(load_name_ == name ? name + ": a large run; it is being read"
                                 : name + ": another run is being read first: " + load_name_);
}

void RunShelf::begin_load(const std::string& name, const std::string& path, uint64_t stamp) {
  load_name_ = name, load_stamp_ = stamp, load_begun_ns_ = monotonic_ns();
  load_ = std::async(std::launch::async, [load = options_.load, path] { return load(path); });
}

// Takes over what the thread has read.
Result<RunState> RunShelf::take(const std::string& name, const std::string& path) {
  auto loaded = load_.get();
  if (!loaded) return std::unexpected(loaded.error());
  Kept kept{.used = ++uses_, .loaded_ns = monotonic_ns()};
  kept.cost_ns = kept.loaded_ns - load_begun_ns_;
  const bool folder = is_dir(path);
  const std::string file = folder ? path_join(path, kRunFile) : path.ends_with(".db") ? path : "";
  // What has changed while it was read is seen the next time.
  kept.state = {.name = name, .version = load_stamp_, .note = std::move(loaded->note)};
  kept.state.going_on = folder && agent_is_at_work(read_manifest(path).value_or(RunManifest()));
  if (is_file(file)) kept.state.run_file = file;
  if (loaded->snapshot.run.status == "running" && !kept.state.going_on) loaded->snapshot.run.status = "unfinished";
  kept.state.snapshot = std::make_shared<const Snapshot>(std::move(loaded->snapshot));
  RunState state = kept.state;
  kept_.insert_or_assign(name, std::move(kept));
  make_room();
  return state;
}

RunDigest RunShelf::digest(const std::string& name, uint64_t version) {
  if (const auto found = listed_.find(name); found != listed_.end() && found->second.version == version)
    return found->second.digest;
  const std::string path = path_of(name);
  RunDigest digest;
  const RunManifest manifest = read_manifest(path).value_or(RunManifest());
  const std::string summary = is_dir(path) ? path_join(path, kSummaryFile) : path;
  if (is_file(summary) && !summary.ends_with(".db")) {
    auto text = read_file(summary, kMaxDigestBytes + 1);
    if (text && text->size() > kMaxDigestBytes) {
      digest.trouble = "too large for the list; open it";
    } else if (text) {
      auto snapshot = read_summary(*text, kSummaryFile);
      if (snapshot)
        digest = digest_of(*snapshot);
      else
        digest.trouble = snapshot.error().message;
    } else {
      digest.trouble = text.error().message;
    }
  } else if (!agent_is_at_work(manifest)) {
    digest.trouble = "no summary was written; open it to have it worked out from the steps";
  }
  digest.name = name;
  if (digest.status.empty()) {
    digest.going_on = agent_is_at_work(manifest);
    digest.status = digest.going_on ? "running" : "unfinished";
    digest.started_at = manifest.started_at, digest.command = joined(manifest.command);
  }
  listed_.insert_or_assign(name, Listed{version, digest});
  return digest;
}

std::vector<RunDigest> RunShelf::list() {
  std::vector<RunDigest> out;
  if (options_.live) {
    const LiveSlot::State live = options_.live->get(monotonic_ns());
    RunDigest digest;
    if (live.snapshot) digest = digest_of(*live.snapshot);
    digest.name = options_.live_name;
    if (digest.status.empty()) digest.status = "running", digest.going_on = true;
    out.push_back(std::move(digest));
  }
  std::vector<std::pair<int64_t, std::string>> names;  // with the time of their folder
  if (alone()) {
    names.emplace_back(0, base_name(options_.only));
  } else if (auto entries = options_.logs.empty() ? Result<std::vector<std::string>>{} : list_dir(options_.logs)) {
    for (std::string& name : *entries) {
      const std::string path = path_join(options_.logs, name);
      if (!is_live(name) && is_run_folder(path)) names.emplace_back(changed_s(path), std::move(name));
    }
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  if (names.size() > kMaxListed) names.resize(kMaxListed);
  std::map<std::string, Listed> still;
  for (const auto& [time, name] : names) {
    out.push_back(digest(name, stamp_of_run(path_of(name))));
    still[name] = listed_[name];
  }
  listed_ = std::move(still);
  std::stable_sort(out.begin(), out.end(), [](const RunDigest& a, const RunDigest& b) {
    return std::tie(a.going_on, a.started_at) > std::tie(b.going_on, b.started_at);
  });
  return out;
}

}  // namespace stepscope
