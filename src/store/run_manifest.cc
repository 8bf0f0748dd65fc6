#include "store/run_manifest.h"

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace stepscope {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = 16u << 20;

const Json* member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() ? &*found : nullptr;
}

std::string text_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

template <class T>
std::optional<T> number_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value && value->is_number_integer() ? std::optional(value->get<T>()) : std::nullopt;
}

ProcessEnd end_of(const Json& rank) {
  ProcessEnd end{.end_ns = number_of<uint64_t>(rank, "end_ns").value_or(0)};
  if (const auto signal = number_of<int>(rank, "exit_signal"))
    end.wait_status = *signal & 0x7f;
  else if (const auto code = number_of<int>(rank, "exit_code"))
    end.wait_status = (*code & 0xff) << 8;
  return end;
}

}  // namespace

std::optional<RunManifest> read_manifest(const std::string& folder) {
  const auto text = read_file(path_join(folder, "manifest.json"), kMaxBytes);
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  RunManifest out{.name = text_of(json, "name"),
                  .started_at = text_of(json, "started_at"),
                  .status = text_of(json, "status"),
                  .nonce = text_of(json, "nonce"),
                  .shm_dir = text_of(json, "shm_dir"),
                  .stepscope = text_of(json, "stepscope"),
                  .exit_code = number_of<int>(json, "exit_code"),
                  .interrupted_ns = number_of<int64_t>(json, "interrupted_ns").value_or(0)};
  if (const Json* words = member(json, "command"); words && words->is_array())
    for (const Json& word : *words)
      if (word.is_string()) out.command.push_back(word.get<std::string>());
  if (const Json* ranks = member(json, "ranks"); ranks && ranks->is_array())
    for (const Json& rank : *ranks)
      if (const auto pid = number_of<int>(rank, "pid")) out.ended[*pid] = end_of(rank);
  return out;
}

bool agent_is_at_work(const RunManifest& manifest) {
  return manifest.status == "running" && !manifest.shm_dir.empty() && is_dir(manifest.shm_dir);
}

}  // namespace stepscope
