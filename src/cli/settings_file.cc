#include "cli/settings_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

namespace stepscope {
namespace {

bool is_key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}
bool is_blank(char c) { return c == ' ' || c == '\t'; }

// One line of the file, read from left to right.
class Line {
 public:
  Line(std::string_view text, int number) : rest_(text), number_(number) {}

  void skip_blanks() { while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1); }
  bool at_end() { skip_blanks(); return rest_.empty() || rest_.front() == '#'; }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::unexpected<Error> error(std::string_view what) const {
    return fail("line " + std::to_string(number_) + ": " + std::string(what));
  }

  Result<std::string> key() {
    skip_blanks();
    size_t length = 0;
    while (length < rest_.size() && is_key_char(rest_[length])) ++length;
    if (length == 0) return error("a name is expected");
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

  // section names may be dotted: [a.b]
  Result<std::string> dotted_key() {
    std::string name;
    do {
      auto part = key();
      if (!part) return part;
      if (!name.empty()) name += '.';
      name += *part;
      skip_blanks();
    } while (take('.'));
    return name;
  }

  Result<std::variant<std::string, double, bool>> value() {
    using Value = std::variant<std::string, double, bool>;
    skip_blanks();
    if (rest_.empty() || rest_.front() == '#') return error("a value is expected after =");
    if (rest_.starts_with("\"\"\"") || rest_.starts_with("'''")) return error("strings over several lines are not supported");
    if (take('"')) {
      auto text = basic_string();
      if (!text) return std::unexpected(text.error());
      return Value(std::move(*text));
    }
    if (take('\'')) {
      const size_t end = rest_.find('\'');
      if (end == std::string_view::npos) return error("the closing ' is missing");
      std::string text(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
      return Value(std::move(text));
    }
    if (rest_.front() == '[' || rest_.front() == '{') return error("lists and tables are not supported as values");
    size_t length = 0;
    while (length < rest_.size() && !is_blank(rest_[length]) && rest_[length] != '#') ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (word == "true") return Value(true);
    if (word == "false") return Value(false);
    return number(word);
  }

 private:
  Result<std::string> basic_string() {
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (rest_.empty()) break;
      const char escaped = rest_.front();
      rest_.remove_prefix(1);
      switch (escaped) {
        case '"': text += '"'; break;
        case '\\': text += '\\'; break;
        case 'n': text += '\n'; break;
        case 't': text += '\t'; break;
        default: return error("this escape is not supported in a string");
      }
    }
    return error("the closing \" is missing");
  }

  Result<std::variant<std::string, double, bool>> number(std::string_view word) {
    std::string digits;
    for (size_t i = 0; i < word.size(); ++i) {
      const bool between = i > 0 && i + 1 < word.size() && std::isdigit(static_cast<unsigned char>(word[i - 1])) &&
                           std::isdigit(static_cast<unsigned char>(word[i + 1]));
      if (word[i] == '_' && between) continue;
      digits += word[i];
    }
    const char* first = digits.c_str();
    if (*first == '+') ++first;
    double number = 0;
    const auto [end, code] = std::from_chars(first, digits.c_str() + digits.size(), number);
    if (code != std::errc() || end != digits.c_str() + digits.size() || !std::isfinite(number)) {
      return error("a value is a \"string\", a number, true or false");
    }
    return std::variant<std::string, double, bool>(number);
  }

  std::string_view rest_;
  int number_;
};

Status parse_line(std::string_view text, int number, std::string& section, std::vector<SettingEntry>& entries,
                  std::set<std::string>& seen) {
  Line line(text, number);
  if (line.at_end()) return {};
  if (line.take('[')) {
    if (line.take('[')) return line.error("lists of tables are not supported");
    auto name = line.dotted_key();
    if (!name) return std::unexpected(name.error());
    if (!line.take(']')) return line.error("the closing ] is missing");
    if (!line.at_end()) return line.error("nothing may follow a [section]");
    section = *name;
    return {};
  }
  auto key = line.key();
  if (!key) return std::unexpected(key.error());
  line.skip_blanks();
  if (!line.take('=')) return line.error("= is expected after " + *key);
  auto value = line.value();
  if (!value) return std::unexpected(value.error());
  if (!line.at_end()) return line.error("nothing may follow the value of " + *key);
  std::replace(key->begin(), key->end(), '-', '_');
  if (!seen.insert(section + "." + *key).second) return line.error(*key + " is set twice");
  entries.push_back({section, std::move(*key), std::move(*value), number});
  return {};
}

}  // namespace

Result<std::vector<SettingEntry>> parse_settings(std::string_view text) {
  if (text.size() > kMaxSettingsBytes) return fail("line 1: the file is larger than 64 KiB");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<SettingEntry> entries;
  std::set<std::string> seen;
  std::string section;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool control = std::any_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 32 && c != '\t'; });
    if (control) return fail("line " + std::to_string(number) + ": control characters are not allowed");
    if (Status status = parse_line(line, number, section, entries, seen); !status) return std::unexpected(status.error());
  }
  return entries;
}

}  // namespace stepscope
