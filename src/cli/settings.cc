#include "cli/settings.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "agent/aggregator_notes.h"
#include "base/file.h"
#include "cli/settings_file.h"
#include "diagnose/thresholds.h"

namespace stepscope {
namespace {

Status set_mode(Settings& s, const std::string& text) {
  if (text != "summary" && text != "cli" && text != "dashboard") return fail("must be summary, cli or dashboard");
  s.mode = text;
  return {};
}

// A run name is one component of a path and nothing that a shell would look at.
Status set_run_name(Settings& s, const std::string& text) {
  constexpr std::string_view allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  if (text.empty() || text.size() > 128 || text.front() == '.' || text.front() == '-' ||
      text.find_first_not_of(allowed) != std::string::npos) {
    return fail("must be letters, digits, '_', '.' or '-' (at most 128), not beginning with '.' or '-'");
  }
  s.run_name = text;
  return {};
}

Status set_logs_dir(Settings& s, const std::string& text) {
  if (text.empty()) return fail("must name a folder");
  s.logs_dir = text;
  return {};
}

Status set_compat(Settings& s, const std::string& text) {
  if (text != "traceml" && text != "none" && !text.empty()) return fail("must be traceml or none");
  s.compat = text == "traceml" ? text : "";
  return {};
}

// All of the text as one number.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

Status set_interval(Settings& s, const std::string& text) {
  const auto value = number_of(text);
  if (!value || !(*value >= 0.1 && *value <= 3600)) return fail("must be seconds from 0.1 to 3600");
  s.interval_s = *value;
  return {};
}

// Comma-separated causes: "batchnorm, set_epoch".
Status set_silence(Settings& s, const std::string& text) {
  s.silence.clear();
  std::string word;
  for (char c : text + ",") {
    if (c == ' ' || c == '\t') continue;
    if (c != ',')
      word += c == '-' ? '_' : c;
    else if (!word.empty())
      s.silence.push_back(std::exchange(word, ""));
  }
  return {};
}

Status set_flops(double& target, const std::string& text) {
  const auto value = number_of(text);
  if (!value || !(*value >= 0 && *value <= 1e30)) return fail("must be a number, such as 3.2e12");
  target = *value;
  return {};
}
Status set_flops_per_step(Settings& s, const std::string& text) { return set_flops(s.flops_per_step, text); }
Status set_peak_flops(Settings& s, const std::string& text) { return set_flops(s.peak_flops, text); }

Status set_threshold(Settings& s, const std::string& name, double value) {
  if (const auto known = check_threshold(name, value); !known) return fail(known.error().message);
  s.thresholds[name] = value;
  return {};
}

// NAME=VALUE, several separated by commas.
Status set_thresholds(Settings& s, const std::string& text) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    const size_t equals = word.find('=');
    const auto value =
        equals == std::string::npos ? std::nullopt : number_of(std::string_view(word).substr(equals + 1));
    if (!value || equals == 0) return fail("expects NAME=VALUE with a number, not '" + word + "'");
    if (Status status = set_threshold(s, word.substr(0, equals), *value); !status)
      return fail("refused: " + status.error().message);
    at = end + 1;
  }
  return {};
}

Status set_bool(bool& target, const std::string& text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on")
    target = true;
  else if (text.empty() || text == "0" || text == "false" || text == "no" || text == "off")
    target = false;
  else
    return fail("must be 1 or 0");
  return {};
}
Status set_html_report(Settings& s, const std::string& text) { return set_bool(s.html_report, text); }
Status set_keep_rings(Settings& s, const std::string& text) { return set_bool(s.keep_rings, text); }
Status set_disable(Settings& s, const std::string& text) { return set_bool(s.disable, text); }

Status set_port(Settings& s, const std::string& text) {
  const auto value = number_of(text);
  if (!value || !(*value >= 0 && *value <= 65535) || *value != std::floor(*value))
    return fail("must be a port from 0 to 65535 (0: the system chooses)");
  s.port = static_cast<int>(*value);
  return {};
}

// Who knows it may read the run: not guessed, and fit for an address.
Status set_token(Settings& s, const std::string& text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (text.size() < 16 || text.size() > 256 || text.find_first_not_of(allowed) != std::string::npos)
    return fail("must be 16 to 256 letters, digits, - or _");
  s.token = text;
  return {};
}

Status set_stacks(Settings& s, const std::string& text) { return set_bool(s.stacks, text); }
Status set_on_hang(Settings& s, const std::string& text) {
  if (text != "report" && text != "stacks" && text != "abort") return fail("must be report, stacks or abort");
  s.on_hang = text;
  return {};
}
Status set_hang_timeout(Settings& s, const std::string& text) {
  const auto value = number_of(text);
  if (!value || !(*value >= 1 && *value <= 86400)) return fail("must be seconds from 1 to 86400");
  s.hang_timeout_s = *value;
  return {};
}

Status set_aggregator(Settings& s, const std::string& text) {
  if (text != "off") {
    if (const auto place = parse_place(text); !place) return fail(place.error().message + ", or off");
  }
  s.aggregator = text;
  return {};
}
Status set_secret_file(Settings& s, const std::string& text) {
  if (text.empty()) return fail("must name a file");
  s.secret_file = text;
  return {};
}

