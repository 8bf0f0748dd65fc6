"""Runs a launch command and writes down how it ended: its own exit code, whatever the parent makes of it.

    wrapper.py RECORD.json COMMAND…

Stands between `stepscope run` and the launch command. Signals go on to the command; the wrapper ends as the command did.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    record, command = sys.argv[1], sys.argv[2:]
    signal.signal(signal.SIGINT, lambda *_: None)  # the terminal sends it to the whole group; the command gets its own
    child = subprocess.Popen(command)
    for number in FORWARDED:
        signal.signal(number, lambda n, _: child.send_signal(n))
    rc = child.wait()
    ended = time.monotonic()
    with open(record + ".new", "w") as f:
        json.dump({"rc": rc if rc >= 0 else 128 - rc, "ended": ended, "pid": child.pid}, f)
    os.replace(record + ".new", record)
    if rc >= 0:
        os._exit(rc)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(-rc, signal.SIG_DFL)
    os.kill(os.getpid(), -rc)


main()
