#include "store/json_lists.h"

#include <nlohmann/json.hpp>

namespace stepscope::store {
namespace {

using nlohmann::json;

constexpr size_t kMaxText = 1u << 20;

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json parse(std::string_view text) {
  if (text.size() > kMaxText) return nullptr;
  // Nesting deeper than a list of texts is not ours; the callback stops before the parser's stack grows.
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 3; };
  return json::parse(text, shallow, false);
}

}  // namespace

std::string json_list(const std::vector<int>& values) { return dump(json(values)); }
std::string json_list(const std::vector<std::string>& values) { return dump(json(values)); }

std::string json_object(const TextPairs& values) {
  json out = json::object();
  for (const auto& [key, value] : values) out[key] = value;
  return dump(out);
}

std::vector<int> int_list(std::string_view text) {
  std::vector<int> out;
  const json value = parse(text);
  if (!value.is_array()) return out;
  for (const json& item : value)
    if (item.is_number_integer()) out.push_back(item.get<int>());
  return out;
}

std::vector<std::string> text_list(std::string_view text) {
  std::vector<std::string> out;
  const json value = parse(text);
  if (!value.is_array()) return out;
  for (const json& item : value)
    if (item.is_string()) out.push_back(item.get<std::string>());
  return out;
}

TextPairs text_pairs(std::string_view text) {
  TextPairs out;
  const json value = parse(text);
  if (!value.is_object()) return out;
  for (const auto& [key, item] : value.items())
    if (item.is_string()) out.emplace_back(key, item.get<std::string>());
  return out;
}

std::string one_line(std::string_view text, size_t max_bytes) {
  std::string line(text.substr(0, max_bytes));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
  // The JSON writer already knows how to mend UTF-8, a sequence cut off at the end included.
  const std::string quoted = dump(json(line));
  const json mended = json::parse(quoted, nullptr, false);
  return mended.is_string() ? mended.get<std::string>() : std::string();
}

}  // namespace stepscope::store
