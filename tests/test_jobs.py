"""The promises of support/jobs.py, on commands of the shell: nothing stays alive, nothing of what was said is lost or changed."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

import jobs


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


DETACHED = "setsid sleep 300 </dev/null >/dev/null 2>&1 &"


def test_output_is_kept_as_it_came_and_lines_apart() -> None:
    done = jobs.run(sh("printf 'LAB t=1 aLAB t=2 b\\nlast\\r'; printf 'bad \\377' >&2; exit 3"), timeout_s=20)
    assert (done.rc, done.stdout, done.stderr) == (3, "LAB t=1 aLAB t=2 b\nlast\r", "bad \ufffd")
    assert done.lines("LAB t=") == ["LAB t=1 a", "LAB t=2 b"] and not done.timed_out
    with pytest.raises(AssertionError, match="exit 3"):
        done.check()


def test_a_signal_is_told_as_a_shell_tells_it() -> None:
    assert jobs.run(sh("kill -9 $$"), timeout_s=20).rc == 137


def test_a_job_that_takes_too_long_is_ended_with_all_that_came_of_it() -> None:
    job = jobs.Job(sh(f"{DETACHED} env -i sleep 300 & echo up; exec env -i sleep 300"))
    assert job.wait_for("up", 20) and job.mark.alive()
    done = job.finish(0.2)
    assert done.timed_out and done.rc == 137 and "TIMEOUT after 0.2 s" in done.stderr
    assert not job.mark.alive()
    with pytest.raises(ProcessLookupError):
        wait_until_gone(job.process.pid)


def wait_until_gone(group: int) -> None:
    """ProcessLookupError once nobody is in the group; those that cleared their environment were killed through it."""
    for _ in range(200):
        os.killpg(group, 0)
        time.sleep(0.01)


def test_finish_leaves_orphans_to_be_counted_and_bury_ends_them() -> None:
    job = jobs.Job(sh(DETACHED))
    assert job.finish(20).rc == 0
    assert len(job.bury()) == 1 and not job.mark.alive()


def test_an_orphan_that_holds_the_output_open_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "DRAIN_S", 0.2)
    begin = time.monotonic()
    assert jobs.run(sh("echo said; setsid sleep 300 &"), timeout_s=60).stdout == "said\n"
    assert time.monotonic() - begin < 30


def test_a_job_inside_a_job_goes_with_it() -> None:
    code = "import jobs, time; jobs.Job(['sleep', '300']); print('up', flush=True); time.sleep(300)"
    env = jobs.environment(PYTHONPATH=str(Path(jobs.__file__).parent))
    job = jobs.Job([sys.executable, "-c", code], env)
    assert job.wait_for("up", 30) and len(job.mark.alive()) == 2
    job.bury()
    assert not job.mark.alive()


def test_waiting_for_a_line_ends_with_the_job() -> None:
    job = jobs.Job(sh("echo one; echo two >&2"))
    assert not job.wait_for("three", 60)
    assert job.wait_for("one", 0.1) and job.wait_for("two", 0.1)
    job.finish(20)


def test_a_signal_to_the_group_reaches_the_job_and_not_us() -> None:
    job = jobs.Job(sh("sleep 300 & echo up; wait"))
    assert job.wait_for("up", 20)
    job.signal_group(signal.SIGTERM)
    assert job.finish(20).rc == 128 + signal.SIGTERM


def test_nothing_of_an_outer_run_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEPSCOPE_SHM", "RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "NCCL_DEBUG"):
        monkeypatch.setenv(name, "outer")
    assert not {"STEPSCOPE_SHM", "RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID"} & jobs.environment().keys()
    env = jobs.environment("NCCL", RANK="3")
    assert "NCCL_DEBUG" not in env and env["RANK"] == "3" and jobs.environment()["NCCL_DEBUG"] == "outer"


def test_what_is_no_summary_is_none(tmp_path: Path) -> None:
    assert jobs.summary(tmp_path) is None
    (tmp_path / "final_summary.json").write_text("{")
    assert jobs.summary(tmp_path) is None
    (tmp_path / "final_summary.json").write_text('{"a": 1}')
    assert jobs.summary(tmp_path) == {"a": 1}
