"""Every verb and every option of the help texts is used once, and what documents name is in the help texts.

A new option fails here until it has a line in USES. That it does all it should is told by the tests of its verb; here it
is taken and shows something of what it is for.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import signal
from collections.abc import Iterator

import pytest
from launches import Launch, wait_for

from jobs import ROOT, python

TRAIN = """
r = FakeRank()
[r.step(8) for _ in range(40)]
r.close()
print("trained", sys.argv[1:])
"""
LIVE = """
r = FakeRank()
while not os.path.exists("stop"):
    r.step(8)
r.close()
"""

# Words after `stepscope`, and what has to come of them: text in its output, or "/path" of a file that is there afterwards.
USES = [
    ("--version", "stepscope 0."),
    ("run train.py", "trained []"),
    ("run -- {python} train.py --lr 0.1", "trained ['--lr', '0.1']"),
    ("run train.py --args --lr 0.1", "trained ['--lr', '0.1']"),
    ("run --mode summary train.py", "1 rank on 1 node"),
    ("run --mode cli train.py", "trained"),
    ("run --mode dashboard --port 0 train.py", "http://127.0.0.1:"),
    ("run --run-name a --logs-dir other train.py", "/other/a/final_summary.json"),
    ("run --run_name b --logs_dir other train.py", "/other/b/final_summary.json"),
    ("run --run-name fast --interval 0.1 train.py", "/logs/fast/final_summary.json"),
    ("run --run-name rings --keep-rings train.py", "/logs/rings/blackbox"),
    ("run --run-name rings_ --keep_rings train.py", "/logs/rings_/blackbox"),
    ("run --run-name page --html-report train.py", "/logs/page/final_summary.html"),
    ("run --run-name page_ --html_report train.py", "/logs/page_/final_summary.html"),
    ("run --set min_steps=1000 train.py", "min_steps 1000 (default 8)"),
    ("run --silence all train.py", "completed"),
    ("run --stacks off train.py", "completed"),
    ("run --on-hang stacks --hang-timeout 60 train.py", "completed"),
    ("run --on_hang abort --hang_timeout 60 train.py", "completed"),
    ("run --flops-per-step 1e9 --peak-flops 1e12 train.py", "MFU"),
    ("run --flops_per_step 1e9 --peak_flops 1e12 train.py", "MFU"),
    ("run --aggregator off train.py", "completed"),
    ("run --secret-file secret train.py", "completed"),
    ("run --secret_file secret train.py", "completed"),
    ("run --disable train.py", "trained"),
    ("run --compat traceml train.py", "completed"),
    (
        "run --nnodes 1 --nproc-per-node 1 --node-rank 0 --master-addr 127.0.0.1 --master-port 0 train.py",
        "trained []",
    ),
    (
        "run --nnodes=1 --nproc_per_node=1 --node_rank=0 --master_addr=127.0.0.1 --master_port=0 train.py",
        "trained []",
    ),
    ("run train.py --nproc-per-node=1", "trained []"),
    ("top --once live", "running"),
    ("top logs/kept", "completed"),
    ("watch --once live", "running"),
    ("runs", "kept"),
    ("runs logs --json", '"kept"'),
    ("runs elsewhere --prune --keep 20 --older-than 30 --yes", ""),
    ("serve", "http://127.0.0.1:"),
    ("serve logs/kept", "http://127.0.0.1:"),
    ("serve logs --port 0 --host 127.0.0.1 --allow-host workstation", "http://127.0.0.1:"),
    ("serve --openapi", '"openapi"'),
    ("report logs/kept", "1 rank on 1 node"),
    ("report logs/kept --rebuild --json", '"schema_version"'),
    ("report logs/kept --format text --output again.txt", "/again.txt"),
    ("report logs/kept --html", "/logs/kept/final_summary.html"),
    ("view logs/kept --rebuild --json", '"schema_version"'),
    ("view logs/kept --format text --output view.txt", "/view.txt"),
    ("view logs/kept --html", "/logs/kept/final_summary.html"),
    ("merge logs/kept -o whole", "/whole/final_summary.json"),
    ("merge logs/kept --output whole2 --html", "/whole2/final_summary.html"),
    ("compare logs/kept logs/other --json --fail-on never", '"exit_code"'),
    ("compare logs/kept logs/other --markdown --threshold 90% --fail-on never", "###"),
    ("compare logs/kept logs/other --least-change-pct 90 --output verdict --fail-on never", "/verdict.md"),
    ("compare --baseline logs/kept logs/other --candidate logs/other --fail-on never", "step"),
    ("hang {root}/tests/data/dumps", "4 dumps of 4 ranks"),
    ("hang --json {root}/tests/data/dumps", '"culprits"'),
    ("whatif {root}/tests/data/traces/tiny.csv", "stepscope whatif"),
    ("whatif --json {root}/tests/data/traces/tiny.csv", "{"),
    ("inspect logs/kept/run.db", "{"),
    ("export logs/kept", "step"),
    ("export logs/kept --table ledger -o ledger.csv", "/ledger.csv"),
    ("export logs/kept --table all --format arrow --python {python} --output tables", "/tables/steps.arrow"),
    ("explain", "compute-straggler"),
    ("explain COMPUTE_STRAGGLER", "False positives"),
    ("explain thresholds", "min_steps"),
    ("doctor --python {python}", "torch"),
    ("doctor --json", "{"),
]
ODD_ENDS = {"hang": 4, "doctor": 1}  # exit codes that say something, beside 0


def options_in(words: list[str]) -> list[str]:
    """Those of ours: what follows a script or -- is the program's."""
    found = []
    for word in words:
        if word == "--" or word.endswith(".py"):
            break
        if re.match(r"--?[a-z]", word):
            found.append(word.partition("=")[0])
    return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """A folder with two kept runs and a live one."""
    helper = Launch(tmp_path_factory.mktemp("options"))
    helper.script(TRAIN)
    (helper.folder / "elsewhere").mkdir()
    (helper.folder / "secret").write_text("0123456789abcdef\n")
    os.chmod(helper.folder / "secret", 0o600)
    for name in ("kept", "other"):
        assert helper.run("run", "--run-name", name, "train.py").returncode == 0
    helper.start("run", "--run-name", "live", helper.script(LIVE, "live.py"))
    wait_for(lambda: (helper.run_dir("live") / "manifest.json").exists(), what="the agent")
    yield helper
    (helper.folder / "stop").touch()
    helper.close()


