#!/bin/sh
# Makes the environments of `make matrix`: torch of the project's own environment with the frameworks in their newest
# versions, and beside it one for each older torch (some 3 GB each).
#
#   tools/setup_matrix.sh FOLDER     FOLDER: a virtual environment, made when it is not there; ../torch-VERSION likewise
#
# STEPSCOPE_VENV (or .venv) must hold torch; it is borrowed, never changed. What cannot be installed is told and left out;
# the matrix then skips its lines.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup_matrix: %s\n' "$*" >&2; }
HOME_PYTHON=$(realpath -s "${STEPSCOPE_VENV:-.venv}/bin/python")
VENV=$(realpath -ms "${1:-build/matrix-venv}")
PY="$VENV/bin/python"

tools/borrowed_venv.sh "$VENV"
has() { "$PY" -c "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m.split('.')[0]) is None for m in sys.argv[1:]))" "$@"; }
# add "modules" requirement…
add() {
  modules=$1
  shift
  # shellcheck disable=SC2086
  has $modules && return 0
  say "installing $*"
  # DeepSpeed's set-up asks nvcc for a list of devices that it then does not need.
  DS_BUILD_OPS=0 TORCH_CUDA_ARCH_LIST=9.0 "$PY" -m pip install --quiet --disable-pip-version-check -c "$VENV/constraints.txt" "$@" ||
    say "$* cannot be installed here: its lines are skipped"
}
add "setuptools wheel" setuptools wheel
add "transformers accelerate" transformers accelerate
add "lightning pytorch_lightning" lightning pytorch_lightning
add "torchdata" torchdata
add "monai ignite" monai pytorch-ignite
add "ray.train" "ray[train]"
add "deepspeed" deepspeed

for version in $(PYTHONPATH=tests/matrix "$HOME_PYTHON" -c 'import cases; print(*cases.OLDER_TORCHES)'); do
  older="$(dirname "$VENV")/torch-$version"
  "$older/bin/python" -c 'import torch' 2>/dev/null && continue
  say "installing torch $version"
  { "$HOME_PYTHON" -m venv "$older" && "$older/bin/python" -m pip install --quiet --disable-pip-version-check "torch==$version" numpy; } ||
    { say "torch $version cannot be installed here: its lines are skipped"; rm -rf "$older"; }
done

if ! command -v mpirun >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing openmpi-bin"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends openmpi-bin; } >"$VENV/apt.log" 2>&1 ||
      say "openmpi-bin cannot be installed here: the mpirun line is skipped"
  else
    say "no mpirun, and no right to install it: its line is skipped"
  fi
fi
