#!/bin/sh
# How much of each decoder its fuzzer's corpus reaches: line coverage, at least 90 % asked of each. After `make fuzz`.
#
#   tools/fuzz_coverage.sh [FOLDER]     FOLDER: corpora, default build/fuzz-corpus
set -eu
cd "$(dirname "$0")/.."
CORPUS=${1:-build/fuzz-corpus}
cmake --preset coverage >build/cmake-coverage.log 2>&1 || { cat build/cmake-coverage.log; exit 1; }
cmake --build --preset coverage -j "${JOBS:-2}" --target ring_reader_fuzz run_file_fuzz column_codec_fuzz settings_fuzz summary_read_fuzz control_channel_fuzz trace_csv_fuzz rank_dump_fuzz >build/build-coverage.log 2>&1 || { tail -n 30 build/build-coverage.log; exit 1; }
failed=0

# decoder FUZZERS FILES…: the corpora of several fuzzers count together
decoder() {
  name=$1 fuzzers=$2
  shift 2
  profiles="" objects=""
  for fuzzer in $fuzzers; do
    LLVM_PROFILE_FILE="build/coverage/$fuzzer.profraw" "build/coverage/$fuzzer" -runs=0 "$CORPUS/$fuzzer" >"build/coverage/$fuzzer.log" 2>&1 ||
      { tail -n 20 "build/coverage/$fuzzer.log"; exit 1; }
    profiles="$profiles build/coverage/$fuzzer.profraw" objects="$objects${objects:+ -object }build/coverage/$fuzzer"
  done
  # shellcheck disable=SC2086
  llvm-profdata-22 merge -sparse -o build/coverage/decoder.profdata $profiles
  # shellcheck disable=SC2086
  percent=$(llvm-cov-22 export -summary-only -instr-profile build/coverage/decoder.profdata $objects "$@" |
    python3 -c 'import json, sys; lines = json.load(sys.stdin)["data"][0]["totals"]["lines"]; print("%.1f of %d" % (lines["percent"], lines["count"]))')
  printf '%-10s %s lines: %s\n' "$name" "${percent%% of*} % of ${percent##* of }" "$*"
  python3 -c 'import sys; sys.exit(float(sys.argv[1]) < 90)' "${percent%% of*}" || failed=1
}

decoder ring "ring_reader_fuzz" src/blackbox/ring_reader.cc src/blackbox/text.cc
decoder run_file "run_file_fuzz column_codec_fuzz" src/store/column_codec.cc src/store/segment.cc src/store/segment_store.cc src/store/run_reader.cc \
  src/store/sample_log.cc src/store/json_lists.cc src/store/run_facts.cc
decoder frames "control_channel_fuzz" src/agent/control_channel.cc src/agent/agent_config.cc
decoder settings "settings_fuzz" src/cli/settings.cc src/cli/settings_file.cc
decoder trace "trace_csv_fuzz" src/replay/trace_csv.cc src/replay/op_trace.cc
decoder dump "rank_dump_fuzz" src/flight/pickle.cc src/flight/rank_dump.cc
decoder summary "summary_read_fuzz" src/report/summary_read.cc
[ "$failed" = 0 ] || { echo "fuzz_coverage: below 90 %"; exit 1; }
echo "fuzz_coverage: every decoder at 90 % or above"