@pytest.fixture(scope="module")
def helps() -> dict[str, set[str]]:
    """Options of every verb, from its --help."""
    front = Launch(ROOT)
    listed = front.run("--help").stdout.decode().partition("Subcommands:\n")[2]
    verbs = [verb for names in re.findall(r"^  (\S.*?)  ", listed, re.M) for verb in names.split(", ")]
    found = {"": {"--help", "-h", "--version"}}
    for verb in verbs:
        done = front.run(verb, "--help")
        assert done.returncode == 0 and done.stderr == b""
        heads = re.findall(r"^  (-[^\s:]+)", done.stdout.decode(), re.M)
        found[verb] = {option for head in heads for option in head.split(",")}
        assert {"-h", "--help"} <= found[verb]
    front.close()
    return found


def test_every_verb_and_option_has_a_use(helps: dict[str, set[str]]) -> None:
    used: dict[str, set[str]] = {}
    for text, _ in USES:
        words = shlex.split(text)
        verb = "" if words[0].startswith("-") else words.pop(0)
        used.setdefault(verb, {"-h", "--help"}).update(options_in(words))
    assert used == helps


@pytest.mark.parametrize("text, shows", USES, ids=[text for text, _ in USES])
def test_it_is_taken(shop: Launch, text: str, shows: str) -> None:
    words = shlex.split(text.format(root=ROOT, python=python()))
    if words[0] == "serve" and "--openapi" not in words:
        process = shop.start(*words)
        assert process.stderr is not None and shows in process.stderr.readline().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        return
    done = shop.run(*words)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode in (0, ODD_ENDS.get(words[0], 0)), said
    if shows.startswith("/"):
        assert (shop.folder / shows[1:]).exists(), said
    else:
        assert shows in said


def documents() -> list[pathlib.Path]:
    return sorted([*ROOT.glob("*.md"), ROOT / "src/README.md", *(ROOT / "docs").glob("**/*.md")])


def code_in(text: str) -> list[str]:
    """Lines of fenced and indented blocks, and what stands between backticks."""
    fenced = re.compile(r"^```.*?^```", re.M | re.S)
    lines = [line for block in fenced.findall(text) for line in block.splitlines()[1:-1]]
    plain = fenced.sub("", text)
    return lines + re.findall(r"^    (.*)$", plain, re.M) + re.findall(r"`([^`\n]+)`", plain)


def commands_in(text: str) -> list[list[str]]:
    """Words after every `stepscope` that begins a command; comments and what the reader fills in are dropped."""
    found = []
    for code in code_in(text):
        if match := re.match(r"(?:\$ )?stepscope ([a-z].*)", code):
            found.append([word.strip("`[]") for word in re.split(r"\s+", re.split(r"\s{2,}#|…| \| ", match[1])[0])])
    return found


@pytest.mark.parametrize("document", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_documents_are_of_the_help_texts(document: pathlib.Path, helps: dict[str, set[str]]) -> None:
    for verb, *words in commands_in(document.read_text()):
        assert verb in helps, f"stepscope {verb}"
        missing = set(options_in(words)) - helps[verb]
        assert not missing, f"stepscope {verb} {' '.join(words)}: no option {missing}"


OTHERS = {
    "--standalone": "torchrun",
    "--lr": "a training",
    "--preset": "cmake",
    "--strict": "mypy",
    "--gtest_filter": "googletest",
    "--benchmark_filter": "google benchmark",
}
FROM_TRACEML = ROOT / "docs/from-traceml.md"  # names another program's options, and has a test of its own


def options_of_scripts() -> set[str]:
    """Options of our own scripts that documents speak of, from their parsers."""
    texts = [p.read_text() for folder in ("examples", "tests", "tools", "bench") for p in (ROOT / folder).rglob("*.py")]
    return {option for text in texts for option in re.findall(r'add_argument\(\s*"(--[\w-]+)"', text)}


@pytest.mark.parametrize("document", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_documents_exist(document: pathlib.Path, helps: dict[str, set[str]]) -> None:
    if document == FROM_TRACEML:
        return
    known = set().union(*helps.values()) | options_of_scripts() | set(OTHERS) | {"--write", "--args"}
    named = {o for code in code_in(document.read_text()) for o in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)}
    assert named <= known, named - known
