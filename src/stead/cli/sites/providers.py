"""The site of any Placement server: reads it over HTTP provider by provider, and changes it step by step.

For servers without Stead's own features; on Stead, ``documents`` does the same in few requests.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead.cli.errors import CommandError, Negative
from stead.client.errors import Refused
from stead.client.retrying import random_pause
from stead.domain.inventory import Inventory
from stead.topology.plan import Kept, Overcommitted, Plan, Present, PresentSite, plan
from stead.topology.site import Description, Site, site_of
from stead.topology.steps import (
    CreateClass,
    CreateProvider,
    CreateTrait,
    DeleteProvider,
    MoveProvider,
    SetAggregates,
    SetInventories,
    SetTraits,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ATTEMPTS = 6
"""Maximum number of attempts to read and plan a site while other clients change the same providers."""

_FIRST_PAUSE = 0.02  # seconds
_READERS = 8
_NAMED = 5  # over-committed inventories in a message


@dataclass(slots=True)
class Outcome:
    """The result of applying a site, or of a dry run; *parts* is the number of transactions, if parts were sent."""

    steps: list[Step] = field(default_factory=list)
    kept: tuple[Kept, ...] = ()
    overcommitted: tuple[Overcommitted, ...] = ()
    parts: int = 0


class Overcommits(CommandError):
    """A plan would make inventories smaller than their allocations."""

    def __init__(self, overcommitted: Sequence[object], steps_done: int = 0, done: str | None = None) -> None:
        """*done* says what is done, if it is not counted in steps."""
        amounts = "; ".join(map(str, overcommitted[:_NAMED]))
        more = f"; and {len(overcommitted) - _NAMED:,} more" if len(overcommitted) > _NAMED else ""
        if done is None:
            done = f"{steps_done:,} steps are done, the rest is not" if steps_done else "nothing was changed"
        super().__init__(
            f"more is used than the site leaves: {amounts}{more}; {done} "
            "(--dry-run shows all changes, --allow-overcommit applies them)"
        )


@dataclass(frozen=True, slots=True)
class Watcher:
    """Receives progress: *begin* with the name of the work and its size, *advance* after every item."""

    begin: Callable[[str, int], None] = lambda _work, _size: None
    advance: Callable[[], None] = lambda: None


def read_site(api: Any, watcher: Watcher) -> Site:
    """All providers of the server as a site.

    Providers are read one after the other, so that the result is not a snapshot of one moment.
    """
    listed = api.request("GET", "/resource_providers")["resource_providers"]
    return site_of(present.description for present in _read_providers(api, listed, None, watcher, usages=False))


def rehearse(
    api: Any,
    described: Site,
    watcher: Watcher,
    *,
    exact: bool = False,
    prune: bool = False,
    prune_trees: bool = False,
) -> Outcome:
    """The result that :func:`apply` would have."""
    present = _read_present(api, described, watcher, usages=exact or prune or prune_trees)
    proposed = plan(described, present, exact=exact, prune=prune, prune_trees=prune_trees)
    return Outcome(list(proposed.steps), proposed.kept, proposed.overcommitted)


def apply(
    api: Any,
    described: Site,
    watcher: Watcher,
    *,
    exact: bool = False,
    prune: bool = False,
    prune_trees: bool = False,
    allow_overcommit: bool = False,
) -> Outcome:
    """Make the server match *described*; see :func:`stead.topology.plan.plan` for *exact* and *prune*.

    If another client changes the same providers meanwhile, the server is read and the rest is planned again. A claim is
    such a change: it raises the provider's generation, and an inventory is written with the generation that was read
    before its usage. So an inventory is never written on the basis of an outdated usage.

    Raises:
        Overcommits: an inventory would be smaller than its usage, unless *allow_overcommit*. Nothing was written,
            except by an earlier plan that another client interrupted.
        SiteError: the site and the server cannot be matched; the message says why.
        Refused: the server refused a step. The earlier steps are done, and another apply continues from there.
        Negative: other clients changed the providers during all :data:`ATTEMPTS` attempts.
    """
    done = Outcome()
    for attempt in range(ATTEMPTS):
        present = _read_present(api, described, watcher, usages=exact or prune or prune_trees)
        proposed = plan(described, present, exact=exact, prune=prune, prune_trees=prune_trees)
        done.kept, done.overcommitted = proposed.kept, proposed.overcommitted
        if done.overcommitted and not allow_overcommit:
            raise Overcommits(done.overcommitted, len(done.steps))
        try:
            _carry_out(api, proposed, present, done.steps, watcher)
        except Refused as error:
            # 404, too: another client can delete a provider after it was read.
            if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise
            reason = error
            time.sleep(random_pause(attempt, _FIRST_PAUSE))
        else:
            return done
    raise Negative(f"gave up after {ATTEMPTS} attempts, {len(done.steps)} steps are done: {reason}")


def _carry_out(api: Any, proposed: Plan, present: PresentSite, done: list[Step], watcher: Watcher) -> None:
    hands = _Hands(api, {name: _Handle.of(there) for name, there in present.providers.items()})
    watcher.begin("applying", len(proposed.steps))
    for step in proposed.steps:
        try:
            hands.do(step)
        except Refused as error:
            raise error.worded(f"could not {step}: {error.detail}") from error
        done.append(step)
        watcher.advance()


# Reading


def _read_present(api: Any, described: Site, watcher: Watcher, *, usages: bool) -> PresentSite:
    """The input of a plan: the described providers in full; the others only as far as needed to know their usage."""
    listed = api.request("GET", "/resource_providers")["resource_providers"]
    present = _read_providers(api, listed, described, watcher, usages=usages)
    return PresentSite(
        providers={there.description.name: there for there in present},
        classes=frozenset(record["name"] for record in api.request("GET", "/resource_classes")["resource_classes"]),
        traits=frozenset(api.request("GET", "/traits")["traits"]),
    )


def _read_providers(
    api: Any, listed: list[Any], described: Site | None, watcher: Watcher, *, usages: bool
) -> list[Present]:
    names = {record["uuid"]: record["name"] for record in listed}
    watcher.begin("reading", len(listed))

    def read(record: Any) -> Present | None:
        provider = _read_provider(api, record, names, described, usages=usages)
        watcher.advance()
        return provider

    with ThreadPoolExecutor(_READERS) as readers:
        return [there for there in readers.map(read, listed) if there is not None]


def _read_provider(
    api: Any, listed: Any, names: Mapping[str, str], described: Site | None, *, usages: bool
) -> Present | None:
    """One provider; None if it was deleted meanwhile. The usage is read only if inventories may change."""
    get = partial(_get_part, api, f"/resource_providers/{listed['uuid']}")
    in_full = described is None or listed["name"] in described.providers
    described_inventories = described.providers[listed["name"]].inventories if described is not None and in_full else {}
    try:
        inventories = get("inventories") if in_full else {}
        had = {name: Inventory.of(record) for name, record in inventories.get("inventories", {}).items()}
        traits = get("traits") if in_full else {}
        aggregates = get("aggregates") if in_full else {}
        changes = any(had.get(name) != inventory for name, inventory in described_inventories.items())
        used = get("usages") if usages or changes else {}
    except Refused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    parts = [listed["generation"]] + [
        part["resource_provider_generation"] for part in (inventories, traits, aggregates, used) if part
    ]
    description = Description(
        name=listed["name"],
        uuid=listed["uuid"],
        parent=names.get(listed["parent_provider_uuid"]),
        inventories=had,
        traits=frozenset(traits.get("traits", ())),
        aggregates=frozenset(aggregates.get("aggregates", ())),
    )
    # The oldest generation: if the provider changed between two reads, the server refuses a write with it.
    return Present(description, min(parts), used.get("usages", {}))


def _get_part(api: Any, provider: str, part: str) -> Any:
    return api.request("GET", f"{provider}/{part}")


# Writing


@dataclass(slots=True)
class _Handle:
    """The data that a request needs to name a provider and to state its generation."""

    uuid: str
    generation: int

    @classmethod
    def of(cls, there: Present) -> _Handle:
        return cls(str(there.description.uuid), there.generation)


@dataclass(slots=True)
class _Hands:
    """Carries out steps; updates every provider's generation from the server's answers."""

    api: Any
    handles: dict[str, _Handle]

    def do(self, step: Step) -> None:
        match step:
            case CreateClass(name):
                self.api.request("PUT", f"/resource_classes/{name}")
            case CreateTrait(name):
                self.api.request("PUT", f"/traits/{name}")
            case CreateProvider(name, uuid, parent):
                body = {"name": name, "uuid": uuid, "parent_provider_uuid": self._uuid(parent)}
                stated = {key: value for key, value in body.items() if value is not None}
                made = self.api.request("POST", "/resource_providers", stated)
                self.handles[name] = _Handle(made["uuid"], made["generation"])
            case MoveProvider(name, parent):
                body = {"name": name, "parent_provider_uuid": self._uuid(parent)}
                self.api.request("PUT", f"/resource_providers/{self.handles[name].uuid}", body)
            case SetInventories(name, inventories):
                records = {resource_class: asdict(inventory) for resource_class, inventory in inventories.items()}
                self._replace(name, "inventories", records)
            case SetTraits(name, traits):
                self._replace(name, "traits", sorted(traits))
            case SetAggregates(name, aggregates):
                self._replace(name, "aggregates", sorted(aggregates))
            case DeleteProvider(name):
                self.api.request("DELETE", f"/resource_providers/{self.handles[name].uuid}")

    def _replace(self, name: str, part: str, value: Any) -> None:
        handle = self.handles[name]
        body = {part: value, "resource_provider_generation": handle.generation}
        answer = self.api.request("PUT", f"/resource_providers/{handle.uuid}/{part}", body)
        handle.generation = answer["resource_provider_generation"]

    def _uuid(self, name: str | None) -> str | None:
        return None if name is None else self.handles[name].uuid
