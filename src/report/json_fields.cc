#include "report/json_fields.h"

#include <cmath>
#include <limits>

#include "base/text_format.h"

namespace stepscope {
namespace {

using Json = nlohmann::json;

// Error lines stay lines, whatever a hostile key holds.
std::string short_key(const std::string& key) {
  std::string out = key.substr(0, 40);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
  }
  return out;
}

std::optional<int64_t> as_whole(const Json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  } else if (!value.is_number_integer()) {
    return std::nullopt;
  }
  const auto number = value.get<int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

}  // namespace

JsonFields::JsonFields(const Json* value, std::string path, std::string* problem)
    : value_(value), path_(std::move(path)), problem_(problem) {
  if (value_ && !value_->is_object()) {
    complain(path_, "an object");
    value_ = nullptr;
  }
}

void JsonFields::complain(const std::string& where, const char* expected) const {
  if (problem_->empty()) *problem_ = formatted("{}: expected {}", where.empty() ? "top level" : where, expected);
}

std::string JsonFields::at(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

const Json* JsonFields::find(const char* key) const {
  if (!value_ || !problem_->empty()) return nullptr;
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const Json* JsonFields::array(const char* key) const {
  const Json* value = find(key);
  if (value && !value->is_array()) {
    complain(at(key), "a list");
    return nullptr;
  }
  return value;
}

const Json* JsonFields::object(const char* key) const {
  const Json* value = find(key);
  if (value && !value->is_object()) {
    complain(at(key), "an object");
    return nullptr;
  }
  return value;
}

std::string JsonFields::text(const char* key) const {
  const Json* value = find(key);
  if (!value) return "";
  if (!value->is_string()) {
    complain(at(key), "a string");
    return "";
  }
  return value->get<std::string>();
}

bool JsonFields::flag(const char* key) const {
  const Json* value = find(key);
  if (!value) return false;
  if (!value->is_boolean()) {
    complain(at(key), "true or false");
    return false;
  }
  return value->get<bool>();
}

std::optional<double> JsonFields::number(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) {
    complain(at(key), "a number");
    return std::nullopt;
  }
  return value->get<double>();
}

double JsonFields::number_or_zero(const char* key) const {
  if (value_ && value_->contains(key) && (*value_)[key].is_null()) return std::numeric_limits<double>::quiet_NaN();
  return number(key).value_or(0);
}

std::optional<int64_t> JsonFields::whole(const char* key, int64_t least, int64_t most) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = as_whole(*value, least, most);
  if (!number) complain(at(key), "a whole number in range");
  return number;
}

std::optional<int> JsonFields::optional_int(const char* key) const {
  const auto number = whole(key, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

uint32_t JsonFields::count32(const char* key) const {
  return static_cast<uint32_t>(whole(key, 0, std::numeric_limits<uint32_t>::max()).value_or(0));
}

uint64_t JsonFields::count64(const char* key) const {
  const Json* value = find(key);
  if (!value) return 0;
  if (!value->is_number_unsigned()) {
    complain(at(key), "a count");
    return 0;
  }
  return value->get<uint64_t>();
}

int64_t JsonFields::ms_as_ns(const char* key) const {
  const std::optional<double> ms = number(key);
  if (!ms) return 0;
  if (std::fabs(*ms) > 1e12) {  // 31 years
    complain(at(key), "milliseconds in range");
    return 0;
  }
  return std::llround(*ms * 1e6);
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  std::vector<std::string> out;
  const Json* list = array(key);
  if (!list) return out;
  for (const Json& item : *list) {
    if (!item.is_string()) {
      complain(at(key), "a list of strings");
      return {};
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<int> JsonFields::ints(const char* key) const {
  std::vector<int> out;
  const Json* list = array(key);
  if (!list) return out;
  for (const Json& item : *list) {
    const auto number = as_whole(item, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
    if (!number) {
      complain(at(key), "a list of whole numbers");
      return {};
    }
    out.push_back(static_cast<int>(*number));
  }
  return out;
}

std::vector<float> JsonFields::floats(const char* key) const {
  std::vector<float> out;
  const Json* list = array(key);
  if (!list) return out;
  for (const Json& item : *list) {
    if (!item.is_null() && !item.is_number()) {
      complain(at(key), "a list of numbers");
      return {};
    }
    out.push_back(item.is_null() ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(item.get<double>()));
  }
  return out;
}

std::map<std::string, std::string> JsonFields::text_map(const char* key) const {
  std::map<std::string, std::string> out;
  const Json* fields = object(key);
  if (!fields) return out;
  for (const auto& [name, value] : fields->items()) {
    if (!value.is_string()) {
      complain(at(key) + "." + short_key(name), "a string");
      return {};
    }
    out[name] = value.get<std::string>();
  }
  return out;
}

std::map<std::string, std::optional<double>> JsonFields::number_map(const char* key) const {
  std::map<std::string, std::optional<double>> out;
  const Json* fields = object(key);
  if (!fields) return out;
  for (const auto& [name, value] : fields->items()) {
    if (!value.is_null() && !value.is_number()) {
      complain(at(key) + "." + short_key(name), "a number or null");
      return {};
    }
    out[name] = value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
  }
  return out;
}

JsonFields JsonFields::child(const char* key) const { return {object(key), at(key), problem_}; }

std::vector<std::pair<std::string, JsonFields>> JsonFields::children_by_name(const char* key) const {
  std::vector<std::pair<std::string, JsonFields>> out;
  const Json* fields = object(key);
  if (!fields) return out;
  for (const auto& [name, value] : fields->items()) {
    out.emplace_back(name, JsonFields(&value, at(key) + "." + short_key(name), problem_));
  }
  return out;
}

std::vector<JsonFields> JsonFields::children(const char* key) const {
  std::vector<JsonFields> out;
  const Json* list = array(key);
  if (!list) return out;
  out.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) out.emplace_back(&(*list)[i], formatted("{}[{}]", at(key), i), problem_);
  return out;
}

}  // namespace stepscope
