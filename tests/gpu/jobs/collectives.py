"""The fake NCCL opens the extension as its profiler plugin, as the environment says, and runs operations."""

import ctypes
import os
import sys
import time

from fake_device import FAKES, STREAM, install, say

host = ctypes.CDLL(os.path.join(FAKES, "libfake_nccl.so"))
for name, result, arguments in (
    ("open", ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]),
    ("comm", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]),
    ("run", None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p]),
    ("finalize", None, [ctypes.c_void_p, ctypes.c_void_p]),
    ("unload", None, [ctypes.c_void_p]),
    ("mask", ctypes.c_int, [ctypes.c_void_p]),
    ("failures", ctypes.c_int, [ctypes.c_void_p]),
):
    function = getattr(host, f"fake_nccl_{name}")
    function.restype, function.argtypes = result, arguments

fake, native = install()
assert native.gpu_try_start()
api = int(sys.argv[1])
plugin = os.environ.get("NCCL_PROFILER_PLUGIN", "")
say(plugin=plugin, chain=os.environ.get("STEPSCOPE_NCCL_CHAIN"), ours=native.__file__)
if plugin.endswith("_native.abi3.so"):
    for life in range(2):  # NCCL closes the plugin with its last communicator and opens it again
        nccl = host.fake_nccl_open(plugin.encode(), api)
        assert nccl, "the plugin cannot be opened"
        comm = host.fake_nccl_comm(nccl, 0xABC + life, 0, 2, b"dp:mesh")
        for _ in range(5):
            host.fake_nccl_run(nccl, comm, b"AllReduce", 1000, 0, STREAM)
        host.fake_nccl_run(nccl, comm, b"Send", 10, 1, STREAM)
        say(mask=host.fake_nccl_mask(nccl), failures=host.fake_nccl_failures(nccl))
        host.fake_nccl_finalize(nccl, comm)
        host.fake_nccl_unload(nccl)
    time.sleep(0.1)
    say(nccl=native.nccl_state())
