#include "report/json_write.h"

#include <cmath>

namespace stepscope {
namespace {

constexpr double kLargestExact = 9007199254740992.0;  // 2^53

bool is_flat(const OrderedJson& value, bool allow_arrays) {
  for (const auto& item : value) {
    if (item.is_object() && !item.empty()) return false;
    if (item.is_array() && !(allow_arrays && is_flat(item, false))) return false;
  }
  return true;
}

void lay_out(const OrderedJson& value, int depth, std::string& out) {
  const bool container = value.is_object() || value.is_array();
  const bool one_line = !container || value.empty() || (value.is_array() && is_flat(value, false)) ||
                        (depth >= 2 && is_flat(value, true));
  if (one_line) {
    out += json_one_line(value);
    return;
  }
  out += value.is_object() ? '{' : '[';
  const std::string indent(static_cast<size_t>(depth + 1) * 2, ' ');
  bool first = true;
  for (const auto& item : value.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out += indent;
    if (value.is_object()) out += json_one_line(OrderedJson(item.key())) + ": ";
    lay_out(item.value(), depth + 1, out);
  }
  out += '\n';
  out.append(static_cast<size_t>(depth) * 2, ' ');
  out += value.is_object() ? '}' : ']';
}

}  // namespace

OrderedJson json_number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  if (std::fabs(*value) >= 1e9) return *value;
  const double rounded = std::round(*value * 1e6) / 1e6;
  return rounded == 0 ? 0.0 : rounded;  // no "-0.0"
}

OrderedJson json_named_number(std::string_view name, std::optional<double> value) {
  const bool whole = name.ends_with("_bytes") || name.ends_with("_count");
  if (whole && value && std::fabs(*value) < kLargestExact) return static_cast<int64_t>(std::llround(*value));
  return json_number(value);
}

OrderedJson json_int(std::optional<int> value) { return value ? OrderedJson(*value) : OrderedJson(nullptr); }

OrderedJson json_text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

// A division is rounded correctly, so that the shortest decimal has at most six places; times 1e-6 is not.
OrderedJson json_ns_as_ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

std::string json_one_line(const OrderedJson& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  std::string out;
  out += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) out += ", ";
    first = false;
    if (value.is_object()) out += json_one_line(OrderedJson(item.key())) + ": ";
    out += json_one_line(item.value());
  }
  out += value.is_object() ? '}' : ']';
  return out;
}

std::string json_layout(const OrderedJson& value) {
  std::string out;
  lay_out(value, 0, out);
  out += '\n';
  return out;
}

}  // namespace stepscope
