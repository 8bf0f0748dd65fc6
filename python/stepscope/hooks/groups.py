"""Process groups: their members, their collectives (hooks of torch 2.14 and newer), and the names a DeviceMesh gives.

A group's id is the same on all its members: a hash of its global ranks and of its place among the groups of these
ranks that exist at the same time. Programs that make groups and destroy them again use few ids that way, and a group
that takes the place of one that is gone goes on with its count of collectives. All members make and destroy groups in
the same order, so that they agree; when an object is collected says nothing.
"""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

from stepscope import _kinds as k
from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import boundary, names
from stepscope.hooks._replace import replace_everywhere

_LEAST_OF_A_RANGE = 4
_HOOK_ID = 0x5353  # any number that others are unlikely to take
_OPS = {
    "SEND": k.SEND,
    "RECV": k.RECV,
    "BROADCAST": k.BROADCAST,
    "ALLREDUCE": k.ALL_REDUCE,
    "ALLREDUCE_COALESCED": k.ALL_REDUCE,
    "REDUCE": k.REDUCE,
    "ALLGATHER": k.ALL_GATHER,
    "ALLGATHER_BASE": k.ALL_GATHER,
    "ALLGATHER_COALESCED": k.ALL_GATHER,
    "ALLGATHER_INTO_TENSOR_COALESCED": k.ALL_GATHER,
    "REDUCE_SCATTER": k.REDUCE_SCATTER,
    "REDUCE_SCATTER_BASE": k.REDUCE_SCATTER,
    "REDUCE_SCATTER_TENSOR_COALESCED": k.REDUCE_SCATTER,
    "ALLTOALL": k.ALL_TO_ALL,
    "ALLTOALL_BASE": k.ALL_TO_ALL,
    "BARRIER": k.BARRIER,
    "SCATTER": k.SCATTER,
    "GATHER": k.GATHER,
}


class _Known:
    """A group that has been seen: its place, its hooks, and whether the post hook is registered. Holds no reference to
    it: when a group goes, its threads must be joined as early as without us."""

    def __init__(self, group: Any, place: _Place) -> None:
        self.ref, self.place, self.post = weakref.ref(group), place, False
        self.ident, self.hooks = place.ident, place.hooks


class _Place:
    """One of the groups of certain ranks: its id, its hooks with their counts, and whether a group is there now."""

    def __init__(self, ranks: list[int], number: int) -> None:
        self.ident = k.text_id(f"{','.join(map(str, ranks))}|{number}")
        self.hooks: tuple[Any, Any] | None = None
        self.taken = False


_known: dict[int, _Known] = {}  # by id() of the group
_pre_hooks: dict[int, Any] = {}  # by id() of the group: the C side looks up what it counts
_places: dict[tuple[int, ...], list[_Place]] = {}  # by global ranks in the order of the group
_meshes: list[weakref.ref[Any]] = []
_c10d: Any = None
_want_work_keys = False
_GONE = object()


def ranges(ranks: list[int]) -> str:
    """Ranks as text: ``"0-7,16"``; ``"0-56:8"`` counts in eights. At least four in a row make a range."""
    parts, at = [], 0
    while at < len(ranks):
        end, step = at + 1, ranks[at + 1] - ranks[at] if at + 1 < len(ranks) else 0
        while step > 0 and end < len(ranks) and ranks[end] - ranks[end - 1] == step:
            end += 1
        if end - at < _LEAST_OF_A_RANGE:
            parts.append(str(ranks[at]))
            at += 1
            continue
        parts.append(f"{ranks[at]}-{ranks[end - 1]}" + (f":{step}" if step > 1 else ""))
        at = end
    return ",".join(parts)


def world() -> Any:
    """The default group, or None."""
    return _c10d.GroupMember.WORLD if _c10d is not None else None


def members(group: Any) -> list[int]:
    """Global ranks of a group in the order of its own ranks."""
    order = _c10d._world.pg_group_ranks[group]
    return sorted(order, key=order.__getitem__)


def rescan() -> None:
    """Looks at every process group: hooks new ones, forgets gone ones, names both groups and meshes."""
    live = {id(group): group for group in _c10d._world.pg_map}
    for ident in [i for i, known in _known.items() if known.ref() is not live.get(i, _GONE)]:
        _forget(ident)
    for ident, group in live.items():
        if ident not in _known:
            _adopt(group)
    default = known_id(world())
    native.set_groups(len(live), default)
    _name_meshes()


def _seen(group: Any) -> _Known | None:
    known = _known.get(id(group))
    return known if known is not None and known.ref() is group else None


def known_id(group: Any) -> int:
    """The id of a group that has been seen, else 0."""
    known = _seen(group)
    return known.ident if known else 0


def unhooked_id(group: Any) -> int:
    """The id of a group that has been seen and has no hooks (torch before 2.14), else 0."""
    known = _seen(group)
    return known.ident if known and known.hooks is None else 0


def release(group: Any = None) -> None:
    """Takes the hooks off a group, or off all, before it is destroyed or the interpreter ends."""
    for ident, known in list(_known.items()):
        live = known.ref()
        if group is not None and live is not group:
            continue
        _forget(ident)
        if live is not None and known.hooks is not None:
            live.unregister_pre_hook(_HOOK_ID)
            if known.post:
                live.unregister_post_hook(_HOOK_ID)
    if not _known:
        native.set_groups(0, 0)


