"""stepscope.summary() while the training goes on: the agent answers through the shared folder."""

from __future__ import annotations

import json

ASKING = """
    import stepscope
    r = FakeRank()
    [r.step(2) for _ in range(30)]
    time.sleep(0.3)
    found = stepscope.summary(timeout_s=20)
    print(found["run"]["status"], found["steps"]["count"], sorted(os.listdir(os.environ["STEPSCOPE_SHM"])))
    [r.step(2) for _ in range(10)]
    r.close()
"""


def test_a_training_asks_for_its_own_summary(launch):
    result = launch.run("run", "--run-name", "r", launch.script(ASKING))
    status, count, left = result.stdout.decode().split(" ", 2)
    assert status == "running" and int(count) in (29, 30), result.stderr.decode()
    assert ".ask" not in left and ".answer" not in left
    assert launch.summary()["steps"]["count"] == 40 and launch.summary()["run"]["status"] == "completed"


def test_strange_requests_are_left_without_an_answer(launch):
    script = """
        folder = os.environ["STEPSCOPE_SHM"]
        for name in ("no_token.ask", "..ask", "x" * 100 + ".ask"):
            open(os.path.join(folder, name), "w").close()
        os.mkdir(os.path.join(folder, "ab.ask"))
        time.sleep(0.5)
        print(sorted(n for n in os.listdir(folder) if n.endswith(".answer")))
    """
    result = launch.run("run", "--run-name", "r", launch.script(script))
    assert result.returncode == 0 and json.loads((launch.run_dir() / "final_summary.json").read_text())
    assert result.stdout.decode().strip() == "[]"
