// Private to the .cc files of this room: typed access to a parsed JSON object. The first field of the wrong type is
// remembered with its path ("run.world_size: expected a whole number"); everything after it reads as missing.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace stepscope {

class JsonFields {
 public:
  // `value` must outlive this; nullptr reads as an empty object. `problem` is shared by all children.
  JsonFields(const nlohmann::json* value, std::string path, std::string* problem);

  bool has(const char* key) const { return find(key) != nullptr; }

  std::string text(const char* key) const;  // missing, null: ""
  bool flag(const char* key) const;         // missing, null: false
  std::optional<double> number(const char* key) const;
  double number_or_zero(const char* key) const;  // missing: 0; null: NaN, as it was written
  std::optional<int64_t> whole(const char* key, int64_t least, int64_t most) const;
  std::optional<int> optional_int(const char* key) const;
  int int_or(const char* key, int fallback) const { return optional_int(key).value_or(fallback); }
  uint32_t count32(const char* key) const;
  uint64_t count64(const char* key) const;
  int64_t ms_as_ns(const char* key) const;  // missing: 0

  std::vector<std::string> texts(const char* key) const;
  std::vector<int> ints(const char* key) const;
  std::vector<float> floats(const char* key) const;  // null: NaN
  std::map<std::string, std::string> text_map(const char* key) const;
  std::map<std::string, std::optional<double>> number_map(const char* key) const;

  JsonFields child(const char* key) const;  // missing, null: empty
  std::vector<std::pair<std::string, JsonFields>> children_by_name(const char* key) const;
  std::vector<JsonFields> children(const char* key) const;  // of an array of objects

 private:
  const nlohmann::json* find(const char* key) const;  // nullptr when missing, null or already in error
  const nlohmann::json* array(const char* key) const;
  const nlohmann::json* object(const char* key) const;
  void complain(const std::string& where, const char* expected) const;
  std::string at(const char* key) const;

  const nlohmann::json* value_;
  std::string path_;
  std::string* problem_;
};

}  // namespace stepscope
