#!/bin/sh
# Says which C++ files clang-format would change. Advice only: exit code 0.
cd "$(dirname "$0")/.."
for tool in clang-format-22 clang-format; do command -v "$tool" >/dev/null 2>&1 && break; tool=""; done
if [ -z "$tool" ]; then echo "lint: no clang-format, formatting is not checked"; exit 0; fi
changed=$(find src include -name '*.h' -o -name '*.cc' | xargs "$tool" --dry-run 2>&1 | grep -oE '^[^:]+' | sort -u | wc -l)
echo "lint: $tool would change $changed files (advice)"
