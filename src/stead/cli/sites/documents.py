"""A site as Stead has it: written in documents of whole trees, one request for each part of the site.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stead.cli.sites.providers import Outcome, Overcommits, Watcher
from stead.client.calls import TREES
from stead.client.errors import CapacityBelowUse, Refused, TooLarge
from stead.domain.inventory import Inventory
from stead.topology.parts import Part, as_name, as_record, halves, parts_of
from stead.topology.plan import Kept, Overcommitted
from stead.topology.steps import (
    CreateClass,
    CreateProvider,
    CreateTrait,
    DeleteProvider,
    InventoryChange,
    MoveProvider,
    RenameProvider,
    SetAggregates,
    SetInventories,
    SetTraits,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.topology.site import Description, Site

PART = 2_000
"""Providers in one request: some seconds of work, for which claims from them wait."""

_ROUTE = "/provider_trees"
_ROOTS = f"{_ROUTE}?depth=0&fields=name&limit=10000"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a site is applied.

    Attributes:
        exact: described providers lose what their descriptions do not have.
        prune: the same, and the described trees lose the providers that are not described.
        prune_all: the same, and all other trees are deleted.
        allow_overcommit: a capacity may become less than its use.
        dry_run: nothing is written.
    """

    exact: bool = False
    prune: bool = False
    prune_all: bool = False
    allow_overcommit: bool = False
    dry_run: bool = False

    @property
    def options(self) -> dict[str, bool]:
        """The options of every document."""
        return {
            "merge": not (self.exact or self.prune or self.prune_all),
            "keep_used": True,
            "create_names": True,
            "allow_overcommit": self.allow_overcommit,
            "dry_run": self.dry_run,
        }


def apply(api: Any, described: Site, watcher: Watcher, manner: Manner, *, size: int = PART) -> Outcome:
    """Make the server say what *described* says, part by part; each part is one transaction.

    Args:
        size: providers in one request.

    Raises:
        Overcommits: a capacity would be less than its use, and that is not allowed.
        Refused: the server refused a part; the message says which parts before it are written.
    """
    return _Applying(api, described, watcher, manner).run(size)


class _Applying:
    def __init__(self, api: Any, described: Site, watcher: Watcher, manner: Manner) -> None:
        self._api = api
        self._site = described
        self._watcher = watcher
        self._manner = manner
        self._outcome = Outcome()
        self._written: list[Part] = []
        self._new_names: set[str] = set()
        self._deleted: set[str] = set()

    def run(self, size: int) -> Outcome:
        manner = self._manner
        prunes = manner.prune or manner.prune_all
        parts = parts_of(self._site, size)
        is_one = len(parts) == 1 and parts[0].is_whole
        others = self._other_roots() if manner.prune_all and is_one else []
        is_one = is_one and len(others) <= size
        self._watcher.begin("applying", len(parts))
        for part in parts:
            self._write(part, prune=prunes and is_one, others=others if is_one else [])
            self._watcher.advance()
        if prunes and not is_one:
            # Only now: a provider may have moved from the tree of one part to that of another.
            self._watcher.begin("pruning", len(parts))
            for part in parts:
                self._prune(part)
                self._watcher.advance()
        if manner.prune_all and not is_one:
            self._prune_other_trees(size)
        return self._outcome

    def _write(self, part: Part, *, prune: bool, others: Sequence[str] = ()) -> None:
        """Write *part*. With *prune*, also delete what its trees have beside it, and the trees of *others*."""
        document = _document(list(map(as_record, part.providers)), prune=prune, emptied=others)
        try:
            answer = self._put(document)
        except Refused as error:
            if _is_too_large(error, part):
                for half in halves(part, self._site):
                    self._write(half, prune=False)
                if prune:  # only now, as in `run`
                    self._prune(part)
                if others:
                    self._prune_other_trees(len(part.providers))
                return
            raise self._failure(error, part) from error
        self._note(answer)
        self._written.append(part)
        self._outcome.parts += 1

    def _prune(self, part: Part) -> None:
        """Delete what the trees of *part* have beside it; the part itself is written already."""
        if not part.is_whole:
            first = part.providers[0].name
            raise TooLarge(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the tree of {first} is too large to be pruned in one request"
            )
        document = _document(list(map(as_name, part.providers)), prune=True)
        try:
            answer = self._put(document)
        except Refused as error:
            if _is_too_large(error, part):
                for half in halves(part, self._site):
                    self._prune(half)
                return
            raise self._failure(error, part) from error
        self._note_removals(answer)

    def _other_roots(self) -> list[str]:
        """The uuids of the roots that the site does not describe."""
        names = self._site.providers
        return [uuid for uuid, name in _roots(self._api) if name not in names]

    def _prune_other_trees(self, size: int) -> None:
        """Delete the trees of which the site describes no provider, and of others what it does not describe."""
        names = self._site.providers
        roots = self._other_roots()
        # Described providers whose parents are on the server only keep their ancestors.
        below = [as_name(uuid) for uuid in names.values() if _top(uuid, self._site) not in names]
        self._watcher.begin("pruning", len(roots))
        for start in range(0, len(roots), size):
            portion = roots[start : start + size]
            self._note_removals(self._put(_document(below, prune=True, emptied=portion)))
            for _ in portion:
                self._watcher.advance()

    def _put(self, document: dict[str, Any]) -> Any:
        return self._api.request("PUT", _ROUTE, {**document, **self._manner.options}, stead=TREES)

    def _failure(self, error: Refused, part: Part) -> Exception:
        """*error* with the parts that are written, if there are any."""
        if isinstance(error, CapacityBelowUse):
            done = f"{self._told_written()}, the rest is not" if self._written else None
            return Overcommits([_Lowered(record) for record in error.overcommitted], done=done)
        if not self._written:
            return error
        return error.worded(f"{error.detail} (in the part {part}); {self._told_written()}, the rest is not")

    def _told_written(self) -> str:
        shown = ", ".join(str(part) for part in self._written[-3:])
        count = sum(len(part.providers) for part in self._written)
        return f"{count:,} providers in {len(self._written):,} parts are written (the last: {shown})"

    def _note(self, answer: Any) -> None:
        names = answer["created_names"]
        steps: list[CreateClass | CreateTrait] = [
            *map(CreateClass, names["resource_classes"]),
            *map(CreateTrait, names["traits"]),
        ]
        for step in steps:  # each part of a dry run plans them again
            if step.name not in self._new_names:
                self._new_names.add(step.name)
                self._outcome.steps.append(step)
        for record in answer["providers"]:
            self._outcome.steps += _steps(record, self._site.providers[record["name"]])
        self._note_removals(answer)
        changes = {record["name"]: record["differences"].get("inventories", {}) for record in answer["providers"]}
        self._outcome.overcommitted += tuple(
            Overcommitted(
                record["name"], _change(record["resource_class"], changes[record["name"]][record["resource_class"]])
            )
            for record in answer["overcommitted"]
        )

    def _note_removals(self, answer: Any) -> None:
        # In a dry run, a provider that moves to the tree of another part still is where it was.
        names = self._site.providers
        steps = self._outcome.steps
        deleted = {record["name"]: None for record in answer["deleted"] if record["name"] not in names}
        steps += [DeleteProvider(name) for name in deleted if name not in self._deleted]
        self._deleted.update(deleted)
        self._outcome.kept += tuple(
            _kept(record)
            for record in answer["remaining"]
            if record["resource_class"] is not None or record["name"] not in names
        )


