#include "cli/settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <unistd.h>

#include "base/file.h"
#include "cli/settings_file.h"

namespace stepscope {
namespace {

Lookup from(std::map<std::string, std::string> values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string error_of(const std::string& text) {
  const auto entries = parse_settings(text);
  return entries ? "" : entries.error().message;
}

TEST(SettingsFile, ReadsEveryKindOfValue) {
  const auto entries = parse_settings(
      "\xef\xbb\xbf# comment\r\n a = \"x \\\"y\\\" \\\\ \\n\\t\" # more\nb-c='C:\\raw'\n[s.t]\nd = 1_000\ne = "
      "-2.5e-3\nf=true\ng = +7\n\n");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 6u);
  EXPECT_EQ(std::get<std::string>((*entries)[0].value), "x \"y\" \\ \n\t");
  EXPECT_EQ((*entries)[1].key, "b_c");
  EXPECT_EQ(std::get<std::string>((*entries)[1].value), "C:\\raw");
  EXPECT_EQ((*entries)[2].section, "s.t");
  EXPECT_EQ(std::get<double>((*entries)[2].value), 1000);
  EXPECT_EQ(std::get<double>((*entries)[3].value), -0.0025);
  EXPECT_EQ(std::get<bool>((*entries)[4].value), true);
  EXPECT_EQ(std::get<double>((*entries)[5].value), 7);
  EXPECT_EQ((*entries)[5].line, 8);
}

TEST(SettingsFile, TablesWithinTablesAreSections) {
  const auto entries = parse_settings("run = {mode = 'cli'}\nthresholds.warn_share = 0.1\n[a.b]\nc = 1\n");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].section + "/" + (*entries)[0].key, "run/mode");
  EXPECT_EQ((*entries)[1].section + "/" + (*entries)[1].key, "thresholds/warn_share");
  EXPECT_EQ((*entries)[2].section + "/" + (*entries)[2].key, "a.b/c");
}

TEST(SettingsFile, RefusesWithALineNumber) {
  const std::pair<const char*, const char*> cases[] = {
      {"a", "line 1: "},
      {"\n\na = ", "line 3: "},
      {"\na = 'x", "line 2: "},
      {"a = \"x\\q\"", "line 1: "},
      {"a = 1 2", "line 1: "},
      {"a = 1__0", "line 1: "},
      {"a = 1\na = 2", "line 2: "},
      {"\n[s", "line 2: "},
      {"[]", "line 1: "},
      {"= 1", "line 1: "},
      {"a = 1\x01", "line 1: "},
      {"\na = [1]", "line 2: a must be a \"string\", a number, true or false"},
      {"[[s]]", "line 1: s must be a \"string\", a number, true or false"},
      {"a = 2020-01-01", "line 1: a must be a \"string\", a number, true or false"},
      {"a = nan", "line 1: a must be a \"string\", a number, true or false"},
      {"a-b = 1\na_b = 2", "line 2: a_b is set twice"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(error_of(text).substr(0, std::string_view(message).size()), message) << text << ": " << error_of(text);
    EXPECT_EQ(error_of(text).find('\n'), std::string::npos) << text;
  }
  EXPECT_EQ(error_of(std::string(kMaxSettingsBytes + 1, ' ')), "line 1: the file is larger than 64 KiB");
}

TEST(SettingsFile, AnyTextIsReadOrRefused) {
  rc::check([](const std::string& text) {
    const auto entries = parse_settings(text);
    if (!entries) RC_ASSERT(entries.error().message.starts_with("line "));
  });
}

TEST(Settings, FlagOverEnvironmentOverFileOverDefault) {
  const std::string file = "mode = 'dashboard'\ninterval = 5\nrun_name = \"f\"\n[thresholds]\nwarmup_steps = 7\n";
  const auto all = resolve_settings(from({{"mode", "cli"}}),
                                    from({{"STEPSCOPE_MODE", "summary"}, {"STEPSCOPE_INTERVAL", "3"}}), "x.toml", file);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->settings.mode, "cli");
  EXPECT_EQ(all->settings.interval_s, 3);
  EXPECT_EQ(all->settings.run_name, "f");
  EXPECT_EQ(all->settings.logs_dir, "logs");
  EXPECT_EQ(all->settings.thresholds.at("warmup_steps"), 7);
}

TEST(Settings, ErrorsNameTheirSource) {
  const auto none = from({});
  EXPECT_EQ(resolve_settings(from({{"interval", "0"}}), none, "", "").error().message,
            "--interval must be seconds from 0.1 to 3600");
  EXPECT_EQ(resolve_settings(from({{"run_name", "a/b"}}), none, "", "").error().message.substr(0, 18),
            "--run-name must be");
  EXPECT_EQ(resolve_settings(none, from({{"STEPSCOPE_DISABLE", "maybe"}}), "", "").error().message,
            "STEPSCOPE_DISABLE must be 1 or 0");
  EXPECT_EQ(resolve_settings(none, none, "/x/stepscope.toml", "\nhtml_report = 3").error().message,
            "/x/stepscope.toml: line 2: html_report must be 1 or 0");
  const auto warned = resolve_settings(none, none, "t", "colour = 1\n[other]\nmode = 'cli'");
  ASSERT_TRUE(warned);
  EXPECT_EQ(warned->warnings.size(), 2u);
  EXPECT_EQ(warned->settings.mode, "summary");
}

