"""Names: what a program makes anew again and again shares one name; the last words always find room."""

from __future__ import annotations

import pytest
from test_hooks_loops import sections

LOADER, GROUP, EXCEPTION = 3, 4, 7


def test_a_loader_per_epoch_is_one_loader(run):
    box = run("many_names.py", "loaders", "700").check().box
    assert box.names_dropped == 0
    created = [r.a for r in box.of("LoaderCreate>")]
    assert len(created) == 770
    assert len(set(created)) == len(box.named(LOADER)) <= 4
    # the loop that trains and the one that does not are told apart although their loaders look the same
    fetched = {}
    for r in box.records:
        if r.what == "Fetch>":
            loader = r.a
        if r.what == "Backward>":
            fetched.setdefault(loader, set()).add("training")
        if r.what == "Forward>" and not r.flags & 1:
            fetched.setdefault(loader, set()).add("validation")
    assert all(len(ends) == 1 for ends in fetched.values()), fetched


def test_loaders_of_data_that_lives_on_follow_the_data(run):
    box = run("many_names.py", "kept", "20").check().box
    used: dict[str, set[int]] = {"one": set(), "two": set()}
    for r in box.records:
        if r.what == "UserPhase>":
            name = box.names[(5, r.a)]
        if r.what == "LoaderCreate>":
            used[name].add(r.a)
    assert len(used["one"]) == len(used["two"]) == 1 and used["one"] != used["two"]


@pytest.mark.slow
def test_groups_made_again_and_again_share_one_id(run):
    outcome = run("many_names.py", "groups", "150", ranks=2).check()
    first, second = outcome.rings[:2]
    assert first.names_dropped == 0 and len(first.named(GROUP)) <= 3
    assert {r.a for r in first.of("Collective")} == {r.a for r in second.of("Collective")}
    # one sync point, one number: never used twice
    for box in (first, second):
        sync_points = [(r.a, r.b) for r in box.of("Collective")]
        assert len(sync_points) == len(set(sync_points))
        two = [r.a for r in sections(box)["two groups"] if r.what == "Collective"]
        assert len(set(two)) == 2, "groups that live at the same time are two"
    assert [(r.a, r.b) for r in first.of("Collective")] == [(r.a, r.b) for r in second.of("Collective")]


def test_members_are_named_by_ranges(run):
    from stepscope.hooks import groups

    for ranks, text in (
        ([0], "0"),
        ([0, 1], "0,1"),
        ([3, 1, 2], "3,1,2"),
        (list(range(8192)), "0-8191"),
        (list(range(0, 8192, 8)), "0-8184:8"),
        ([0, 1, 2, 3, 8, 9, 10, 11], "0-3,8-11"),
        ([0, 4, 5, 6, 7, 9], "0,4-7,9"),
        ([*list(range(0, 40, 2)), 41], "0-38:2,41"),
    ):
        assert groups.ranges(ranks) == text
    assert len(groups.ranges(list(range(100_000)))) < 100


def test_the_last_words_find_room(run):
    outcome = run("many_names.py", "exception", "0")
    assert outcome.rc == 1
    assert outcome.box.names_dropped > 0
    assert outcome.box.named(EXCEPTION) == ["ValueError: the last word"]


def test_models_made_again_and_again_leave_room(run):
    box = run("many_names.py", "models", "300").check().box
    assert box.names_dropped == 0


def test_looking_at_the_groups_is_linear_in_their_number(monkeypatch):
    """Counts instructions, not time: 4 times the groups, about 4 times as many."""
    import sys
    import types

    from stepscope.hooks import groups

    class Group:
        group_desc = "undefined"

        def register_pre_hook(self, number, hook):
            pass

    def calls(count):
        many = [Group() for _ in range(count)]
        world = types.SimpleNamespace(
            pg_map=dict.fromkeys(many),
            pg_names={g: str(i) for i, g in enumerate(many)},
            pg_group_ranks={g: {i: 0, i + 1: 1} for i, g in enumerate(many)},
        )
        c10d = types.SimpleNamespace(_world=world, GroupMember=types.SimpleNamespace(WORLD=None))
        monkeypatch.setattr(groups, "_c10d", c10d)
        monkeypatch.setattr(groups, "_known", {})
        monkeypatch.setattr(groups, "_places", {}, raising=False)
        seen = []
        for _ in range(2):  # all of them new, then all of them known
            counted = 0

            def count_one(frame, _event, _arg):
                nonlocal counted
                counted += 1
                frame.f_trace_opcodes = True
                return count_one

            before = sys.gettrace()
            sys.settrace(count_one)
            groups.rescan()
            sys.settrace(before)
            seen.append(counted)
        assert len(groups._known) == count
        return seen

    few, many = calls(25), calls(100)
    assert all(m < 6 * f for f, m in zip(few, many)), (few, many)
