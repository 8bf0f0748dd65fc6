#!/bin/sh
# A launch script as people keep them: sets variables, picks a count, starts torchrun with what it was given.
set -eu
cd "$(dirname "$0")"
RANKS=${RANKS:-2}
export OMP_NUM_THREADS=1
python3 -c 'print("preparing")'
torchrun --standalone --nproc-per-node "$RANKS" launched.py "$@"
status=$?
echo "training left with $status"
exit $status
