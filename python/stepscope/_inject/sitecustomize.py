"""First on PYTHONPATH under ``stepscope run``: waits for the import of torch, then lets stepscope hook it.

Where Python does not look at PYTHONPATH (-E, -I), or a script has set its own, ``stepscope.pth`` in the site-packages of
the training's interpreter runs this file under another name, if stepscope is installed there.

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
    """One shot: the spec of torch comes from the other finders, its loader calls us when torch has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec("torch")
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            try:
                del spec.loader.exec_module
            except AttributeError:
                pass
            execute(module)
            _install(module)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass
        return spec


def _install(torch):
    try:
        from stepscope.hooks import install

        install(torch)
    except Exception:
        pass


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