struct SettingRow {
  const char* name;  // key in stepscope.toml; the flag with dashes
  const char* variable;
  const char* traceml;  // TraceML's variable of that meaning, looked at under compat only; may be null
  Status (*set)(Settings&, const std::string&);
};
constexpr SettingRow kRows[] = {
    {"compat", "STEPSCOPE_COMPAT", nullptr, set_compat},  // first: it decides whether the next column counts
    {"mode", "STEPSCOPE_MODE", "TRACEML_UI_MODE", set_mode},
    {"port", "STEPSCOPE_PORT", nullptr, set_port},
    {"token", "STEPSCOPE_TOKEN", nullptr, set_token},
    {"run_name", "STEPSCOPE_RUN_NAME", "TRACEML_SESSION_ID", set_run_name},
    {"logs_dir", "STEPSCOPE_LOGS_DIR", "TRACEML_LOGS_DIR", set_logs_dir},
    {"interval", "STEPSCOPE_INTERVAL", "TRACEML_INTERVAL", set_interval},
    {"html_report", "STEPSCOPE_HTML_REPORT", "TRACEML_HTML_REPORT", set_html_report},
    {"keep_rings", "STEPSCOPE_KEEP_RINGS", "TRACEML_ENABLE_LOGGING", set_keep_rings},
    {"disable", "STEPSCOPE_DISABLE", "TRACEML_DISABLED", set_disable},
    {"silence", "STEPSCOPE_SILENCE", nullptr, set_silence},
    {"stacks", "STEPSCOPE_STACKS", nullptr, set_stacks},
    {"on_hang", "STEPSCOPE_ON_HANG", nullptr, set_on_hang},
    {"hang_timeout", "STEPSCOPE_HANG_TIMEOUT", nullptr, set_hang_timeout},
    {"flops_per_step", "STEPSCOPE_FLOPS_PER_STEP", nullptr, set_flops_per_step},
    {"peak_flops", "STEPSCOPE_PEAK_FLOPS", nullptr, set_peak_flops},
    {"aggregator", "STEPSCOPE_AGGREGATOR", nullptr, set_aggregator},
    {"secret_file", "STEPSCOPE_SECRET_FILE", nullptr, set_secret_file},
    {"set", "STEPSCOPE_SET", nullptr, set_thresholds},
};

const SettingRow* find_row(const std::string& name) {
  for (const SettingRow& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

std::string as_text(const std::variant<std::string, double, bool>& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, std::get<double>(value));
  return std::string(buffer, result.ptr);
}

Status apply_file(const std::string& path, const std::string& text, ResolvedSettings& result) {
  auto entries = parse_settings(text);
  if (!entries) return fail(path + ": " + entries.error().message);
  for (const SettingEntry& entry : *entries) {
    const std::string place = path + ": line " + std::to_string(entry.line) + ": ";
    const std::string where = place + entry.key;
    if (entry.section == "thresholds") {
      const auto* number = std::get_if<double>(&entry.value);
      if (!number) return fail(where + " must be a number");
      if (Status status = set_threshold(result.settings, entry.key, *number); !status)
        return fail(place + status.error().message);
      continue;
    }
    const bool placed =
        entry.section.empty() || entry.section == "run" || (entry.section == "advice" && entry.key == "silence");
    const SettingRow* row =
        placed && entry.key != "set" ? find_row(entry.key) : nullptr;  // the file has [thresholds] for it
    if (!row) {
      result.warnings.push_back(where + " is not a setting and is left out");
      continue;
    }
    if (Status status = row->set(result.settings, as_text(entry.value)); !status) {
      return fail(where + " " + status.error().message);
    }
  }
  return {};
}

std::string flag_name(const std::string& name) {
  std::string result = "--" + name;
  for (char& c : result) {
    if (c == '_') c = '-';
  }
  return result;
}

}  // namespace

Result<ResolvedSettings> resolve_settings(const Lookup& flag, const Lookup& variable, const std::string& file_path,
                                          const std::string& file_text) {
  ResolvedSettings result;
  if (Status status = apply_file(file_path, file_text, result); !status) return std::unexpected(status.error());
  for (const SettingRow& row : kRows) {
    for (const char* name : {row.traceml, row.variable}) {
      if (!name || (name == row.traceml && result.settings.compat.empty())) continue;
      const auto text = variable(name);
      if (!text || text->empty()) continue;
      const Status status = row.set(result.settings, *text);
      if (!status) return fail(std::string(name) + " " + status.error().message);
    }
    if (auto text = flag(row.name)) {
      if (Status status = row.set(result.settings, *text); !status) {
        return fail(flag_name(row.name) + " " + status.error().message);
      }
    }
  }
  return result;
}

namespace {

// "" when the file may be believed, else why not. Whoever can write to it steers where a run writes and what it says.
std::string distrust(const std::string& path, uid_t user, uid_t owner_of_folder) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return errno_text(errno);
  if (info.st_uid != user && info.st_uid != 0 && info.st_uid != owner_of_folder) return "it belongs to another user";
  return (info.st_mode & S_IWOTH) ? "everybody may write to it" : "";
}

}  // namespace

FoundSettings find_settings_file(const std::string& folder, uid_t user) {
  FoundSettings found;
  struct stat here;
  const uid_t owner = ::stat(folder.c_str(), &here) == 0 ? here.st_uid : user;
  std::string at = folder;
  for (int level = 0; level <= 10 && !at.empty(); ++level) {
    if (const std::string path = path_join(at, "stepscope.toml"); is_file(path)) {
      const std::string why = distrust(path, user, owner);
      if (why.empty()) return found.path = path, found;
      found.refused.push_back(path + " is left alone: " + why);
    }
    const size_t slash = at.rfind('/');
    if (slash == std::string::npos || at == "/") break;
    at = slash == 0 ? "/" : at.substr(0, slash);
  }
  return found;
}

}  // namespace stepscope
