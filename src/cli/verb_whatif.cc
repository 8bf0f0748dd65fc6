#include <unistd.h>

#include <string>

#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/verbs.h"
#include "replay/slowdown.h"
#include "report/whatif_view.h"

namespace stepscope {
namespace {

constexpr size_t kMaxTraceBytes = 1u << 30;

Result<replay::Slowdown> judge(const std::string& path) {
  auto text = read_file(path, kMaxTraceBytes + 1);
  if (!text) return std::unexpected(text.error());
  if (text->size() > kMaxTraceBytes) return fail(path + ": larger than 1 GiB");
  const auto rows = replay::parse_trace_csv(*text, path);
  if (!rows) return std::unexpected(rows.error());
  const auto trace = replay::make_op_trace(*rows, path);
  if (!trace) return std::unexpected(trace.error());
  return replay::judge_slowdown(*trace, path);
}

}  // namespace

int verb_whatif(const WhatifVerb& verb) {
  const auto slowdown = judge(verb.trace);
  if (!slowdown) return say(slowdown.error().message), kExitUsage;
  TextOptions options;
  options.color = ::isatty(STDOUT_FILENO);
  const std::string text = verb.json ? whatif_json(*slowdown, verb.trace) : whatif_text(*slowdown, verb.trace, options);
  return write_all(STDOUT_FILENO, text, "stdout") ? 0 : 1;
}

}  // namespace stepscope
