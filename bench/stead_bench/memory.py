"""The memory of a snapshot for each provider, class, trait and aggregate: a part of ``stead-bench memory``.

Each rung of a ladder loads a site with more of one thing, reads it as clients do, and counts the memory that this
process then has in use for it. The ladder shows whether memory is linear in what exists.
"""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

import numpy as np

from stead.api.tree_text import whole_text
from stead.candidates.engine import Enumeration, answer
from stead.candidates.provider_trees import site_totals
from stead.candidates.render import Form
from stead.catalog import listing
from stead.catalog.loading import Loading
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.domain.changes import (
    Changes,
    InventoriesByColumn,
    InventoryRow,
    MembersByColumn,
    NameRow,
    Portion,
    ProviderRow,
    ProvidersByColumn,
    UsageByColumn,
)
from stead.domain.names import SHARES_VIA_AGGREGATE
from stead.domain.request import CandidateRequest, RequestGroup, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PORTION = 5_000
"""Providers of one portion of a load."""

READ = 50
"""Classes, traits and aggregates of each kind that are read: masks of all of them would fill their bounded cache."""

SHARES, COMMON, RACKS = 1, 3, 100
"""The id of the trait of sharing providers; classes that all hosts have; hosts of an aggregate."""


@dataclass
class Content:
    """What a site has, by provider id from 1 on."""

    hosts: int
    parents: dict[int, int] = field(default_factory=dict)
    classes: dict[int, list[int]] = field(default_factory=dict)
    traits: dict[int, tuple[int, ...]] = field(default_factory=dict)
    aggregates: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def classes_of(self, provider: int) -> Sequence[int]:
        """The ids of the classes of a provider: its own, and for a host those that all hosts have."""
        return [*range(1, COMMON + 1), *self.classes.get(provider, ())]

    def names(self) -> Changes:
        classes = {class_id for ids in self.classes.values() for class_id in ids} | set(range(1, COMMON + 1))
        traits = {trait for ids in self.traits.values() for trait in ids} - {SHARES}
        aggregates = {aggregate for ids in self.aggregates.values() for aggregate in ids}
        return Changes(
            None,
            everything=True,
            traits=[NameRow(SHARES, SHARES_VIA_AGGREGATE, 0), *(NameRow(id_, trait_name(id_), 0) for id_ in traits)],
            resource_classes=[NameRow(id_, class_name(id_), 0) for id_ in classes],
            aggregate_uuids={id_: _uuid("aggregate", id_) for id_ in aggregates},
        )

    def snapshot(self) -> Snapshot:
        """The site as a worker loads it."""
        loading = Loading(refreshed(Snapshot.empty(), self.names()))
        for first in range(1, self.hosts + 1, PORTION):
            loading.add(self.portion(range(first, min(first + PORTION, self.hosts + 1))))
        return loading.snapshot()

    def portion(self, ids: range) -> Portion:
        """The providers with these ids, as a load reads them."""
        rows = [row for id_ in ids for row in self.inventories(id_)]
        own = list(ids)
        return Portion(
            None,
            ProvidersByColumn(
                own,
                [_uuid("provider", id_) for id_ in ids],
                [f"host-{id_:07}" for id_ in ids],
                [1] * len(own),
                [self.parents.get(id_) for id_ in ids],
                [self.parents.get(id_, id_) for id_ in ids],
                [0] * len(own),
            ),
            InventoriesByColumn(*map(list, zip(*rows, strict=True))),
            UsageByColumn([], [], []),
            _members(self.traits, ids),
            _members(self.aggregates, ids),
            {},
        )

    def inventories(self, provider: int) -> list[InventoryRow]:
        """The inventories of a provider."""
        return [InventoryRow(provider, class_id, 64, 0, 1, 64, 1, 1.0, 0) for class_id in self.classes_of(provider)]

    def change_of(self, provider: int) -> Changes:
        """The change after which a provider is as it is here."""
        row = ProviderRow(provider, _uuid("provider", provider), f"host-{provider:07}", 2, None, provider, 0)
        return Changes(
            None,
            provider_ids=[provider],
            providers=[row],
            inventories=self.inventories(provider),
            traits_of={provider: self.traits.get(provider, ())},
            aggregates_of={provider: self.aggregates.get(provider, ())},
            aggregate_uuids={id_: _uuid("aggregate", id_) for id_ in self.aggregates.get(provider, ())},
        )


