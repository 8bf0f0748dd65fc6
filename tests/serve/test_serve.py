"""`stepscope serve`: what it answers about runs that have ended, about rubbish, and to strangers."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import EXAMPLE, ROOT, TOKEN, Site, serve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from launches import Launch, refused

API = json.loads((ROOT / "docs" / "schema" / "openapi.json").read_text())
RUNS = ["finished", "only steps", "<b>&amp;"]
ABOUT = ["page", "summary", "findings", "ledger", "ranks", "collectives", "steps", "heat", "samples", "steps/3"]


def check(schema: str, value: Any) -> None:
    validator = Draft202012Validator({"$ref": f"#/components/schemas/{schema}", "components": API["components"]})
    validator.validate(value)


def schema_of(what: str) -> str:
    path = "/api/v1/runs/{run}/" + ("steps/{step}" if what.startswith("steps/") else what)
    ref = API["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    return str(ref.rsplit("/", 1)[1])


def test_the_history_lists_every_run_and_says_what_is_wrong_with_some(served: tuple[Site, Path]) -> None:
    told = served[0].get("/api/v1/runs").json()
    check("Runs", told)
    runs = {run["name"]: run for run in told["runs"]}
    assert set(runs) == {*RUNS, "rubbish", "half"}
    assert runs["finished"]["status"] == "completed" and runs["finished"]["world_size"] == 4
    assert runs["rubbish"]["trouble"] and runs["half"]["trouble"] and not runs["finished"]["trouble"]


@pytest.mark.parametrize("what", ABOUT)
@pytest.mark.parametrize("run", RUNS)
def test_answers_keep_to_the_description(served: tuple[Site, Path], run: str, what: str) -> None:
    answer = served[0].get(f"/api/v1/runs/{quote(run, safe='')}/{what}")
    if run == "<b>&amp;" and what == "steps/3":  # a summary alone has no single steps
        assert answer.status == 404
        return
    assert answer.status == 200, answer.body
    check(schema_of(what), answer.json())


def test_a_run_that_cannot_be_read_says_why(served: tuple[Site, Path]) -> None:
    for run in ["rubbish", "half", "no run", "nowhere", "a file"]:
        answer = served[0].get(f"/api/v1/runs/{quote(run)}/page")
        assert answer.status == 404
        message = answer.json()["error"]["message"]
        assert message and "\n" not in message


def test_the_page_says_what_the_text_says(served: tuple[Site, Path]) -> None:
    site, logs = served
    page = site.get("/api/v1/runs/finished/page").json()["page"]
    text = (logs / "finished" / "final_summary.txt").read_text()
    assert page["verdict"]["name"] in text
    assert " ".join(page["verdict"]["headline"].split()[:4]) in " ".join(text.split())


def test_summary_is_the_file(served: tuple[Site, Path]) -> None:
    site, logs = served
    told = site.get("/api/v1/runs/finished/summary").json()
    assert told["findings"] == json.loads((logs / "finished" / "final_summary.json").read_text())["findings"]


def test_compare(served: tuple[Site, Path]) -> None:
    answer = served[0].get("/api/v1/compare?a=finished&b=only%20steps")
    check("Comparison", answer.json())
    assert served[0].get("/api/v1/compare?a=finished&b=nowhere").status == 404
    assert served[0].get("/api/v1/compare?a=finished&b=..%2Fx").status == 422


def test_the_description_is_the_one_in_docs(served: tuple[Site, Path], launch: Launch) -> None:
    assert served[0].get("/openapi.json").json() == API
    printed = launch.run("serve", "--openapi").stdout.decode()
    assert printed == (ROOT / "docs" / "schema" / "openapi.json").read_text()  # renew: stepscope serve --openapi


def test_strangers_and_other_pages_read_nothing(served: tuple[Site, Path]) -> None:
    site = served[0]
    for path in ["/", "/app.js", "/api/v1/runs", "/metrics", "/openapi.json", "/api/v1/events?run=finished", "/x"]:
        assert site.get(path, token=False).status == 401, path
        assert site.get(path, Host="evil.example").status == 421, path
        assert site.get(path, Origin="http://evil.example").status == 403, path
    wrong = site.get("/api/v1/runs", token=False, Authorization="Bearer " + TOKEN[::-1])
    assert wrong.status == 401 and b"finished" not in wrong.body


def test_the_first_page_hands_over_a_cookie_that_no_script_sees(served: tuple[Site, Path]) -> None:
    first = served[0].get("/?token=" + TOKEN, token=False)
    cookie = first.fields["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert served[0].get("/api/v1/runs", token=False, Cookie=cookie.split(";")[0]).status == 200
    policy = first.fields["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_a_finished_run_ends_its_events(served: tuple[Site, Path]) -> None:
    answer = served[0].get("/api/v1/events?run=finished")
    events = [block for block in answer.body.decode().split("\n\n") if "event:" in block]
    assert [block.split("event: ")[1].split("\n")[0] for block in events] == ["steps", "state", "end"]
    check("StateEvent", json.loads(events[1].split("data: ")[1]))
    check("StepsEvent", json.loads(events[0].split("data: ")[1]))


def test_one_run_alone(launch: Launch) -> None:
    site = serve(launch, str(EXAMPLE))
    runs = site.get("/api/v1/runs").json()["runs"]
    assert [run["name"] for run in runs] == [EXAMPLE.name]
    assert site.get(f"/api/v1/runs/{EXAMPLE.name}/page").status == 200
    assert site.get("/api/v1/runs/other/page").status == 404


def test_a_run_that_appears_is_seen(launch: Launch) -> None:
    logs = launch.folder / "logs"
    logs.mkdir()
    site = serve(launch, str(logs))
    assert site.get("/api/v1/runs").json()["runs"] == []
    (logs / "new").mkdir()
    (logs / "new" / "run.db").write_bytes(EXAMPLE.read_bytes())
    assert [run["name"] for run in site.get("/api/v1/runs").json()["runs"]] == ["new"]


def test_bad_words_are_refused_in_one_line(launch: Launch) -> None:
    assert "no such folder: nowhere" in refused(launch, "serve", "nowhere")
    (launch.folder / "logs").mkdir()
    assert "not a numeric address" in refused(launch, "serve", "--host", "example.com")
    assert "--port" in refused(launch, "serve", "--port", "70000")
    site = serve(launch)
    assert "cannot listen on 127.0.0.1" in refused(launch, "serve", "--port", str(site.port))
    done = launch.run("serve", env={"STEPSCOPE_TOKEN": "short"})
    assert done.returncode == 2 and b"STEPSCOPE_TOKEN must be 16 to 256" in done.stderr
    assert "--port must be a port" in refused(launch, "run", "--port", "1.5", launch.script(""))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(launch: Launch, number: signal.Signals) -> None:
    (launch.folder / "logs").mkdir()
    serve(launch)
    process = launch.started[-1]
    process.send_signal(number)
    assert process.wait(10) == 0


def test_a_client_that_does_not_read_disturbs_nobody(served: tuple[Site, Path]) -> None:
    site = served[0]
    with socket.create_connection(("127.0.0.1", site.port or 0)) as deaf:
        line = f"GET /api/v1/runs/finished/page HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        deaf.settimeout(0.2)
        try:
            for _ in range(2000):
                deaf.sendall(line.encode())
        except OSError:
            pass  # its window is full: so it should be
        begin = time.monotonic()
        assert site.get("/api/v1/runs").status == 200
        assert time.monotonic() - begin < 5


WORDS = st.sampled_from(["api", "v1", "runs", "finished", "heat", "steps", "..", "%2e", "events", "compare", "", "%00"])
PATHS = st.lists(WORDS | st.text(max_size=8), max_size=7).map("/".join)
NAMES = st.sampled_from(["from", "to", "bins", "measure", "a", "b", "run", "token", "x"])
VALUES = st.sampled_from(["0", "-1", "7", "own", "wait", "9007199254740993", "1e9"]) | st.text(max_size=8)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PATHS, st.lists(st.tuples(NAMES, VALUES), max_size=4))
def test_no_address_breaks_it(served: tuple[Site, Path], path: str, parameters: list[tuple[str, str]]) -> None:
    query = "&".join(f"{name}={quote(value)}" for name, value in parameters)
    answer = served[0].get("/" + quote(path, safe="/%") + (f"?{query}" if query else ""))
    assert answer.status in (200, 400, 401, 404, 422), (path, query, answer.status)
    if answer.status >= 400 and answer.type == "application/json":
        check("Error", answer.json())


STEPS = st.integers(-5, 200) | st.integers(2**52, 2**55)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(RUNS), st.sampled_from(["own", "wait", "input", "memory"]), STEPS, STEPS, st.integers(-1, 5000))
def test_any_range_is_answered_or_refused(
    served: tuple[Site, Path], run: str, measure: str, first: int, last: int, bins: int
) -> None:
    path = f"/api/v1/runs/{quote(run, safe='')}/heat?measure={measure}&from={first}&to={last}&bins={bins}"
    answer = served[0].get(path)
    good = 0 <= first <= last <= 2**53 and 1 <= bins <= 4096
    assert answer.status == (200 if good else 422), answer.body
    if good:
        told = answer.json()
        check("Heat", told)
        columns = max(0, -(-(told["range"]["to"] - told["range"]["from"] + 1) // told["range"]["per_bin"]))
        assert columns <= bins
        assert len(told["levels"]) == -(-columns * len(told["ranks"]) // 3) * 4


def test_the_view_is_small_and_names_no_other_place(served: tuple[Site, Path]) -> None:
    site = served[0]
    page = gzip.decompress(site.get("/").body).decode()
    total = 0
    for path in ["/", "/app.js", "/app.css", "/icon.svg"]:
        answer = site.get(path)
        assert answer.fields["Content-Encoding"] == "gzip"
        total += len(answer.body)
        text = gzip.decompress(answer.body).decode()
        assert "https://" not in text.replace("https://preactjs.com", ""), path
    assert total <= 100_000
    assert "app.js" in page and "palette.css" in page
    assert b"--c-backward:#" in site.get("/palette.css").body


def test_the_lock_file_names_no_place(served: tuple[Site, Path]) -> None:
    lock = (ROOT / "web" / "package-lock.json").read_text()
    assert '"resolved"' not in lock and "registry" not in lock
