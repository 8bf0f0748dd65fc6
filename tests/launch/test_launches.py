"""The launch tests' own promise: nothing stays alive behind a test."""

from __future__ import annotations

from launches import Launch, wait_for


def test_what_outlives_its_launcher_is_ended(tmp_path):
    launch = Launch(tmp_path)
    launch.run(
        "run",
        "--run-name",
        "r",
        launch.script("""
        import subprocess
        subprocess.Popen(["sleep", "300"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    """),
    )
    assert len(launch.mark.alive()) == 1
    launch.close()
    wait_for(lambda: not launch.mark.alive(), what="the process to go")