TEST(Settings, ThresholdsAreSetByFlagOverEnvironmentOverFile) {
  const std::string file = "[thresholds]\nwarn_share = 0.1\ngpu_hot_c = 60\npause-min-ms = 7\nmin_steps = 9\n";
  const auto all = resolve_settings(from({{"set", "warn_share=0.3,crit_share=0.4"}}),
                                    from({{"STEPSCOPE_SET", "warn_share=0.2,gpu_hot_c=70"}}), "x.toml", file);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->settings.thresholds,
            (std::map<std::string, double>{
                {"warn_share", 0.3}, {"crit_share", 0.4}, {"gpu_hot_c", 70}, {"pause_min_ms", 7}, {"min_steps", 9}}));
}

TEST(Settings, ThresholdsThatDoNotExistOrAreOutOfRangeAreRefused) {
  const auto none = from({});
  const std::pair<const char*, const char*> flags[] = {
      {"warn_shar=0.1", "--set refused: no threshold is called 'warn_shar'; the nearest is warn_share"},
      {"warn_share=1.5", "--set refused: warn_share must be a share from 0 to 1, between 0 and 1 (default 0.05)"},
      {"straggler_block_steps=0", "--set refused: straggler_block_steps must be a number of steps, between 1 and"},
      {"warn_share", "--set expects NAME=VALUE with a number, not 'warn_share'"},
      {"warn_share=x", "--set expects NAME=VALUE with a number, not 'warn_share=x'"},
      {"=1", "--set expects NAME=VALUE with a number, not '=1'"},
      {"warn_share=0.1,", "--set expects NAME=VALUE with a number, not ''"},
      {"warn_share=nan", "--set refused: warn_share must be"},
  };
  for (const auto& [text, message] : flags) {
    const auto refused = resolve_settings(from({{"set", text}}), none, "", "");
    ASSERT_FALSE(refused) << text;
    EXPECT_TRUE(refused.error().message.starts_with(message)) << refused.error().message;
  }
  const auto file = resolve_settings(none, none, "x.toml", "[thresholds]\nwarn_shar = 0.1\n");
  ASSERT_FALSE(file);
  EXPECT_TRUE(
      file.error().message.starts_with("x.toml: line 2: no threshold is called 'warn_shar'; the nearest is warn_share"))
      << file.error().message;
  const auto large = resolve_settings(none, none, "x.toml", "[thresholds]\nwarn_share = 2\n");
  ASSERT_FALSE(large);
  EXPECT_TRUE(large.error().message.starts_with("x.toml: line 2: warn_share must be")) << large.error().message;
}

TEST(Settings, CompatIsTracemlOrNothing) {
  const auto none = from({});
  EXPECT_EQ(resolve_settings(none, none, "", "")->settings.compat, "");
  EXPECT_EQ(resolve_settings(none, from({{"STEPSCOPE_COMPAT", "traceml"}}), "", "")->settings.compat, "traceml");
  const auto off = resolve_settings(from({{"compat", "none"}}), from({{"STEPSCOPE_COMPAT", "traceml"}}), "", "");
  EXPECT_EQ(off->settings.compat, "");
  EXPECT_EQ(resolve_settings(none, none, "t", "compat = 'traceml'")->settings.compat, "traceml");
  const auto other = resolve_settings(from({{"compat", "wandb"}}), none, "", "");
  EXPECT_EQ(other.error().message, "--compat must be traceml or none");
}

TEST(Settings, VariablesOfTracemlCountUnderCompatAndBelowOurs) {
  std::map<std::string, std::string> variables = {{"STEPSCOPE_INTERVAL", "3"},      {"TRACEML_INTERVAL", "5"},
                                                  {"TRACEML_LOGS_DIR", "l"},        {"TRACEML_SESSION_ID", "s"},
                                                  {"TRACEML_UI_MODE", "dashboard"}, {"TRACEML_DISABLED", ""},
                                                  {"TRACEML_ENABLE_LOGGING", "1"}};
  const auto off = resolve_settings(from({}), from(variables), "", "");
  EXPECT_EQ(off->settings.logs_dir, "logs");
  EXPECT_EQ(off->settings.mode, "summary");
  const auto on = resolve_settings(from({{"compat", "traceml"}}), from(variables), "", "");
  ASSERT_TRUE(on) << on.error().message;
  EXPECT_EQ(on->settings.interval_s, 3);
  EXPECT_EQ(on->settings.logs_dir, "l");
  EXPECT_EQ(on->settings.run_name, "s");
  EXPECT_EQ(on->settings.mode, "dashboard");
  EXPECT_FALSE(on->settings.disable);
  EXPECT_TRUE(on->settings.keep_rings);
  variables = {{"STEPSCOPE_COMPAT", "traceml"}, {"TRACEML_INTERVAL", "x"}};
  const auto bad = resolve_settings(from({}), from(variables), "", "");
  EXPECT_EQ(bad.error().message, "TRACEML_INTERVAL must be seconds from 0.1 to 3600");
}

