#!/bin/bash
# Writes the whole pages of tests/golden anew from what the views print now; read `git diff tests/golden` before a
# commit. Usage: tools/renew_golden.sh [build folder, default build/dev]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/dev}
cmake --build "$build" --target report_test tui_test
STEPSCOPE_RENEW_GOLDEN=1 "$build/report_test" --gtest_filter='*GoldenTest*' --gtest_brief=1
STEPSCOPE_RENEW_GOLDEN=1 "$build/tui_test" --gtest_filter='*AsItWas*' --gtest_brief=1
git status --short tests/golden
