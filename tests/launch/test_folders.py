"""The run's folder: names, rights, loss of the disk, two runs at once; nothing left in shared memory."""

from __future__ import annotations

import os
import stat

TRAIN = "r = FakeRank()\n[r.step(1) for _ in range(10)]\nr.close()\n"


def shm_folders() -> set[str]:
    return {n for n in os.listdir("/dev/shm") if n.startswith(f"stepscope-{os.getuid()}-")}


def test_files_and_their_rights(launch):
    launch.run("run", "--run-name", "r", "--html-report", launch.script(TRAIN))
    names = {p.name for p in launch.run_dir().iterdir()}
    assert {"final_summary.json", "final_summary.txt", "final_summary.html", "manifest.json"} <= names
    assert "blackbox" not in names
    assert stat.S_IMODE(launch.run_dir().stat().st_mode) == 0o700
    for path in launch.run_dir().iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_name_in_use_gets_a_suffix(launch):
    script = launch.script(TRAIN)
    for _ in range(3):
        launch.run("run", "--run-name", "r", script)
    assert sorted(p.name for p in (launch.folder / "logs").iterdir()) == ["r", "r-2", "r-3"]
    assert launch.summary("r-3")["run"]["name"] == "r-3"
    made_up = launch.run("run", script)
    assert made_up.returncode == 0
    assert len([p for p in (launch.folder / "logs").iterdir() if p.name.startswith("run_")]) == 1


def test_two_runs_at_once_in_one_folder(launch):
    script = launch.script("r = FakeRank()\n[r.step(2) for _ in range(int(sys.argv[1]))]\nr.close()\n")
    counts = (40, 80, 120)
    processes = [launch.start("run", "--run-name", "r", script, str(n)) for n in counts]
    assert [p.wait(timeout=60) for p in processes] == [0, 0, 0]
    assert sorted(launch.summary(name)["steps"]["count"] for name in ("r", "r-2", "r-3")) == sorted(counts)


def test_shared_memory_is_given_back(launch):
    before = shm_folders()
    launch.run("run", launch.script(TRAIN))
    assert shm_folders() <= before


def refused() -> list[str]:
    """A prefix under which a folder without the write bit refuses us; root gives up its power over files."""
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []


def test_logs_folder_that_cannot_be_written(launch):
    script = launch.script(TRAIN + "print('trained')")
    (launch.folder / "logs").mkdir()
    (launch.folder / "logs").chmod(0o555)
    result = launch.run("run", "--run-name", "r", script, prefix=refused())
    text = result.stderr.decode()
    assert (result.returncode, result.stdout) == (0, b"trained\n")
    assert "no run folder, the summary is only printed" in text.splitlines()[0]
    assert "10 steps" in text
    assert list((launch.folder / "logs").iterdir()) == []


def test_logs_dir_that_is_a_file(launch):
    (launch.folder / "logs").write_text("in the way")
    result = launch.run("run", launch.script(TRAIN + "print('trained')"))
    assert (result.returncode, result.stdout) == (0, b"trained\n")
    assert b"no run folder" in result.stderr and b"10 steps" in result.stderr


def test_folder_that_vanishes_while_the_run_goes_on(launch):
    """As a full disk: what cannot be written is stated once, the summary is still printed."""
    script = launch.script(
        "import shutil\nr = FakeRank()\n[r.step(1) for _ in range(20)]\n"
        "shutil.rmtree(os.environ['STEPSCOPE_RUN_DIR'])\nr.close()"
    )
    result = launch.run("run", "--run-name", "r", script)
    text = result.stderr.decode()
    assert result.returncode == 0
    assert "20 steps" in text
    assert text.count("cannot write") == 1
    assert not launch.run_dir().exists()


def test_rings_of_processes_that_are_no_ranks_are_removed(launch):
    script = launch.script("""
        r = FakeRank(evidence=False)
        r.step(1)
        r.close()
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        import subprocess
        if len(sys.argv) == 1:
            for _ in range(3):
                subprocess.run([sys.executable, __file__, "child"])
            time.sleep(0.5)
            print(len([n for n in os.listdir(os.environ["STEPSCOPE_SHM"]) if n.endswith(".ring")]))
    """)
    result = launch.run("run", "--run-name", "r", script)
    assert result.stdout == b"1\n"
    assert launch.summary()["run"]["world_size"] == 0
