#!/bin/sh
# The demonstration behind `make demo`: a real training on two processes with a straggler hidden in backward; the
# verdict; then the same training without the fault, and the range that was predicted beside the saving that came.
set -eu
cd "$(dirname "$0")/.."
VENV=${STEPSCOPE_VENV:-.venv}
STEPSCOPE=$VENV/bin/stepscope
LOGS=build/demo
STEPS=${DEMO_STEPS:-150}
export OMP_NUM_THREADS=1  # two ranks on a small machine; torchrun would say so at length
[ -x "$STEPSCOPE" ] || { echo "demo: $STEPSCOPE is not built; run make demo" >&2; exit 1; }
rm -rf "$LOGS" && mkdir -p "$LOGS"

train() {  # name, options of the script; the training's own output goes to a file
  name=$1; shift
  "$STEPSCOPE" run --run-name "$name" --logs-dir "$LOGS" -- \
    "$VENV/bin/python" -m torch.distributed.run --standalone --nproc-per-node 2 examples/demo_straggler.py --steps "$STEPS" "$@" \
    >"$LOGS/$name.out"
}

printf '\n$ stepscope run -- torchrun --nproc-per-node 2 examples/demo_straggler.py\n\n'
train straggler
printf '\nNow the same training without the fault (--fix) ...\n'
train fixed --fix 2>"$LOGS/fixed.err" || { cat "$LOGS/fixed.err" >&2; exit 1; }

"$VENV/bin/python" tools/demo_saving.py "$LOGS"
printf 'Both runs in the browser:\n\n    %s serve %s\n\n' "$STEPSCOPE" "$LOGS"
