"""A site over HTTP: read and written in documents of whole trees, or provider by provider on other services.

Source: "PUT /provider_trees", docs/stead-api.md.
"""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stead.cli.errors import CommandError, Negative
from stead.client.calls import MOST_TREES, TREES, random_pause
from stead.client.errors import CapacityBelowUse, NotFound, Refused, Stale, TooLarge
from stead.domain.provider import Inventory
from stead.topology.plan import (
    CreateClass,
    CreateProvider,
    CreateTrait,
    DeleteProvider,
    InventoryChange,
    MoveProvider,
    NotPruned,
    Overcommitted,
    Plan,
    Present,
    PresentSite,
    RenameProvider,
    SetAggregates,
    SetInventories,
    SetTraits,
    Step,
    plan,
)
from stead.topology.provider_config import COMPUTE_NODE, settle
from stead.topology.site import Description, Part, Site, SiteError, as_name, as_record, halves, parts_of, site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import stead
    from stead import Provider
    from stead.topology.provider_config import Addition


PART = 2_000
"""Providers in one request: some seconds of work, for which claims from them wait."""

_ROUTE = "/provider_trees"


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
            "exact": self.exact or self.prune or self.prune_all,
            "keep_used": True,
            "create_names": True,
            "allow_overcommit": self.allow_overcommit,
            "dry_run": self.dry_run,
        }


def apply_documents(api: Any, described: Site, watcher: Watcher, manner: Manner, *, size: int = PART) -> Outcome:
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
        return self._api.apply(document, **self._manner.options).document

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
        self._outcome.overcommitted += tuple(_overcommitted(answer))

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
    for tree in api.trees(depth=0, fields="name", limit=MOST_TREES):
        yield tree.root.uuid, tree.root.name


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


def _overcommitted(answer: Any) -> Iterator[Overcommitted]:
    """The capacities that a dry run, or a write that allows it, makes less than their use."""
    changes = {record["name"]: record["differences"].get("inventories", {}) for record in answer["providers"]}
    for record in answer["overcommitted"]:
        name, resource_class = record["name"], record["resource_class"]
        yield Overcommitted(name, _change(resource_class, changes[name][resource_class]))


def _change(resource_class: str, difference: Any) -> InventoryChange:
    before, after = (None if difference[key] is None else Inventory.of(difference[key]) for key in ("before", "after"))
    return InventoryChange(resource_class, before, after, difference["used"])


def _words(difference: Any) -> str:
    signs = [f"+{name}" for name in difference["added"]] + [f"-{name}" for name in difference["removed"]]
    return ", ".join(signs)


def _kept(record: Any) -> NotPruned:
    if record["resource_class"] is not None:
        return NotPruned(record["name"], record["resource_class"], f"{record['used']} in use")
    if record["needed_by"] is not None:
        return NotPruned(record["name"], None, f"it is the parent of {record['needed_by']}, which stays")
    return NotPruned(record["name"], None, "it has allocations")


# What configuration files of nova add to providers, in one document of those that change.


def apply_additions(api: stead.Site, additions: Sequence[Addition], hosts: Sequence[str], *, dry_run: bool) -> Outcome:
    """Give providers what *additions* say, and remove what earlier ones gave them.

    Providers below the host and those that are identified are compared. The rest of the site stays as it is. The
    document has the generations that were read, so it is a transaction over reading and writing.

    Args:
        hosts: possible names of the host; the first that exists is it.

    Raises:
        SiteError: an addition is for a provider that does not exist, or two are for the same.
        Overcommits: a capacity would be less than its use.
        Negative: other clients changed the providers during all :data:`ATTEMPTS` attempts.
    """
    for attempt in range(ATTEMPTS):
        try:
            return _add(api, _compared(api, additions, hosts), dry_run=dry_run)
        except Stale as error:
            reason = error
            time.sleep(random_pause(attempt, _FIRST_PAUSE))
        except CapacityBelowUse as error:
            lowered = [_Lowered(record) for record in error.overcommitted]
            raise Overcommits(lowered, done="nothing was changed", advice="release claims first") from error
    raise Negative(f"gave up after {ATTEMPTS} attempts: {reason}")