def _members(members_of: Mapping[int, tuple[int, ...]], ids: range) -> MembersByColumn:
    having = [id_ for id_ in ids if members_of.get(id_)]
    return MembersByColumn(having, [members_of[id_] for id_ in having])


def class_name(id_: int) -> str:
    """The name of a class."""
    return f"CUSTOM_RESERVATION_{id_:07}"


def trait_name(id_: int) -> str:
    """The name of a trait."""
    return f"CUSTOM_TRAIT_{id_:07}"


def _uuid(kind: str, id_: int) -> str:
    return str(uuid5(UUID(int=0), f"{kind} {id_}"))


def _providers(number: int, hosts: int) -> Content:
    del hosts
    models = {id_: tuple(range(2 + id_ % 64, 32 + id_ % 64)) for id_ in range(1, number + 1)}
    return Content(number, traits=models, aggregates={id_: (1 + id_ // RACKS,) for id_ in range(1, number + 1)})


def _nested(number: int, hosts: int) -> Content:
    del hosts
    return Content(number, parents={id_: id_ - (id_ - 1) % 7 for id_ in range(1, number + 1) if (id_ - 1) % 7})


def _one_each(number: int, hosts: int) -> dict[int, list[int]]:
    """By provider, the numbers up to *number*, one after the other."""
    each: dict[int, list[int]] = {}
    for place in range(number):
        each.setdefault(1 + place % hosts, []).append(COMMON + 1 + place)
    return each


def _classes(number: int, hosts: int) -> Content:
    return Content(hosts, classes=_one_each(number, hosts))


def _classes_of_one(number: int, hosts: int) -> Content:
    return Content(hosts, classes=_one_each(number, 1))


def _traits(number: int, hosts: int) -> Content:
    return Content(hosts, traits={id_: tuple(traits) for id_, traits in _one_each(number, hosts).items()})


def _traits_of_one(number: int, hosts: int) -> Content:
    return Content(hosts, traits={1: tuple(_one_each(number, 1)[1])})


def _aggregates(number: int, hosts: int) -> Content:
    return Content(hosts, aggregates={id_: tuple(members) for id_, members in _one_each(number, hosts).items()})


def _aggregates_of_one(number: int, hosts: int) -> Content:
    return Content(hosts, aggregates={1: tuple(_one_each(number, 1)[1])})


def _sharing(number: int, hosts: int) -> Content:
    """Sharing providers and hosts in one aggregate: each provider serves each host."""
    everyone = range(1, number + hosts + 1)
    return Content(
        len(everyone),
        traits=dict.fromkeys(everyone[:number], (SHARES,)),
        aggregates=dict.fromkeys(everyone, (1,)),
    )


def _changes(content: Callable[[int], Content]) -> Callable[[int, int], Iterable[Changes]]:
    def changes(number: int, hosts: int) -> Iterable[Changes]:
        del hosts
        for step in range(number):
            names = content(step).names()
            yield replace(content(step).change_of(1), traits=names.traits, resource_classes=names.resource_classes)

    return changes


MOST_CHANGES = 1_000
"""Changes follow each other one by one, so more take long."""

PER_CHANGE = 100
"""Classes, traits or aggregates of a provider whose changes are measured."""


def _new_traits(step: int) -> Content:
    first = COMMON + 1 + step
    return Content(1, traits={1: tuple(range(first, first + PER_CHANGE))})


def _new_aggregates(step: int) -> Content:
    first = COMMON + 1 + step % PER_CHANGE  # the aggregates themselves stay, as they do in the database
    return Content(1, aggregates={1: tuple(range(first, first + PER_CHANGE))})


def _new_classes(step: int) -> Content:
    first = COMMON + 1 + step * PER_CHANGE
    return Content(1, classes={1: list(range(first, first + PER_CHANGE))})


@dataclass(frozen=True)
class Ladder:
    """A kind of thing, with what a site of it has, or with the changes that follow each other on a site of hosts."""

    of: str
    content: Callable[[int, int], Content] | None = None
    changes: Callable[[int, int], Iterable[Changes]] | None = None


LADDERS = (
    Ladder("provider with three classes and 30 traits", _providers),
    Ladder("provider in trees of seven", _nested),
    Ladder("class of one provider each", _classes),
    Ladder("class, all of one provider", _classes_of_one),
    Ladder("trait of one provider each", _traits),
    Ladder("trait, all of one provider", _traits_of_one),
    Ladder("aggregate of one provider each", _aggregates),
    Ladder("aggregate, all of one provider", _aggregates_of_one),
    Ladder("sharing provider, all in one aggregate", _sharing),
    Ladder("change to 100 other traits of one provider", changes=_changes(_new_traits)),
    Ladder("change to 100 other aggregates of one provider", changes=_changes(_new_aggregates)),
    Ladder("change to 100 other classes of one provider", changes=_changes(_new_classes)),
)


@dataclass(frozen=True)
class Rung:
    """The memory of a site with *number* things, in bytes: in use after the reads, and at most while it was loaded."""

    of: str
    number: int
    bytes_in_use: int
    bytes_at_most: int

    @property
    def bytes_each(self) -> float:
        """Bytes in use for each thing."""
        return self.bytes_in_use / self.number


def rung(ladder: Ladder, number: int, hosts: int) -> Rung:
    """Load a site of *hosts* hosts with *number* things, read it, and count its memory.

    What the same site takes without these things is subtracted, unless they are the providers themselves.
    """
    warm_up()
    empty = 0 if ladder.content in (_providers, _nested) else _bytes(Content(hosts), (), hosts)[0]
    content = Content(hosts) if ladder.content is None else ladder.content(number, hosts)
    in_use, most = _bytes(content, () if ladder.changes is None else ladder.changes(number, hosts), hosts)
    return Rung(ladder.of, number, in_use - empty, most - empty)


@cache
def warm_up() -> None:
    """Load and read a small site, so that modules and tables of this process are not counted for the first rung."""
    for _ in range(2):
        read(_sharing(20, 20).snapshot())
        read(_classes(20, 20).snapshot())


def _bytes(content: Content, changes: Iterable[Changes], hosts: int) -> tuple[int, int]:
    del hosts
    gc.collect()
    tracemalloc.start()
    try:
        snapshot = content.snapshot()
        for change in changes:
            snapshot = refreshed(snapshot, change)
        read(snapshot)
        most = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return tracemalloc.get_traced_memory()[0], most
    finally:
        tracemalloc.stop()


def read(snapshot: Snapshot) -> None:
    """Read a site as clients do: candidates of some classes and traits, sums, metrics, and one provider in full."""
    classes = snapshot.class_names.rows
    groups = [RequestGroup("", {row.name: 1}) for row in (*classes[:READ], *classes[-READ:])]
    common = next((row.name for row in classes if row.id in snapshot.inventory), None)
    if common is not None:
        traits = snapshot.trait_names.rows
        groups += [
            RequestGroup("", {common: 1}, traits=Terms((frozenset([row.name]),)))
            for row in (*traits[:READ], *traits[-READ:])
        ]
    for group in groups:
        # The limit keeps the texts of answers small: those of all providers are cached up to a bound.
        for _ in answer(snapshot, CandidateRequest((group,), limit=1), Enumeration(), Form()).body:
            pass
    whole_text(site_totals(snapshot))
    members = np.ones(snapshot.size, np.bool_)
    for _ in listing.sums(snapshot, members):
        pass
    for place, (_, mask) in enumerate(listing.members_of_aggregates(snapshot)):
        for _ in listing.sums(snapshot, mask):
            pass
        if place == READ:
            break
    if snapshot.size:
        snapshot.inventories(0)
        len(snapshot.sharing.circles)