@dataclass(frozen=True, slots=True)
class _Lowered:
    """A capacity that the server refused."""

    record: Any

    def __str__(self) -> str:
        record = self.record
        return (
            f"{record['resource_class']} of provider {record['name']}: {record['used']:,} used, "
            f"capacity {record['capacity_before']:,} -> {record['capacity_after']:,}"
        )


def _is_too_large(error: Refused, part: Part) -> bool:
    """Whether the server may accept *part* in two requests."""
    return error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(part.providers) > 1


def _document(records: list[dict[str, Any]], *, prune: bool, emptied: Sequence[str] = ()) -> dict[str, Any]:
    """A document of *records*, which with *prune* also deletes the trees of the roots *emptied*."""
    trees: list[dict[str, Any]] = [{"root_provider_uuid": uuid, "providers": []} for uuid in emptied]
    return {"provider_trees": [{"providers": records}, *trees], "prune": prune}


def has_documents(api: Any) -> bool:
    """Whether the server takes documents of whole trees."""
    return bool(api.supports(TREES))


def _top(described: Description, site: Site) -> str:
    """The name of the nearest ancestor that the site does not describe; if there is none, of the described root."""
    while described.parent is not None:
        if described.parent not in site.providers:
            return described.parent
        described = site.providers[described.parent]
    return described.name


def _roots(api: Any) -> Iterator[tuple[str, str]]:
    """The uuids and names of all roots."""
    path: str | None = _ROOTS
    while path is not None:
        page = api.request("GET", path, stead=TREES)
        yield from ((tree["root_provider_uuid"], tree["providers"][0]["name"]) for tree in page["provider_trees"])
        path = next_page(page)


def next_page(page: Any) -> str | None:
    """The path of the page that follows *page*, without the server's prefix."""
    href = next((link["href"] for link in page["links"] if link["rel"] == "next"), None)
    return None if href is None else f"{_ROUTE}?{urlsplit(href).query}"


def _steps(record: Any, described: Description) -> Iterator[Step]:
    """What was done with one provider, as steps."""
    name, differences = record["name"], record["differences"]
    for change in record["changes"]:
        match change:
            case "created":
                yield CreateProvider(name, described.uuid, described.parent)
            case "renamed":
                yield RenameProvider(name, differences["name"]["before"])
            case "moved":
                yield MoveProvider(name, described.parent)
            case "inventories":
                inventories = differences["inventories"]
                changes = tuple(_change(name, inventories[name]) for name in inventories)
                yield SetInventories(name, described.inventories, changes)
            case "traits":
                yield SetTraits(name, described.traits, _words(differences["traits"]))
            case "aggregates":
                yield SetAggregates(name, described.aggregates, _words(differences["aggregates"]))


def _change(resource_class: str, difference: Any) -> InventoryChange:
    before, after = (None if difference[key] is None else Inventory.of(difference[key]) for key in ("before", "after"))
    return InventoryChange(resource_class, before, after, difference["used"])


def _words(difference: Any) -> str:
    signs = [f"+{name}" for name in difference["added"]] + [f"-{name}" for name in difference["removed"]]
    return ", ".join(signs)


def _kept(record: Any) -> Kept:
    if record["resource_class"] is not None:
        return Kept(record["name"], record["resource_class"], f"{record['used']} in use")
    if record["needed_by"] is not None:
        return Kept(record["name"], None, f"it is the parent of {record['needed_by']}, which stays")
    return Kept(record["name"], None, "it has allocations")
