#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/python_env.h"
#include "cli/settings_here.h"
#include "cli/verbs.h"
#include "tables/csv.h"
#include "tables/run_tables.h"

namespace stepscope {
namespace {

// `-c` puts the current folder first on sys.path. The package is beside this binary, where the interpreter is not its
// own.
constexpr const char* kBootstrap =
    "import sys; sys.path[:] = [p for p in sys.path if p]; sys.path.append(sys.argv.pop(1)); from stepscope._export "
    "import main; "
    "sys.exit(main(sys.argv[1:]))";

bool is_table(const std::string& name) {
  return std::ranges::any_of(tables::run_tables(), [&](const tables::TableInfo& t) { return t.name == name; });
}

// "" = not one that we know.
std::string format_by_name(const std::string& file) {
  for (const char* format : {"parquet", "arrow", "csv"})
    if (file.ends_with(std::string(".") + format)) return format;
  return file.ends_with(".feather") ? "arrow" : "";
}

struct Target {
  std::string table, file;  // file: "" = stdout
};

std::vector<Target> targets_of(const ExportVerb& verb, const std::string& format) {
  if (verb.table != "all") return {{verb.table, verb.output}};
  std::vector<Target> out;
  for (const tables::TableInfo& table : tables::run_tables())
    out.push_back({std::string(table.name), path_join(verb.output, std::string(table.name) + "." + format)});
  return out;
}

Status write_rows(tables::BatchSource& source, int fd, const std::string& where) {
  if (Status status = write_all(fd, tables::csv_head(source.fields()), where); !status) return status;
  for (;;) {
    auto batch = source.next();
    if (!batch) return std::unexpected(batch.error());
    if (!*batch) return {};
    if (Status status = write_all(fd, tables::csv_rows(source.fields(), **batch), where); !status) return status;
  }
}

// The file is there whole or not at all.
Status write_csv_file(tables::BatchSource& source, const std::string& path) {
  const std::string part = path + "." + std::to_string(::getpid()) + ".part";
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return fail(path + ": " + errno_text(errno));
  Status status = write_rows(source, fd.get(), path);
  if (status && ::rename(part.c_str(), path.c_str()) != 0) status = fail(path + ": " + errno_text(errno));
  if (!status) ::unlink(part.c_str());
  return status;
}

int export_csv(const std::string& run_file, const std::vector<Target>& targets) {
  const auto damage = std::make_shared<tables::Damage>();
  for (const Target& target : targets) {
    auto opened = tables::open_table(run_file, target.table, damage);
    if (!opened) return say(opened.error().message), kExitUsage;
    const Status status = target.file.empty() ? write_rows(*opened->source, STDOUT_FILENO, "stdout")
                                              : write_csv_file(*opened->source, target.file);
    if (!status) return say(status.error().message), 1;
    if (!target.file.empty()) say("written: " + target.file);
  }
  if (const uint64_t pieces = damage->pieces)
    say(std::to_string(pieces) + " damaged pieces are left out: " + *damage->first.load());
  return 0;
}

// This process becomes the interpreter that writes the files.
int export_by_python(const ExportVerb& verb, const std::string& format, const std::string& run_file,
                     const std::vector<Target>& targets) {
  const std::string binary = own_binary_path();
  const std::string python = verb.python.empty() ? find_python(binary) : verb.python;
  const std::string inject = find_inject_folder(binary, from_environment("STEPSCOPE_PYTHON_DIR").value_or(""));
  if (inject.empty()) return say("the Python part of stepscope was not found beside its binary"), 1;
  std::vector<std::string> words = {python, "-c", kBootstrap, path_join(inject, "../.."), format, run_file};
  for (const Target& target : targets) words.insert(words.end(), {target.table, target.file});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return say(python + ": " + errno_text(errno)), 1;
}

}  // namespace

int verb_export(const ExportVerb& verb) {
  const std::string run_file = is_dir(verb.path) ? path_join(verb.path, "run.db") : verb.path;
  const std::string by_name = format_by_name(verb.output);
  const std::string format = !verb.format.empty() ? verb.format : by_name.empty() ? "csv" : by_name;
  if (verb.table != "all" && !is_table(verb.table)) {
    const auto known = tables::fields_of(verb.table);
    return say(known.error().message + ", all"), kExitUsage;
  }
  if (verb.output.empty() && (format != "csv" || verb.table == "all")) {
    const std::string what = verb.table == "all" ? "all tables go into a folder" : format + " goes into a file";
    return say(what + ": name it with --output"), kExitUsage;
  }
  if (const auto reader = RunReader::open(run_file); !reader) return say(reader.error().message), kExitUsage;
  if (verb.table == "all")
    if (Status status = make_dirs(verb.output); !status) return say(status.error().message), 1;
  const std::vector<Target> targets = targets_of(verb, format);
  return format == "csv" ? export_csv(run_file, targets) : export_by_python(verb, format, run_file, targets);
}

}  // namespace stepscope
