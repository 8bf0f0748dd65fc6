#!/bin/sh
# Does one wheel work on every Python? For each interpreter: an environment of its own with torch from the package index, the
# wheel, its hooks and launch tests, and a real training of two ranks that must be judged right.
#
#   tools/check_pythons.sh WHEEL PYTHON...      environments are kept in build/python-X.Y; one line per Python, exit code 1 if one failed
set -u
cd "$(dirname "$0")/.." || exit 2
WHEEL=${1:?usage: tools/check_pythons.sh WHEEL PYTHON...}
shift
[ -f "$WHEEL" ] || { echo "check_pythons: no wheel $WHEEL (make wheel)" >&2; exit 2; }
[ $# -gt 0 ] || { echo "check_pythons: no interpreter named" >&2; exit 2; }
FAILED=0

check() {  # interpreter
  VERSION=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || return 1
  VENV=build/python-$VERSION
  LOG=build/python-$VERSION.log
  PY=$PWD/$VENV/bin/python
  mkdir -p build && : >"$LOG"
  [ -x "$PY" ] || "$1" -m venv "$VENV" >>"$LOG" 2>&1 || return 1
  "$PY" -c 'import torch, numpy, pytest' 2>>"$LOG" ||
    "$PY" -m pip install --quiet --disable-pip-version-check torch numpy -r tests/requirements.txt >>"$LOG" 2>&1 || return 1
  "$PY" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$WHEEL" >>"$LOG" 2>&1 || return 1
  export STEPSCOPE_BIN="$PWD/$VENV/bin/stepscope" STEPSCOPE_PYTHON="$PY"
  "$PY" -m pytest -q -p no:cacheprovider tests/hooks tests/launch tests/compat -m "not slow" >>"$LOG" 2>&1 || return 1
  STEPSCOPE_VENV=$VENV DEMO_STEPS=60 tools/demo.sh >>"$LOG" 2>&1 || return 1
  SUMMARY=$("$PY" -c 'import platform, torch; print("Python", platform.python_version(), "torch", torch.__version__)')
}

for PYTHON in "$@"; do
  if check "$PYTHON"; then
    echo "$SUMMARY: $(grep -Eo '[0-9]+ passed.*' "$LOG" | tail -n 1), demo right"
  else
    echo "$PYTHON: FAILED, see ${LOG:-above}"
    [ -n "${LOG:-}" ] && tail -n 15 "$LOG"
    FAILED=1
  fi
done
exit $FAILED
