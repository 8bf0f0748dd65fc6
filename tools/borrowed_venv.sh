#!/bin/sh
# Makes a virtual environment that imports torch from the project's own, and nothing else that would be in the way.
#
#   tools/borrowed_venv.sh FOLDER     FOLDER/constraints.txt then pins that torch for pip; a venv that is there is kept
#
# STEPSCOPE_VENV (or .venv) must hold torch; it is borrowed, never changed.
set -eu
cd "$(dirname "$0")/.."

HOME_PYTHON=$(realpath -s "${STEPSCOPE_VENV:-.venv}/bin/python")
VENV=$(realpath -ms "$1")
PY="$VENV/bin/python"

if [ ! -x "$PY" ]; then
  echo "borrowed_venv: making $VENV" >&2
  "$HOME_PYTHON" -m venv "$VENV"
fi
SITE=$("$PY" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Every folder from which the project's environment imports: torch may be borrowed there as well.
"$HOME_PYTHON" -c 'import os, torch, sysconfig
for p in dict.fromkeys([sysconfig.get_path("purelib"), os.path.dirname(os.path.dirname(torch.__file__))]): print(p)' >"$SITE/of_the_project.pth"
# A borrowed torch brings no commands.
printf '#!/bin/sh\nexec "%s" -m torch.distributed.run "$@"\n' "$PY" >"$VENV/bin/torchrun"
chmod +x "$VENV/bin/torchrun"

TORCH=$("$PY" -c 'from importlib.metadata import version; print(version("torch"))')  # torch.__version__ may have a local part
printf 'torch==%s\n' "$TORCH" >"$VENV/constraints.txt"
