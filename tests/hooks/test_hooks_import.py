"""However torch is imported, the hooks are in when the program goes on."""

from __future__ import annotations

import sys
import zipfile

import pytest

TRAIN = """
import torch
m = torch.nn.Linear(2, 2); o = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(3):
    m(torch.ones(1, 2)).sum().backward(); o.step()
"""
FIRST = {
    "probe": "import importlib.util; assert importlib.util.find_spec('torch')",
    "probes": "import importlib.util\nfor _ in range(3): importlib.util.find_spec('torch')\nimport pkgutil; pkgutil.find_loader('torch') if hasattr(pkgutil, 'find_loader') else 0",
    "by_hand": "import importlib.util as u, sys\ns = u.find_spec('torch'); m = u.module_from_spec(s); sys.modules['torch'] = m; s.loader.exec_module(m)",
    "lazy": "import importlib.util as u, sys\ns = u.find_spec('torch'); s.loader = u.LazyLoader(s.loader); m = u.module_from_spec(s); sys.modules['torch'] = m; s.loader.exec_module(m); m.nn",
    "thread": "import threading\ndef f(): import torch\nt = [threading.Thread(target=f) for _ in range(3)]; [x.start() for x in t]; [x.join() for x in t]",
    "submodule_first": "import torch.nn.functional",
    "hook_before_asks_nobody": """
import sys
from importlib.machinery import PathFinder
class F:
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, path) if name == 'torch' else None
sys.meta_path.insert(0, F())
""",
    "hook_before_asks_all": """
import sys, importlib.util
class F:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != 'torch' or F.busy: return None
        F.busy = True
        try: return importlib.util.find_spec(name)
        finally: F.busy = False
sys.meta_path.insert(0, F())
""",
    "hooks_ask_each_other": """
import sys
class F:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if F.busy: return None
        F.busy = True
        try:
            for f in sys.meta_path:
                if f is not self and (s := f.find_spec(name, path, target)): return s
        finally: F.busy = False
sys.meta_path.append(F()); sys.meta_path.insert(0, F())
""",
    "wrapped_loader": """
import sys, importlib.util
class L:
    def __init__(self, inner): self.inner = inner
    def create_module(self, spec): return self.inner.create_module(spec)
    def exec_module(self, module): self.inner.exec_module(module)
class F:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != 'torch' or F.busy: return None
        F.busy = True
        try: s = importlib.util.find_spec(name); s.loader = L(s.loader); return s
        finally: F.busy = False
sys.meta_path.insert(0, F())
""",
    "fails_first": """
import sys
class F:
    def find_spec(self, name, path=None, target=None):
        if name == 'torch': raise ImportError('not yet')
sys.meta_path.insert(0, F())
try: import torch
except ImportError: pass
else: raise SystemExit('it did not fail')
del sys.meta_path[0]
""",
    "not_there_first": """
import sys
kept, sys.path[:] = list(sys.path), []
try: import torch
except ImportError: pass
else: raise SystemExit('it did not fail')
sys.path[:] = kept
""",
    "import_module": "import importlib; importlib.import_module('torch')",
}
QUICK = {"probe", "by_hand", "lazy", "hook_before_asks_all", "fails_first"}


def hooked(done):
    done.check()
    assert done.stderr == ""
    (box,) = [b for b in done.rings if b.evidence]
    assert box.count("Optimizer<") == 3


@pytest.mark.parametrize("way", [w if w in QUICK else pytest.param(w, marks=pytest.mark.slow) for w in FIRST])
def test_every_way_in(run, way):
    hooked(run([sys.executable, "-c", FIRST[way] + TRAIN]))


def test_reload_keeps_the_hooks(run):
    """torch itself cannot be loaded twice in a process; a part of it can."""
    hooked(run([sys.executable, "-c", "import torch, importlib; importlib.reload(torch.serialization)" + TRAIN]))


@pytest.mark.slow
def test_as_a_module_and_as_an_archive(run, tmp_path):
    (tmp_path / "job.py").write_text(TRAIN)
    hooked(run([sys.executable, "-m", "job"], cwd=tmp_path))
    with zipfile.ZipFile(tmp_path / "job.pyz", "w") as archive:
        archive.writestr("__main__.py", TRAIN)
    hooked(run([sys.executable, str(tmp_path / "job.pyz")]))


def test_a_probe_alone_imports_nothing(run):
    done = run(
        [
            sys.executable,
            "-c",
            FIRST["probe"] + "\nimport sys; print('torch' in sys.modules, 'stepscope' in sys.modules)",
        ]
    )
    assert done.check().stdout == "False False\n"
