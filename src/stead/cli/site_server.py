"""A site as a server has it: read over HTTP, and changed step by step."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead.cli.errors import ApiError, CommandError, Negative
from stead.domain.inventory import Inventory
from stead.topology.plan import (
    CreateClass,
    CreateProvider,
    CreateTrait,
    DeleteProvider,
    Kept,
    MoveProvider,
    Overcommitted,
    Plan,
    Present,
    PresentSite,
    SetAggregates,
    SetInventories,
    SetTraits,
    Step,
    plan,
)
from stead.topology.site import Description, Site, site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ATTEMPTS = 6
"""How often a site is read and planned anew because somebody else changes the same providers."""

_FIRST_PAUSE = 0.02  # seconds; doubled from attempt to attempt
_READERS = 8
_NAMED = 5  # over-committed inventories in a message


@dataclass(slots=True)
class Outcome:
    """What applying a site did, or, as a rehearsal, would do."""

    steps: list[Step] = field(default_factory=list)
    kept: tuple[Kept, ...] = ()
    overcommitted: tuple[Overcommitted, ...] = ()


class Overcommits(CommandError):
    """A plan would make inventories smaller than what is allocated from them."""

    def __init__(self, overcommitted: tuple[Overcommitted, ...], steps_done: int = 0) -> None:
        amounts = "; ".join(map(str, overcommitted[:_NAMED]))
        more = f"; and {len(overcommitted) - _NAMED:,} more" if len(overcommitted) > _NAMED else ""
        done = f"{steps_done:,} steps are done, the rest is not" if steps_done else "nothing was changed"
        super().__init__(
            f"more is used than the site leaves: {amounts}{more}; {done} "
            "(--dry-run shows all changes, --allow-overcommit applies them)"
        )


@dataclass(frozen=True, slots=True)
class Watcher:
    """Whom to tell how far the work is: *begin* with a word for the work and its size, *advance* after every piece."""

    begin: Callable[[str, int], None] = lambda _work, _size: None
    advance: Callable[[], None] = lambda: None


def read_site(api: Any, watcher: Watcher) -> Site:
    """All that the server says about providers, as a site file would say it.

    Providers are read one after the other: what changes meanwhile is in it as it was when its turn came.
    """
    listed = api.get("/resource_providers")["resource_providers"]
    return site_of(present.description for present in _read_providers(api, listed, None, watcher, usages=False))


def rehearse(api: Any, described: Site, watcher: Watcher, *, exact: bool = False, prune: bool = False) -> Outcome:
    """What :func:`apply` would do."""
    present = _read_present(api, described, watcher, usages=exact or prune)
    proposed = plan(described, present, exact=exact, prune=prune)
    return Outcome(list(proposed.steps), proposed.kept, proposed.overcommitted)


def apply(
    api: Any,
    described: Site,
    watcher: Watcher,
    *,
    exact: bool = False,
    prune: bool = False,
    allow_overcommit: bool = False,
) -> Outcome:
    """Make the server say what *described* says; see :func:`stead.topology.plan.plan` for *exact* and *prune*.

    If another client changes the same providers meanwhile, the server is read and the rest planned again. A claim is
    such a change: it raises the provider's generation, and an inventory is written at the generation that was read
    before its use. So no inventory is ever written on the strength of a use that has grown since.

    Raises:
        Overcommits: an inventory would be smaller than its use, unless *allow_overcommit*. Nothing was written, but for
            what a plan before had done when another client interfered.
        SiteError: the site and the server cannot be brought together; the message says why.
        ApiError: the server refused a step; the ones before it are done, and applying again goes on from there.
        Negative: somebody else was faster each of :data:`ATTEMPTS` times.
    """
    done = Outcome()
    for attempt in range(ATTEMPTS):
        present = _read_present(api, described, watcher, usages=exact or prune)
        proposed = plan(described, present, exact=exact, prune=prune)
        done.kept, done.overcommitted = proposed.kept, proposed.overcommitted
        if done.overcommitted and not allow_overcommit:
            raise Overcommits(done.overcommitted, len(done.steps))
        try:
            _carry_out(api, proposed, present, done.steps, watcher)
        except ApiError as error:
            if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise
            reason = error
            time.sleep(_FIRST_PAUSE * 2**attempt * random.random())  # two that met do not meet again
        else:
            return done
    raise Negative(f"gave up after {ATTEMPTS} attempts, {len(done.steps)} steps are done: {reason}")


def _carry_out(api: Any, proposed: Plan, present: PresentSite, done: list[Step], watcher: Watcher) -> None:
    hands = _Hands(api, {name: _Handle.of(there) for name, there in present.providers.items()})
    watcher.begin("applying", len(proposed.steps))
    for step in proposed.steps:
        try:
            hands.do(step)
        except ApiError as error:
            raise ApiError(error.status, error.code, f"could not {step}: {error.detail}") from error
        done.append(step)
        watcher.advance()


# Reading


def _read_present(api: Any, described: Site, watcher: Watcher, *, usages: bool) -> PresentSite:
    """What a plan looks at: the described providers in full, the others in full measure only to see who is in use."""
    listed = api.get("/resource_providers")["resource_providers"]
    found = _read_providers(api, listed, described, watcher, usages=usages)
    return PresentSite(
        providers={there.description.name: there for there in found},
        classes=frozenset(one["name"] for one in api.get("/resource_classes")["resource_classes"]),
        traits=frozenset(api.get("/traits")["traits"]),
    )


def _read_providers(
    api: Any, listed: list[Any], described: Site | None, watcher: Watcher, *, usages: bool
) -> list[Present]:
    names = {one["uuid"]: one["name"] for one in listed}
    watcher.begin("reading", len(listed))

    def read(one: Any) -> Present | None:
        found = _read_provider(api, one, names, described, usages=usages)
        watcher.advance()
        return found

    with ThreadPoolExecutor(_READERS) as readers:
        return [there for there in readers.map(read, listed) if there is not None]


def _read_provider(
    api: Any, listed: Any, names: Mapping[str, str], described: Site | None, *, usages: bool
) -> Present | None:
    """One provider; None if it was deleted after it was listed. What is used is read where inventories will change."""
    get = partial(_get_part, api, f"/resource_providers/{listed['uuid']}")
    in_full = described is None or listed["name"] in described.providers
    wanted = described.providers[listed["name"]].inventories if described is not None and in_full else {}
    try:
        inventories = get("inventories") if in_full else {}
        had = {name: Inventory(**record) for name, record in inventories.get("inventories", {}).items()}
        traits = get("traits") if in_full else {}
        aggregates = get("aggregates") if in_full else {}
        changes = any(had.get(name) != inventory for name, inventory in wanted.items())
        used = get("usages") if usages or changes else {}
    except ApiError as error:
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
    # The oldest of the generations: if the provider changed between two reads, a write with it is refused.
    return Present(description, min(parts), used.get("usages", {}))


def _get_part(api: Any, provider: str, part: str) -> Any:
    return api.get(f"{provider}/{part}")


# Writing


@dataclass(slots=True)
class _Handle:
    """What a request needs to name a provider and to show that it knows its present state."""

    uuid: str
    generation: int

    @classmethod
    def of(cls, there: Present) -> _Handle:
        return cls(str(there.description.uuid), there.generation)


@dataclass(slots=True)
class _Hands:
    """Carries out steps; keeps every provider's generation current by what the server answers."""

    api: Any
    handles: dict[str, _Handle]

    def do(self, step: Step) -> None:
        match step:
            case CreateClass(name):
                self.api.put(f"/resource_classes/{name}")
            case CreateTrait(name):
                self.api.put(f"/traits/{name}")
            case CreateProvider(name, uuid, parent):
                body = {"name": name, "uuid": uuid, "parent_provider_uuid": self._uuid(parent)}
                made = self.api.post("/resource_providers", {key: body[key] for key in body if body[key] is not None})
                self.handles[name] = _Handle(made["uuid"], made["generation"])
            case MoveProvider(name, parent):
                body = {"name": name, "parent_provider_uuid": self._uuid(parent)}
                self.api.put(f"/resource_providers/{self.handles[name].uuid}", body)
            case SetInventories(name, inventories):
                records = {resource_class: asdict(inventory) for resource_class, inventory in inventories.items()}
                self._replace(name, "inventories", records)
            case SetTraits(name, traits):
                self._replace(name, "traits", sorted(traits))
            case SetAggregates(name, aggregates):
                self._replace(name, "aggregates", sorted(aggregates))
            case DeleteProvider(name):
                self.api.delete(f"/resource_providers/{self.handles[name].uuid}")

    def _replace(self, name: str, part: str, value: Any) -> None:
        handle = self.handles[name]
        body = {part: value, "resource_provider_generation": handle.generation}
        answer = self.api.put(f"/resource_providers/{handle.uuid}/{part}", body)
        handle.generation = answer["resource_provider_generation"]

    def _uuid(self, name: str | None) -> str | None:
        return None if name is None else self.handles[name].uuid