def _forget(ident: int) -> None:
    _known.pop(ident).place.taken = False
    _pre_hooks.pop(ident, None)


def _place_for(ranks: list[int]) -> _Place:
    places = _places.setdefault(tuple(ranks), [])
    for place in places:
        if not place.taken:
            return place
    places.append(_Place(ranks, len(places)))
    return places[-1]


def _adopt(group: Any) -> None:
    ranks = members(group)
    place = _place_for(ranks)
    place.taken = True
    label = getattr(group, "group_desc", "") or ""
    label = "" if label == "undefined" else label.removeprefix("mesh_")
    names.once(k.NAME_GROUP, place.ident, f"{label}|{ranges(ranks)}")
    known = _known[id(group)] = _Known(group, place)
    if hasattr(group, "register_pre_hook"):
        if place.hooks is None:
            place.hooks = native.group_hooks(place.ident, ranks)
        known.hooks = place.hooks
        _pre_hooks[id(group)] = place.hooks[0]
        group.register_pre_hook(_HOOK_ID, place.hooks[0])
        _sync_post_hook(known, _post_wanted())
    else:
        names.unavailable("collectives", "torch before 2.14 has no process-group hooks; waits are seen, issues are not")


def _post_wanted() -> bool:
    """Post hooks cost about half a microsecond per operation: they are there only while something needs them."""
    control = native.control()
    return _want_work_keys or (control is not None and control[0] > native.counters()[0])


def _sync_post_hook(known: _Known, wanted: bool) -> None:
    group = known.ref()
    if group is None or known.hooks is None or known.post == wanted:
        return
    if wanted:
        group.register_post_hook(_HOOK_ID, known.hooks[1])
    else:
        group.unregister_post_hook(_HOOK_ID)
    known.post = wanted


def _sync_post_hooks() -> None:
    wanted = _post_wanted()
    for known in _known.values():
        _sync_post_hook(known, wanted)
    if not wanted:
        native.forget_works()  # further Works are not announced, and take the addresses of those that were


def _work_keys() -> None:
    global _want_work_keys
    _want_work_keys = True
    _sync_post_hooks()


def _name_meshes() -> None:
    """``"dp,tp|2,2|0,1|<id>,<id>"`` for each mesh with named dimensions."""
    waiting = []
    for ref in _meshes:
        mesh = ref()
        try:
            text = _describe_mesh(mesh) if mesh is not None else ""
        except Exception:  # its groups are not there yet
            waiting.append(ref)
            continue
        if text:
            names.once(k.NAME_MESH, k.text_id(text), text)
    _meshes[:] = waiting


def _describe_mesh(mesh: Any) -> str:
    dims, coordinate = mesh.mesh_dim_names, mesh.get_coordinate()
    if not dims or coordinate is None:
        return ""
    ids = [known_id(g) for g in mesh.get_all_groups()]
    if 0 in ids or len(ids) != len(dims):
        raise LookupError("a group of the mesh is not known")
    join = ",".join
    shape = join(str(n) for n in mesh.mesh.shape)
    return f"{join(dims)}|{shape}|{join(map(str, coordinate))}|{join(map(str, ids))}"


def _wrap_mesh(module: ModuleType) -> None:
    cls = module.DeviceMesh

    def after(_state: Any, args: Any, _kwargs: Any, _result: Any, failed: bool) -> None:
        if failed:
            return
        _meshes.append(weakref.ref(args[0]))
        if _c10d.is_initialized():
            rescan()

    cls.__init__ = native.around(cls.__init__, None, after)


def _wrap_maker(name: str) -> None:
    """new_group and split_group: hooks are registered when they return, at the same place of the program on all ranks."""
    original = getattr(_c10d, name, None)
    if original is None:
        return

    def after(_state: Any, _args: Any, _kwargs: Any, _result: Any, failed: bool) -> None:
        if failed:
            return
        try:
            rescan()
        except Exception as error:
            names.unavailable("collectives", f"{type(error).__name__}: {error}")

    replace_everywhere(original, native.around(original, None, after), name)


def _teach_ops(torch: ModuleType) -> None:
    """Tells the C side what the numbers of HookOpName mean, and whether it may read them out of the object."""
    enum = getattr(torch._C._distributed_c10d, "HookOpName", None)
    if enum is None:
        return
    numbers = {name: int(member) for name, member in enum.__members__.items()}
    for name, op in _OPS.items():
        if name in numbers:
            native.set_op(numbers[name], op, op in (k.ALL_GATHER, k.SCATTER))
    native.trust_pybind(object.__basicsize__, [(member, numbers[name]) for name, member in enum.__members__.items()])


def install(torch: ModuleType, _native: ModuleType) -> None:
    global _c10d
    if not torch.distributed.is_available():
        return
    _c10d = torch.distributed.distributed_c10d
    native.set_hook("pg_map", _c10d._world.pg_map)
    native.set_hook("pre_hooks", _pre_hooks)
    _teach_ops(torch)
    _wrap_maker("new_group")
    _wrap_maker("split_group")
    when_imported("torch.distributed.device_mesh", _wrap_mesh)
    boundary.on(boundary.GROUPS, rescan)
    boundary.on(boundary.STAMPS, _sync_post_hooks)
    boundary.on(boundary.WORK_KEYS, _work_keys)
    if _c10d.is_initialized():
        rescan()
