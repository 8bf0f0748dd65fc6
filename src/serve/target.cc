#include "serve/target.h"

#include <algorithm>

namespace stepscope {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return fail("a % without two hexadecimal digits in the address");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return fail("a control character in the address");
    out += c;
  }
  return out;
}

Status read_path(std::string_view path, Target& target) {
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end == at && end < path.size()) return fail("an empty part in the address");
    if (end > at) {
      auto segment = decoded(path.substr(at, end - at), false);
      if (!segment) return std::unexpected(segment.error());
      if (target.segments.size() == kMaxTargetSegments) return fail("the address has too many parts");
      target.segments.push_back(std::move(*segment));
    }
    at = end + 1;
  }
  return {};
}

Status read_parameters(std::string_view query, Target& target) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string_view word = query.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const size_t equals = std::min(word.find('='), word.size());
    auto name = decoded(word.substr(0, equals), true);
    auto value = decoded(word.substr(std::min(equals + 1, word.size())), true);
    if (!name) return std::unexpected(name.error());
    if (!value) return std::unexpected(value.error());
    if (target.parameters.size() == kMaxTargetParameters) return fail("the address has too many parameters");
    if (!target.parameters.emplace(std::move(*name), std::move(*value)).second)
      return fail("a parameter is given twice");
  }
  return {};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  if (text.size() > kMaxTargetBytes) return fail("the address is too long");
  if (!text.starts_with('/')) return fail("the address must begin with /");
  const size_t mark = std::min(text.find('?'), text.size());
  Target target;
  if (Status status = read_path(text.substr(0, mark), target); !status) return std::unexpected(status.error());
  const std::string_view query = text.substr(std::min(mark + 1, text.size()));
  if (Status status = read_parameters(query, target); !status) return std::unexpected(status.error());
  return target;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  std::string out;
  for (const char c : text) {
    if (plain.find(c) != std::string_view::npos) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += "0123456789ABCDEF"[byte >> 4];
    out += "0123456789ABCDEF"[byte & 15];
  }
  return out;
}

}  // namespace stepscope
