#!/bin/sh
# Says which C++ files clang-format would change; exit code 1 where there are any. The version is pinned: others format
# otherwise. `make format` changes them.
cd "$(dirname "$0")/.." || exit 2
bin="${STEPSCOPE_VENV:-.venv}/bin"
tool="$bin/clang-format"
"$tool" --version >/dev/null 2>&1 ||
  "$bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps -r tools/lint_requirements.txt || exit 2
files=$(find src include -name '*.h' -o -name '*.cc')
if [ "$1" = --fix ]; then
  # shellcheck disable=SC2086
  exec "$tool" -i $files
fi
# shellcheck disable=SC2086
said=$("$tool" --dry-run $files 2>&1) || { echo "$said" | tail -n 3; exit 2; }
changed=$(echo "$said" | grep -oE '^[^: ]+\.(h|cc):' | sort -u)
[ -z "$changed" ] && exit 0
echo "lint: not formatted (make format does it): $changed"
exit 1
