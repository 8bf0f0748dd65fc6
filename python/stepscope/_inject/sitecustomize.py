"""First on PYTHONPATH under ``stepscope run``: waits for the import of torch, then lets stepscope hook it.

Where Python does not look at PYTHONPATH (-E, -I), or a script has set its own, ``stepscope.pth`` in the site-packages of
the training's interpreter runs this file under another name, if stepscope is installed there.

A rank by its environment leaves word that it starts (``_announce``), so that one that fails before torch is there is seen.
A process that never imports torch runs nothing else of stepscope. A sitecustomize that this one shadows still runs.
Nothing here raises. ``STEPSCOPE_DISABLE=1`` turns it off.
"""

import sys


def _root():
    import os

    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class _PackageFinder:
    """Last on sys.meta_path: finds stepscope when the training's interpreter does not have it installed."""

    def find_spec(self, name, path=None, target=None):
        if name != "stepscope":
            return None
        import importlib.util
        import os

        folder = os.path.join(_root(), "stepscope")
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )


class _CompatFinder:
    """First on sys.meta_path under ``stepscope run --compat traceml``: TraceML's names are ours, installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("traceml", "traceml_ai"):
            return None
        from stepscope.compat import alias_spec

        return alias_spec(name)


class _TorchFinder:
    """Waits for torch until our hooks are in. Probes, failed imports and lazy loaders leave it where it is.

    The spec of torch comes from the other finders; when its loader has executed the module, we are called. An import hook
    that asks no other finder goes past that: it shows when a submodule of torch is looked up, and the end of the import
    that runs is watched at the module's spec; at the latest the next import of anything finds torch there.
    """

    def __init__(self):
        self._asking = set()  # threads in which the other finders are asked: some of them ask all finders in turn

    def find_spec(self, name, path=None, target=None):
        import _thread

        thread = _thread.get_ident()
        if thread in self._asking:
            return None
        if name != "torch":
            self._look(sys.modules.get("torch"))
            return None
        self._asking.add(thread)
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None) if finder is not self else None
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    return self._watched(spec)
        finally:
            self._asking.discard(thread)
        return None

    def _watched(self, spec):
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            module.__dict__["_stepscope_ours"] = True
            try:
                execute(module)
            finally:
                module.__dict__.pop("_stepscope_ours", None)
            self.done(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader without a dictionary: seen by _look
        return spec

    def _look(self, torch):
        """Called while torch may be in the middle of an import that we have not wrapped, or already there."""
        if torch is None or type(torch).__name__ == "_LazyModule" or "_stepscope_ours" in torch.__dict__:
            return
        spec = torch.__dict__.get("__spec__")
        if getattr(spec, "_initializing", False):
            _watch_end(spec, torch, self)
        elif "Tensor" in torch.__dict__ and hasattr(torch, "optim") and hasattr(torch, "compiler"):
            self.done(torch)

    def done(self, torch):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        _install(torch)


def _watch_end(spec, module, finder):
    """Python sets spec._initializing to False when the import has ended; a failed one has left sys.modules by then."""
    plain = type(spec)
    if plain.__name__ == "_Watched":
        return

    class _Watched(plain):
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            if name != "_initializing" or value:
                return
            object.__setattr__(self, "__class__", plain)
            if sys.modules.get(module.__name__) is module:
                finder.done(module)

    try:
        spec.__class__ = _Watched
    except TypeError:
        pass


def _install(torch):
    try:
        from stepscope.hooks import install

        install(torch)
    except Exception:
        pass


def _announce():
    """Leaves ``<pid>.start`` in the shared folder, for src/agent/start_watch.h: which rank this process is to be. What
    inherited a rank from its parent leaves none. A process that ends by an exception adds it when it ends."""
    import os

    env, pid = os.environ, os.getpid()
    folder, rank = env.get("STEPSCOPE_SHM"), env.get("RANK", "")
    if not folder:
        return
    who = [env.get(name) or "-" for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")]
    path = os.path.join(folder, f"{pid}.start")
    before, _, claimed = env.get("STEPSCOPE_STARTED", "").partition(" ")
    if rank and claimed == " ".join(who) and before != str(pid):
        return  # a child of that rank
    if rank:
        env["STEPSCOPE_STARTED"] = f"{pid} {' '.join(who)}"
        with open("/proc/self/stat", "rb") as file:
            ticks = file.read().rpartition(b")")[2].split()[19].decode()
        _append(path, f"{' '.join(who)} {ticks} {before if before not in ('', str(pid)) else '-'}", new=True)

    import atexit

    def tell_failure():
        value = getattr(sys, "last_value", None)
        # Of a Ctrl-C there is nothing to tell, and code compiled here would make its exit code another.
        if os.getpid() != pid or not isinstance(value, BaseException) or isinstance(value, KeyboardInterrupt):
            return
        try:
            from stepscope.hooks import exceptions

            said = f"\n{exceptions.describe(type(value), value)}\n{exceptions.frames(value)}"
            _append(path, said if rank else "- - - - 0 -" + said, new=not rank)
        except Exception:
            pass

    atexit.register(tell_failure)


def _append(path, text, new):
    """In one piece: a reader sees all of a write or nothing. A note that was taken away is not made again."""
    import os

    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if new else 0)
    fd = os.open(path if not new else path + ".tmp", flags, 0o600)
    try:
        os.write(fd, text.encode(errors="replace")[:8000])
    finally:
        os.close(fd)
    if new:
        os.rename(path + ".tmp", path)


def _start():
    import os

    if getattr(sys, "_stepscope_injected", False):  # loaded before in this process, perhaps under another name
        return
    disabled = os.environ.get("STEPSCOPE_DISABLE", "") not in ("", "0")
    compat = os.environ.get("STEPSCOPE_COMPAT", "") == "traceml"
    if disabled and not compat:
        return
    sys._stepscope_injected = True
    sys.meta_path.append(_PackageFinder())
    if compat:  # a disabled run needs the names, too: they do nothing then
        sys.meta_path.insert(0, _CompatFinder())
    if disabled:
        return
    try:
        _announce()
    except Exception:
        pass
    if "torch" in sys.modules:
        _install(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _TorchFinder())


def _run_shadowed():
    """Runs the sitecustomize that stands next on sys.path, as site would have done."""
    import importlib.util
    import os
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None or not spec.origin or os.path.dirname(os.path.abspath(spec.origin)) == here:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start()
except Exception:
    pass
if __name__ == "sitecustomize":
    _run_shadowed()  # its errors are the user's own: site reports them as it would without us
