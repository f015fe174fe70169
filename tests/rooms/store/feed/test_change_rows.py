"""What the store hands to a catalog has the types that ``domain.changes`` promises, on every database."""

from __future__ import annotations

import collections.abc
import types
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import pytest

from stead.domain import changes as columns
from stead.domain import changes as domain
from stead.domain.changes import Changes, Portion
from stead.domain.provider import Disabled
from stead.store import traits
from stead.store.feed.refresh_source import ChangeSource, names_of, state_of
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Callable

AGGREGATE = "4d1a7e1e-6f0c-4f6b-9f6d-0d6d1c9a3b11"
NAMES = vars(collections.abc) | vars(domain) | vars(columns) | {"Disabled": Disabled}


def mistyped(value: Any, hint: Any, place: str) -> list[str]:
    """Where *value* is not what *hint* says: an int is no bool, and no Decimal; a row is of its own class."""
    if hint is object or hint is Any:
        return []
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        ways = [mistyped(value, each, place) for each in arguments]
        return [] if [] in ways else ways[0]
    if origin is tuple:
        assert arguments[1] is ...
        wrong = [] if type(value) is tuple else [f"{place} is a {type(value).__name__}"]
        return wrong + [fault for each in value for fault in mistyped(each, arguments[0], f"{place}[…]")]
    if origin is not None:
        if not isinstance(value, origin):
            return [f"{place} is a {type(value).__name__}"]
        if issubclass(origin, collections.abc.Mapping):
            keys = [fault for key in value for fault in _key_mistyped(key, arguments[0], place)]
            return keys + [fault for each in value.values() for fault in mistyped(each, arguments[1], f"{place}[…]")]
        return [fault for each in value for fault in mistyped(each, arguments[0], f"{place}[…]")]
    if type(value) is not hint:
        return [f"{place} is a {type(value).__name__}, not a {hint.__name__}"]
    named = getattr(hint, "_fields", ())
    hints = get_type_hints(hint, NAMES) if named else {}
    return [fault for name in named for fault in mistyped(getattr(value, name), hints[name], f"{place}.{name}")]


def _key_mistyped(key: Any, hint: Any, place: str) -> list[str]:
    if get_origin(hint) is tuple:
        parts = zip(key, get_args(hint), strict=True)
        return [fault for part, part_hint in parts for fault in mistyped(part, part_hint, f"a key of {place}")]
    return mistyped(key, hint, f"a key of {place}")


def faults(changes: Changes | Portion) -> list[str]:
    hints = get_type_hints(type(changes), NAMES)
    return [
        fault
        for each in fields(changes)
        for fault in mistyped(getattr(changes, each.name), hints[each.name], each.name)
    ]


@pytest.fixture
def hosts(empty_books: Books) -> tuple[str, str]:
    """Two hosts and a child, with all that a provider may have."""
    first, second = empty_books.provider(VCPU=8, DISK_GB=100), empty_books.provider(VCPU=8)
    empty_books.provider(parent=first, VCPU=2)
    empty_books.aggregate(first, AGGREGATE)
    empty_books.trait(first, "HW_CPU_X86_VMX", "HW_CPU_X86_AVX")
    empty_books.claim(fresh_uuid(), {first: {"VCPU": 1, "DISK_GB": 5}})
    empty_books.execute("UPDATE inventories SET allocation_ratio = 1.1")
    return first, second


def test_a_load_has_the_types_it_promises(empty_books: Books, hosts: tuple[str, str]) -> None:
    source = ChangeSource(empty_books.store)
    names, portion = source.changes(None)
    source.close()
    for name in ("aggregate_uuids", "traits", "resource_classes"):
        assert getattr(names, name), name
    assert isinstance(portion, Portion)
    assert len(portion.providers.ids) == 3
    for name in ("inventories", "used", "traits_of", "aggregates_of"):
        assert all(getattr(portion, name)), name
    assert faults(names) + faults(portion) == []


CHANGES: dict[str, tuple[tuple[str, ...], Callable[[Books, str], Any]]] = {
    "whole": (("providers", "inventories", "traits_of"), lambda books, host: books.rename(host, "renamed")),
    "claimed": (("claimed", "used"), lambda books, host: books.claim(fresh_uuid(), {host: {"VCPU": 1}})),
    "names": (("traits",), lambda books, host: books.service.write(traits.create, "CUSTOM_NEW")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_difference_has_the_types_it_promises(empty_books: Books, hosts: tuple[str, str], change: str) -> None:
    source = ChangeSource(empty_books.store)
    moment = list(source.changes(None))[-1].moment
    filled, make = CHANGES[change]
    make(empty_books, hosts[0])
    (difference,) = source.changes(moment)
    source.close()
    assert isinstance(difference, Changes)
    assert not difference.everything
    assert all(getattr(difference, name) for name in filled)
    assert faults(difference) == []


def test_what_a_reconcile_pass_reads_has_the_types_it_promises(empty_books: Books, hosts: tuple[str, str]) -> None:
    dialect = empty_books.store.dialect
    ids = empty_books.store.read(
        lambda connection: connection.exec_driver_sql("SELECT id FROM resource_providers").scalars().all()
    )
    state = empty_books.store.read(state_of, dialect, ids)
    assert len(state.providers) == 3
    assert faults(state) == []
    assert faults(empty_books.store.read(names_of, dialect)) == []
