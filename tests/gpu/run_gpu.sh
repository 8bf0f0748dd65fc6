#!/usr/bin/env bash
# Everything that needs real GPUs, from a checkout and a built wheel, on a machine that has torch. No network, no build.
#
#   tests/gpu/run_gpu.sh dist/stepscope-*.whl [run|single|ddp|fsdp|hang|overhead|step_cost|all]     default: all that the GPUs allow
#
# Each part prints one JSON line per check; the last line says how many parts failed. PYTHON names the interpreter; JOBS=a,b limits
# the part `run` to these jobs, KEEP=FOLDER keeps its summaries and black boxes; COST=FLAGS are those of overhead2.
set -u
cd "$(dirname "$0")/../.." || exit 2
PYTHON=${PYTHON:-python3}
WHEEL=${1:?usage: tests/gpu/run_gpu.sh WHEEL [part…]}
shift
GPUS=$("$PYTHON" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
if [ "$GPUS" -eq 0 ]; then
  echo "gpu-test: no GPU that torch can use: skipped"
  exit 0
fi
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
"$PYTHON" -m zipfile -e "$WHEEL" "$FOLDER" || exit 2
chmod +x "$FOLDER"/stepscope-*.data/scripts/stepscope
STEPSCOPE_BIN=$(echo "$FOLDER"/stepscope-*.data/scripts/stepscope)
STEPSCOPE_PYTHON=$("$PYTHON" -c 'import sys; print(sys.executable)')
export STEPSCOPE_BIN STEPSCOPE_PYTHON STEPSCOPE_TEST_PACKAGE="$FOLDER/stepscope" PYTHONPATH="$FOLDER${PYTHONPATH:+:$PYTHONPATH}"
"$PYTHON" -c 'import stepscope._native as n; print("native:", n.__file__)' || exit 2
PARTS=("$@")
if [ ${#PARTS[@]} -eq 0 ] || [ "${PARTS[0]}" = all ]; then
  PARTS=(run single overhead step_cost)
  [ "$GPUS" -ge 2 ] && PARTS=(run exposed single fsdp hang overhead2 one_queue overhead step_cost)
fi
FAILED=0
for part in "${PARTS[@]}"; do
  echo "== $part"
  case $part in
    run) "$PYTHON" tests/gpu/real_run.py --gpus "$GPUS" ${JOBS:+--jobs "$JOBS"} ${KEEP:+--keep "$KEEP"} ;;
    single) "$PYTHON" tests/gpu/real_single.py ;;
    ddp) "$PYTHON" tests/gpu/real_ddp.py --gpus 2 ;;
    ddp4) "$PYTHON" tests/gpu/real_ddp.py --gpus 4 --faults none,backward,host ;;
    exposed) "$PYTHON" tests/gpu/real_ddp.py --gpus 2 --exposed ;;
    fsdp) "$PYTHON" tests/gpu/real_ddp.py --gpus 2 --mode fsdp --faults none,backward,host ;;
    hang) "$PYTHON" tests/gpu/real_hang.py ${KEEP:+--keep "$KEEP"} ;;
    one_queue) "$PYTHON" tests/gpu/real_ddp.py --gpus 2 --one-queue --faults none ;;
    overhead) "$PYTHON" tests/gpu/real_overhead.py && "$PYTHON" tests/gpu/real_overhead.py --one-queue --sizes short ;;
    overhead2) "$PYTHON" tests/gpu/real_overhead.py --gpus 2 ${COST:---sizes short,middle,long} ;;
    step_cost) if [ "$GPUS" -ge 2 ]; then "$PYTHON" bench/step_cost.py gpu gpu_ddp; else "$PYTHON" bench/step_cost.py gpu; fi ;;
    *) echo "unknown part $part"; false ;;
  esac || FAILED=$((FAILED + 1))
done
echo "gpu-test: $FAILED of ${#PARTS[@]} parts failed"
exit $((FAILED > 0))
