"""What watching costs on a GPU: arms interleaved, whole processes, ratio of step time to the bare arm with its spread.

    python tests/gpu/real_overhead.py [--gpus N] [--rounds 4] [--one-queue]     # about 10 s per arm and round and size
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

import real
from real import train

# name: arguments that give a step of about 1.5, 10 and 64 ms on an H100
SIZES = {
    "short": ["--layers", "1", "--width", "256", "--batch", "8", "--length", "64", "--steps", "1500"],
    "middle": ["--layers", "6", "--width", "768", "--batch", "16", "--length", "256", "--steps", "400"],
    "long": ["--layers", "12", "--width", "1024", "--batch", "32", "--length", "512", "--steps", "90"],
}
ARMS = {
    "bare": (False, {}),
    "bare_again": (False, {}),
    "stepscope": (True, {}),
    "no_plugin": (True, {"STEPSCOPE_NCCL": "off"}),
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--one-queue", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps(real.versions()), flush=True)
    common = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if arguments.one_queue else {}
    arms = {k: v for k, v in ARMS.items() if arguments.gpus or k != "no_plugin"}
    for size in arguments.sizes.split(","):
        times: dict[str, list[float]] = {arm: [] for arm in arms}
        for round_ in range(arguments.rounds):
            names = list(arms) if round_ % 2 == 0 else list(reversed(arms))
            for arm in names:
                hooked, env = arms[arm]
                out, _, code = train(*SIZES[size], "--timing", ranks=arguments.gpus, hooked=hooked, env={**common, **env})
                line = next((text for text in out.splitlines() if text.startswith("TIMING ")), None)
                if code == 0 and line:
                    times[arm].append(float(line.split()[1]))
        row: dict[str, object] = {"size": size, "gpus": arguments.gpus or 1, "one_queue": arguments.one_queue}
        for arm, values in times.items():
            ratios = [v / b for v, b in zip(values, times["bare"])]
            row[arm] = {
                "step_ms": round(statistics.median(values), 4) if values else None,
                "ratio": round(statistics.median(ratios), 4) if ratios else None,
                "ratios": [round(r, 4) for r in ratios],
            }
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
