#!/bin/sh
# Asks clang-tidy (.clang-tidy) about C++ sources: those that differ from main, the sources of headers that do with them, or
# all with LINT_ALL=1. Exit code 1 where it finds something. Tests, benchmarks and fuzzers are left out: their frameworks'
# macros are what it would speak of. The version is pinned: others find other things.
cd "$(dirname "$0")/.." || exit 2
bin="${STEPSCOPE_VENV:-.venv}/bin"
tool="$bin/clang-tidy"
[ -x "$tool" ] || "$bin/python" -m pip install --quiet --disable-pip-version-check -r tools/lint_requirements.txt || exit 2

if [ -n "${LINT_ALL:-}" ]; then
  changed=$(find src -name '*.cc')
else
  base=$(git merge-base HEAD "${LINT_BASE:-main}" 2>/dev/null || git rev-parse HEAD)
  [ "$base" = "$(git rev-parse HEAD)" ] && base=$(git rev-parse HEAD~1 2>/dev/null || echo "$base")  # on main: its newest commit
  changed=$( (git diff --name-only "$base" -- src; git ls-files --others --exclude-standard -- src) | while read -r file; do
    source="${file%.h}.cc"
    if [ "$source" = "$file" ] || [ -f "$source" ]; then echo "$source"
    else  # a header without a source of its name: the first that includes it
      grep -rlF --include='*.cc' --exclude='*_test.cc' --exclude='*_bench.cc' --exclude='*_fuzz.cc' "\"${file#src/}\"" src | sort | head -1
    fi
  done | sort -u)
fi
files=""
for file in $changed; do
  case "$file" in
    *_test.cc | *_bench.cc | *_fuzz.cc | */fake_*.cc) ;;
    *.cc) [ -f "$file" ] && files="$files $file" ;;
  esac
done
[ -z "$files" ] && exit 0

mkdir -p build
cmake --preset dev >build/cmake-dev.log 2>&1 || { cat build/cmake-dev.log; exit 2; }
# Headers that the build makes.
cmake --build --preset dev --target generated_headers >build/tidy-headers.log 2>&1 || { cat build/tidy-headers.log; exit 2; }
# shellcheck disable=SC2086
printf '%s\n' $files | xargs -P "${JOBS:-$(nproc)}" -n 6 nice "$tool" -p build/dev --quiet --warnings-as-errors='*' 2>build/tidy.log || {
  grep -v ' warnings\? generated' build/tidy.log
  echo "lint: clang-tidy is not content (.clang-tidy says what it asks)"
  exit 1
}
