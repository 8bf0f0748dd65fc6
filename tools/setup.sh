#!/bin/sh
# Installs what is missing, and nothing else: Debian packages, a virtual environment with torch, test requirements.
#
#   tools/setup.sh [--fuzz]     --fuzz: clang for `make fuzz` and `make fuzz-coverage` as well
#
# STEPSCOPE_VENV names an environment that has torch: it is used as it is (only small build and test requirements are
# added where missing). Otherwise .venv is made with python3; where that python3 already has torch, it is borrowed from
# there, else it comes from the package index that pip is configured for.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

PACKAGES="cmake ninja-build ccache nlohmann-json3-dev libcli11-dev libfmt-dev libtomlplusplus-dev libsqlite3-dev
  libzstd-dev libxxhash-dev libboost1.81-dev libgtest-dev librapidcheck-dev libbenchmark-dev tmux"
[ "${1:-}" = "--fuzz" ] && PACKAGES="$PACKAGES clang-22 libclang-rt-22-dev llvm-22"
command -v g++ >/dev/null 2>&1 || PACKAGES="$PACKAGES g++"
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null 2>&1 || die "no $PYTHON: install Python 3.10 or newer"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "$("$PYTHON" --version) is too old: 3.10 or newer is needed"
# Debian's own Python comes in parts.
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || PACKAGES="$PACKAGES python3-venv"
"$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
  PACKAGES="$PACKAGES python3-dev"

install_packages() {
  missing=""
  for package in $PACKAGES; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  if [ "$(id -u)" = 0 ]; then as_root=""
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo"
  else die "missing packages, and no right to install them. Run as root: apt-get install$missing"; fi
  say "installing$missing"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  # Package lists may be absent or old: the second try comes after an update.
  # shellcheck disable=SC2086
  $as_root apt-get install -y -q -o DPkg::Lock::Timeout=300 --no-install-recommends $missing >"$log" 2>&1 ||
    { $as_root apt-get update -q >>"$log" 2>&1 && $as_root apt-get install -y -q -o DPkg::Lock::Timeout=300 --no-install-recommends $missing >>"$log" 2>&1; } ||
    { tail -n 20 "$log" >&2; rm -f "$log"; die "apt-get could not install$missing"; }
  rm -f "$log"
}

if command -v dpkg-query >/dev/null 2>&1; then
  install_packages
else
  for tool in cmake ninja; do command -v "$tool" >/dev/null 2>&1 || die "not Debian, and $tool is missing: install the equivalents of $(echo $PACKAGES)"; done
fi

VENV=${STEPSCOPE_VENV:-.venv}
IN_VENV="$VENV/bin/python"
has() { "$IN_VENV" -c "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))" "$@"; }
pip_install() { "$IN_VENV" -m pip install --quiet --disable-pip-version-check "$@"; }

if [ -n "${STEPSCOPE_VENV:-}" ]; then
  [ -x "$IN_VENV" ] || die "STEPSCOPE_VENV=$STEPSCOPE_VENV has no bin/python"
  "$IN_VENV" -c 'import torch' 2>/dev/null || die "STEPSCOPE_VENV=$STEPSCOPE_VENV cannot import torch"
elif [ ! -x "$IN_VENV" ]; then
  say "making $VENV"
  "$PYTHON" -m venv "$VENV"
fi

if ! has torch; then
  home=$("$PYTHON" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null || true)
  if [ -n "$home" ]; then
    say "using the torch of $PYTHON ($home)"
    echo "$home" >"$("$IN_VENV" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_$(basename "$PYTHON").pth"
  else
    say "installing torch and numpy into $VENV (a large download)"
    pip_install torch numpy || die "pip could not install torch"
  fi
fi
if [ ! -e "$VENV/.stepscope-torch-works" ]; then
  "$IN_VENV" -c 'import torch' || die "torch cannot be imported in $VENV"
  [ -n "${STEPSCOPE_VENV:-}" ] || : >"$VENV/.stepscope-torch-works"
fi
has numpy || pip_install numpy || die "pip could not install numpy"
has scikit_build_core || pip_install "scikit-build-core>=0.10" || die "pip could not install scikit-build-core"
has pytest xdist hypothesis jsonschema pyarrow ipykernel nbclient || pip_install -r tests/requirements.txt || die "pip could not install the test requirements"