def _compared(
    api: stead.Site, additions: Sequence[Addition], hosts: Sequence[str]
) -> list[tuple[Provider, Addition | None]]:
    """The providers that may change, each with what is added to it."""
    host: Provider | None = None
    found: dict[str, Provider] = {}
    for called in hosts:
        try:
            tree = api.tree(called)
        except NotFound:
            continue
        host = tree.find(called)
        if host is not None:
            found = {each.uuid: each for each in tree.below(host)}
            break
    added: dict[str, Addition] = {}
    for addition in additions:
        if addition.provider == COMPUTE_NODE and not addition.is_name:
            provider, missing = host, f"{' or '.join(hosts)}, for {COMPUTE_NODE}; name the host with --host"
        else:
            provider, missing = _identified(api, addition, found), addition.provider
        if provider is None:
            raise SiteError(f"{addition.place}: no resource provider {missing}")
        first = added.setdefault(provider.uuid, addition)
        if first is not addition:
            raise SiteError(
                f"{addition.place}: provider {addition.provider!r} is described twice; first in {first.place}"
            )
        found[provider.uuid] = provider
    return [(provider, added.get(uuid)) for uuid, provider in found.items()]


def _identified(api: stead.Site, addition: Addition, found: Mapping[str, Provider]) -> Provider | None:
    for each in found.values():
        if addition.provider == (each.name if addition.is_name else each.uuid):
            return each
    if addition.is_name:
        listed = next(iter(api.providers(name=addition.provider)), None)
        if listed is None:
            return None
        return api.tree(listed.uuid).find(listed.uuid)
    try:
        return api.tree(addition.provider).find(addition.provider)
    except NotFound:
        return None


def _add(api: stead.Site, compared: Sequence[tuple[Provider, Addition | None]], *, dry_run: bool) -> Outcome:
    outcome = Outcome()
    settled: list[Description] = []
    records: list[dict[str, Any]] = []
    for provider, addition in compared:
        inventories = {name: Inventory(**asdict(each)) for name, each in (provider.inventories or {}).items()}
        present = Description(
            provider.name, provider.uuid, inventories=inventories, traits=provider.traits or frozenset()
        )
        wanted, kept = settle(present, provider.usages or {}, addition)
        outcome.kept += tuple(kept)
        if wanted == present:
            continue
        settled.append(wanted)
        record = as_record(wanted)
        # Only what may change. A name would undo what renames the provider meanwhile.
        parts = {part: record[part] for part in ("uuid", "inventories", "traits")}
        records.append({**parts, "generation": provider.generation})
    if not records:
        return outcome
    answer = api.apply(_document(records, prune=False), exact=True, create_names=True, dry_run=dry_run).document
    outcome.steps += map(CreateClass, answer["created_names"]["resource_classes"])
    outcome.steps += map(CreateTrait, answer["created_names"]["traits"])
    for changed, wanted in zip(answer["providers"], settled, strict=True):
        outcome.steps += _steps(changed, wanted)
    outcome.overcommitted = tuple(_overcommitted(answer))
    return outcome


# The site of any Placement server: reads it over HTTP provider by provider, and changes it step by step.
#
# For servers without Stead's own features; on Stead, ``documents`` does the same in few requests.


ATTEMPTS = 6
"""Maximum number of attempts to read and plan a site while other clients change the same providers."""

_FIRST_PAUSE = 0.02  # seconds
_READERS = 8
_NAMED = 5  # over-committed inventories in a message


@dataclass(slots=True)
class Outcome:
    """The result of applying a site, or of a dry run; *parts* is the number of transactions, if parts were sent."""

    steps: list[Step] = field(default_factory=list)
    kept: tuple[NotPruned, ...] = ()
    overcommitted: tuple[Overcommitted, ...] = ()
    parts: int = 0


