"""`stepscope run --mode dashboard`: the live run in the browser, from its first step to its last."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from conftest import LIVE, Site, serve, url_in
from launches import Launch


def start(launch: Launch, *words: str, seconds: float = 20) -> Site:
    process = launch.start("run", "--mode", "dashboard", "--run-name", "r", *words, launch.script(LIVE), str(seconds))
    assert process.stderr is not None
    return Site(url_in(process.stderr))


def until(site: Site, path: str, good: Any, seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while True:
        answer = site.get(path)
        if answer.status == 200 and good(answer.json()):
            return answer.json()
        assert time.monotonic() < end, answer.body[:500]
        time.sleep(0.2)


def events(site: Site, run: str, seconds: float, last_id: str = "") -> list[tuple[str, Any, str]]:
    """Name, data and id of what a listener is told within so many seconds."""
    with socket.create_connection(("127.0.0.1", site.port or 0)) as link:
        more = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        link.sendall(
            f"GET /api/v1/events?run={run} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {site.token}\r\n{more}\r\n".encode()
        )
        text, end = b"", time.monotonic() + seconds
        link.settimeout(0.2)
        while time.monotonic() < end:
            try:
                got = link.recv(65536)
            except TimeoutError:
                continue
            if not got:
                break
            text += got
    told = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            told.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
    return told


def stop(launch: Launch) -> tuple[int, bytes]:
    (launch.folder / "stop").write_text("")
    process = launch.started[0]
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_a_live_run_is_shown_and_ends_as_it_should(launch: Launch) -> None:
    site = start(launch)
    page = until(site, "/api/v1/runs/r/page", lambda told: told["going_on"])
    until(site, "/api/v1/runs/r/ranks", lambda told: len(told["ranks"]) == 4)
    assert page["run"] == "r"
    told = events(site, "r", 4)
    steps = [data for name, data, _ in told if name == "steps"]
    assert len(steps) >= 2
    # Without a gap, and no step twice.
    for one, next_one in zip(steps, steps[1:], strict=False):
        assert next_one["from"] == one["to"] + 1
    last = str(steps[-1]["to"])
    again = [data for name, data, _ in events(site, "r", 3, last) if name == "steps"]
    assert again and again[0]["from"] == int(last) + 1
    # Series of the newest steps come from the snapshot, older ones from the file.
    heat = site.get("/api/v1/runs/r/heat?bins=4096").json()
    assert heat["ranks"] == [0, 1, 2, 3] and heat["range"]["to"] >= int(last)
    assert [run["name"] for run in site.get("/api/v1/runs").json()["runs"]] == ["r"]
    metrics = site.get("/metrics").body.decode()
    assert 'stepscope_steps_total{run="r"}' in metrics and 'rank="3"' in metrics
    code, err = stop(launch)
    assert code == 0 and b"http://" not in err  # the address is said once
    assert launch.summary()["run"]["status"] == "completed"
    assert launch.mark.alive() == []


def test_other_servers_follow_it_too(launch: Launch) -> None:
    start(launch)
    (launch.folder / "logs").mkdir(exist_ok=True)
    other = serve(launch, "logs")
    told = until(other, "/api/v1/runs/r/page", lambda page: page["going_on"], seconds=40)
    assert told["going_on"]
    assert until(other, "/api/v1/runs", lambda runs: runs["runs"][0]["going_on"])["runs"][0]["status"] == "running"
    stop(launch)
    until(other, "/api/v1/runs", lambda runs: runs["runs"][0]["status"] == "completed")
    until(other, "/api/v1/runs/r/page", lambda page: not page["going_on"])


def test_listeners_hear_the_end(launch: Launch) -> None:
    site = start(launch, seconds=3)
    until(site, "/api/v1/runs/r/page", lambda told: told["going_on"])
    told = events(site, "r", 20)
    assert told[-1][0] == "end"
    assert [data["status"] for name, data, _ in told if name == "state"][-1] == "completed"


def test_a_port_that_is_taken_costs_the_view_and_nothing_else(launch: Launch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = launch.run("run", "--mode", "dashboard", "--port", port, "--run-name", "r", launch.script(LIVE), "1")
    assert done.returncode == 0
    assert b"no browser view: cannot listen on 127.0.0.1:" + port.encode() in done.stderr
    assert launch.summary()["run"]["status"] == "completed"


def test_without_the_mode_nothing_listens(launch: Launch) -> None:
    done = launch.run("run", "--run-name", "r", launch.script(LIVE), "0.5")
    assert done.returncode == 0 and b"http://" not in done.stderr
