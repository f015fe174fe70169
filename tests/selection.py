"""Which parametrisations a run has: ``--run quick``, ``--run rest``, or all that are selected.

The quick run has every test function, and every case of it on one database: the cases go through the databases in turn.
A test in EVERY_DATABASE, where SQL is the subject, or with the mark ``every_database`` runs on each of them. So every
statement of the store runs on each database; `tests/statements.py` lists those that do not. Of three or more
parameters, the cases of the quick run have all pairs of values. Of a test with the mark ``costly``, or with a timeout
of its own that is longer than usual, the quick run has one case. It also takes fewer examples of properties, see
`examples`.

``--run rest`` is the remainder: the other cases, and all properties with all their examples. It is for `make thorough`.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import is_hypothesis_test

from tests.databases import kind_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

EVERY_DATABASE = ("tests/rooms/store/",)
"""Beginnings of the paths of tests of which each function runs on each database, also in the quick run."""

FEWEST_EXAMPLES = 30

_VARIABLE = "STEAD_TEST_RUN"  # for `examples`, which modules call when they are imported


def examples(number: int, *, quick: int | None = None) -> int:
    """The budget of a property: *number* examples.

    Args:
        quick: so many in the quick run, where each example takes long; else a quarter, but not fewer than 30.
    """
    if os.environ.get(_VARIABLE) != "quick":
        return number
    return max(min(number, FEWEST_EXAMPLES), number // 4) if quick is None else quick


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("stead").addoption(
        "--run", choices=["quick", "rest"], help="Run each test once, or the parametrisations that this leaves out."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_database: the quick run also has this test on each kind of database")
    config.addinivalue_line("markers", "costly: each case takes seconds; the quick run has one of them")
    config.addinivalue_line("markers", "property: it draws its own `examples`; the rest has it again, with all of them")
    config.addinivalue_line("markers", "each_value: the quick run has each value of each parameter, not each pair")
    os.environ[_VARIABLE] = config.getoption("--run") or ""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Without the collector of garbage, which finds none among so many items, nor looks at them again afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = config.getoption("--run")
    if run is None:
        return
    quick = quick_items(items)
    kept = [item for item in items if (item in quick if run == "quick" else item not in quick or is_property(item))]
    selected = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = kept


def is_property(item: pytest.Item) -> bool:
    """Whether *item* has a budget of examples: it is one of Hypothesis, or its mark says so."""
    is_marked = item.get_closest_marker("property") is not None
    return (
        is_marked or is_hypothesis_test(getattr(item, "obj", None)) or hasattr(getattr(item, "cls", None), "settings")
    )


def quick_items(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """The items of the quick run."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    return {item for name, its in functions.items() for item in _of_function(name, its)}


def _of_function(name: str, items: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    cases: dict[str, dict[str | None, pytest.Item]] = defaultdict(dict)
    for item in items:
        cases[_case(item)][kind_of(item)] = item
    one_of_each = {case: next(iter(of_kind.values())) for case, of_kind in cases.items()}
    turn = crc32(name.encode())
    if _is_costly(items[0]):
        covering = [list(cases)[turn % len(cases)]]
    else:
        covering = _covering(one_of_each, 1 if items[0].get_closest_marker("each_value") else 2)
    is_on_every = name.startswith(EVERY_DATABASE) or items[0].get_closest_marker("every_database") is not None
    shares = not is_on_every and _shares(items[0])
    # The tests of a module whose fixtures start a server on a database take the same one: there is one server less.
    if shares:
        turn = crc32(name.partition("::")[0].encode())
    left = set(next(iter(cases.values()))) if is_on_every else set()
    for place, case in enumerate(covering):
        kinds = list(cases[case])
        chosen = kinds[(turn + (0 if shares else place)) % len(kinds)]
        yield cases[case][chosen]
        left.discard(chosen)
    # Fewer cases than databases: the first case has the others.
    yield from (cases[covering[0]][kind] for kind in left if kind in cases[covering[0]])


def _is_costly(item: pytest.Item) -> bool:
    usual = float(item.config.getini("timeout") or 0)
    timeout = item.get_closest_marker("timeout")
    return item.get_closest_marker("costly") is not None or (timeout is not None and timeout.args[0] > usual)


def _case(item: pytest.Item) -> str:
    """The name of a case, the same on each database."""
    kind = kind_of(item)
    parts = item.name.partition("[")[2].removesuffix("]").split("-")
    if kind in parts:
        parts.remove(kind)
    return "-".join(parts)


def _shares(item: pytest.Item) -> bool:
    """Whether a fixture that the module or a class has once depends on the kind of database."""
    info = getattr(item, "_fixtureinfo", None)
    of_name = info.name2fixturedefs if info else {}
    return any(
        each.scope in {"module", "class"} and _depends_on_database(each.argnames, of_name)
        for defined in of_name.values()
        for each in defined
    )


def _depends_on_database(names: Iterable[str], of_name: dict[str, Sequence[pytest.FixtureDef[object]]]) -> bool:
    return any(
        name == "database_server"
        or any(_depends_on_database(set(each.argnames) - {name}, of_name) for each in of_name.get(name, ()))
        for name in names
    )


def _covering(cases: Mapping[str, pytest.Item], strength: int) -> list[str]:
    """Some of *cases* that together have every combination of *strength* values of parameters that all of them have."""
    missing: dict[str, set[Hashable]] = {}
    for case, item in cases.items():
        params = item.callspec.params if hasattr(item, "callspec") else {}
        values = [(name, id(value)) for name, value in params.items() if name != "database_server"]
        if len(values) <= strength:
            return list(cases)
        missing[case] = set(combinations(values, strength))
    chosen: list[str] = []
    while any(missing.values()):
        best = max(missing, key=lambda case: len(missing[case]))
        chosen.append(best)
        found = missing.pop(best)
        for left in missing.values():
            left -= found
    return chosen