class Overcommits(CommandError):
    """A plan would make inventories smaller than their allocations."""

    def __init__(
        self,
        overcommitted: Sequence[object],
        steps_done: int = 0,
        done: str | None = None,
        advice: str = "--dry-run shows all changes, --allow-overcommit applies them",
    ) -> None:
        """*done* says what is done, if it is not counted in steps."""
        amounts = "; ".join(map(str, overcommitted[:_NAMED]))
        more = f"; and {len(overcommitted) - _NAMED:,} more" if len(overcommitted) > _NAMED else ""
        if done is None:
            done = f"{steps_done:,} steps are done, the rest is not" if steps_done else "nothing was changed"
        super().__init__(f"more is used than the site leaves: {amounts}{more}; {done} ({advice})")


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


def apply_steps(
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


# A site as one moment of the server shows it, read in pages of whole trees.
#
# Source: "GET /provider_trees", docs/stead-api.md.


READ_ATTEMPTS = 10
"""How often a site is read, while other clients change it."""

_FIRST = "/provider_trees?limit=10000&fields=name,parent_provider_uuid,inventories,traits,aggregates"


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer; ``allocations`` are amounts by the provider's name and the class."""

    uuid: str
    project: str
    user: str
    consumer_type: str
    allocations: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class SiteSnapshot:
    """A site at one moment; ``holders`` are the consumers, in the order of their uuids, if they were read."""

    site: Site
    holders: list[Holder] | None = None


def read_snapshot(api: Any, watcher: Watcher, *, allocations: bool) -> SiteSnapshot:
    """All providers, and all consumers if *allocations*.

    The tag of a page tells its moment. If all pages have one tag, they show one moment. Otherwise the site is read
    again: what two readings in a row show alike was so between them, whatever was claimed meanwhile.

    Raises:
        Negative: the site changed during every attempt.
    """
    before: Any = None
    for _ in range(READ_ATTEMPTS):
        records, tags = _read_trees(api, watcher)
        consumers = [claim.document for claim in api.claims()] if allocations else None
        if allocations:
            # After the consumers: only equal tags on both sides prove that they are of the same moment.
            tags.add(_tagged(api, "/provider_trees?limit=1&fields=name&depth=0")[1])
        now = records, consumers
        if len(tags) == 1 or now == before:
            names = {record["uuid"]: record["name"] for record in records}
            holders = None if consumers is None else [_holder(consumer, names) for consumer in consumers]
            return SiteSnapshot(site_of(_description(record, names) for record in records), holders)
        before = now
    raise Negative(f"other clients changed the site during each of {READ_ATTEMPTS} attempts to read it")


def _read_trees(api: Any, watcher: Watcher) -> tuple[list[Any], set[str]]:
    """The providers of all pages, and the tags of the pages."""
    records: list[Any] = []
    tags: set[str] = set()
    path: str | None = _FIRST
    while path is not None:
        page, tag = _tagged(api, path)
        if not records:
            watcher.begin("reading", page["tree_count"])
        for tree in page["provider_trees"]:
            records += tree["providers"]
            watcher.advance()
        tags.add(tag)
        path = next_page(page)
    return records, tags


def _tagged(api: Any, path: str) -> tuple[Any, str]:
    """A page and its tag."""
    reply = api.response("GET", path, stead=TREES)
    return reply.json(), reply.headers.get("etag", "")


def _description(record: Any, names: dict[str, str]) -> Description:
    parent = record["parent_provider_uuid"]
    return Description(
        name=record["name"],
        uuid=record["uuid"],
        parent=None if parent is None else names[parent],
        inventories={name: Inventory.of(inventory) for name, inventory in record["inventories"].items()},
        traits=frozenset(record["traits"]),
        aggregates=frozenset(record["aggregates"]),
    )


def _holder(consumer: Any, names: dict[str, str]) -> Holder:
    allocations = {
        names.get(uuid, uuid): allocation["resources"] for uuid, allocation in consumer["allocations"].items()
    }
    return Holder(consumer["uuid"], consumer["project_id"], consumer["user_id"], consumer["consumer_type"], allocations)


# Python's cyclic garbage collector, in commands that read large sites.


@contextmanager
def paused_collector() -> Iterator[None]:
    """Do not search for cycles during the block.

    A site of many providers is many small objects without cycles, all needed until the command ends. Each search
    visits all of them and frees none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