TEST(Settings, RunNamesAreOnePlainPathComponent) {
  rc::check([](const std::string& name) {
    const auto resolved = resolve_settings(from({{"run_name", name}}), from({}), "", "");
    if (!resolved) return;
    RC_ASSERT(!name.empty() && name.find('/') == std::string::npos && name[0] != '.' && name[0] != '-');
  });
}

TEST(Settings, FileIsFoundInTheNearestParent) {
  char name[] = "/tmp/stepscope-settings-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  ASSERT_TRUE(make_dirs(folder + "/a/b"));
  const std::string above = is_file("/tmp/stepscope.toml") ? "/tmp/stepscope.toml" : "";
  EXPECT_EQ(find_settings_file(folder + "/a/b", ::geteuid()).path, above);
  ASSERT_TRUE(write_file_atomic(folder + "/stepscope.toml", ""));
  EXPECT_EQ(find_settings_file(folder + "/a/b", ::geteuid()).path, folder + "/stepscope.toml");
  ASSERT_TRUE(write_file_atomic(folder + "/a/b/stepscope.toml", ""));
  EXPECT_EQ(find_settings_file(folder + "/a/b", ::geteuid()).path, folder + "/a/b/stepscope.toml");
  remove_flat_dir(folder + "/a/b");
  remove_flat_dir(folder + "/a");
  remove_flat_dir(folder);
}

TEST(Settings, FilesOfOtherUsersAreLeftAlone) {
  char name[] = "/tmp/stepscope-settings-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const std::string file = folder + "/stepscope.toml";
  ASSERT_TRUE(make_dirs(folder + "/a"));
  ASSERT_TRUE(write_file_atomic(file, ""));
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  auto found = find_settings_file(folder + "/a", ::geteuid());
  EXPECT_NE(found.path, file);
  ASSERT_FALSE(found.refused.empty());
  EXPECT_EQ(found.refused[0], file + " is left alone: everybody may write to it");
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  EXPECT_EQ(find_settings_file(folder + "/a", ::geteuid()).path, file);
  if (::geteuid() == 0) {  // only root can make files of others
    constexpr uid_t kAda = 4711, kBob = 4712;
    ASSERT_EQ(::chown(file.c_str(), kBob, static_cast<gid_t>(-1)), 0);
    found = find_settings_file(folder + "/a", kAda);
    EXPECT_NE(found.path, file);
    ASSERT_FALSE(found.refused.empty());
    EXPECT_EQ(found.refused[0], file + " is left alone: it belongs to another user");
    EXPECT_EQ(find_settings_file(folder + "/a", kBob).path, file);
    ASSERT_EQ(::chown((folder + "/a").c_str(), kBob, static_cast<gid_t>(-1)), 0);
    EXPECT_EQ(find_settings_file(folder + "/a", kAda).path, file) << "a checkout of theirs, used on purpose";
  }
  ::unlink(file.c_str());
  remove_flat_dir(folder + "/a");
  remove_flat_dir(folder);
}

TEST(Settings, AdviceThatIsNotWanted) {
  const auto none = from({});
  auto resolved = resolve_settings(none, none, "f", "[advice]\nsilence = \"batchnorm, set-epoch,\"\n");
  ASSERT_TRUE(resolved) << resolved.error().message;
  EXPECT_EQ(resolved->settings.silence, (std::vector<std::string>{"batchnorm", "set_epoch"}));
  EXPECT_TRUE(resolved->warnings.empty());
  resolved = resolve_settings(none, from({{"STEPSCOPE_SILENCE", "all"}}), "f", "silence = \"batchnorm\"\n");
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->settings.silence, std::vector<std::string>{"all"}) << "the environment wins, nothing is added up";
  resolved = resolve_settings(none, none, "f", "[advice]\nmode = \"cli\"\n");
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->warnings.size(), 1u) << "only silence belongs there";
}

TEST(Settings, Flops) {
  const auto none = from({});
  auto resolved = resolve_settings(from({{"flops_per_step", "3.2e12"}, {"peak_flops", "312e12"}}), none, "f", "");
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->settings.flops_per_step, 3.2e12);
  EXPECT_EQ(resolved->settings.peak_flops, 312e12);
  for (const char* bad : {"-1", "x", "1e40", "nan", "3 T"})
    EXPECT_FALSE(resolve_settings(from({{"flops_per_step", bad}}), none, "f", "")) << bad;
}

}  // namespace
}  // namespace stepscope
