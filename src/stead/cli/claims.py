"""``stead claim`` and ``stead release``: claims a place for one consumer or for several, and gives places back.

Stead finds the place and claims it in one request. OpenStack Placement needs a query and a write, between which other
clients may claim the place. Then the server refuses the write and nothing changes. The query is repeated a limited
number of times, after a random, growing pause, so that colliding clients spread out. The query also counts the
consumer's own allocations as used: a consumer that fills a place does not find it again.
"""

from __future__ import annotations

import time
import uuid  # noqa: TC003  # Typer reads the annotations
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import typer

import stead
from stead.cli.aliases import with_name
from stead.cli.arguments import options, read_seconds
from stead.cli.candidates import (
    Candidate,
    Flavor,
    Query,
    amounts_by_group,
    candidate_as_json,
    draw_claim,
    expanded,
    in_rows,
    names_of,
    with_flavor,
)
from stead.cli.consumers import (
    Project,
    Type,
    User,
    consumer_as_json,
    draw_consumers,
    fetch_consumers,
    fetch_consumers_of,
    fetch_places,
    read_names,
    without_allocations,
)
from stead.cli.errors import NO, CommandError, Negative
from stead.cli.server import connect, summary
from stead.cli.terminal import agreed, console, in_words, line_width, print_json, say, show_lines
from stead.cli.tree import find, require_named
from stead.client.calls import OWN, query_of, random_pause
from stead.client.candidate import Summary
from stead.client.consumers import DEFAULT_TYPE, names_of_gang, uuid_of
from stead.client.errors import (
    Conflict,
    NotFound,
    NothingFits,
    NothingFound,
    Refused,
    StartOver,
    Unreachable,
    Unsupported,
)
from stead.client.provider import Room
from stead.printing import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead import Claim, Place, Site
    from stead.client.provider import Consumer

Json = dict[str, Any]
T = TypeVar("T")

claim_app = typer.Typer(add_completion=False)
release_app = typer.Typer(add_completion=False)

TRIES = 10
_FIRST_PAUSE = 0.02  # seconds
_LONGEST_PAUSE = 1.0
_GENERATION = "consumer generation conflict"
_SENDINGS = 3
_MOST_CLAIMS = 1000
_LONGEST_WAIT = 30.0  # seconds of one request that waits for a change
_PAUSE = 0.2  # seconds between two tries at least: on a busy site something changes all the time
_POLL = 1.0  # seconds between two tries, if the server does not support waiting


@dataclass(frozen=True, slots=True)
class Owner:
    """The consumer and its owner; *type* None keeps the type of an existing consumer.

    *name* is that of the command line, which the uuid may be made from.
    """

    consumer: str
    project: str
    user: str
    type: str | None
    name: str = ""

    @property
    def title(self) -> str:
        """The uuid with its names."""
        shown = with_name(self.consumer)
        return shown if self.name in ("", self.consumer) else f"{shown} ({self.name})"


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claimed candidate, the released earlier allocations, the number of attempts, and names by UUID."""

    candidate: Candidate
    replaced: Json
    tries: int
    names: dict[str, str]


@claim_app.command()
def claim(
    project: Annotated[str, typer.Option(help="Project of the consumer.")],
    user: Annotated[str, typer.Option(help="User of the consumer.")],
    query: Query = None,
    flavor: Flavor = None,
    consumer: Annotated[
        uuid.UUID | None,
        typer.Option(metavar="UUID", help="UUID of the consumer. Default: a new UUID."),
    ] = None,
    consumer_name: Annotated[
        str | None,
        typer.Option(help="Name of the consumer, instead of a UUID. The same name is always the same consumer."),
    ] = None,
    consumer_type: Annotated[
        str | None,
        typer.Option("--type", help=f"The consumer's type; {DEFAULT_TYPE} for a new consumer.", show_default=False),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=_MOST_CLAIMS, help="Number of consumers; all get a place, or none.")
    ] = 1,
    distinct_hosts: Annotated[
        bool, typer.Option("--distinct-hosts", help="Place each of several consumers under another root.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also claim for consumers with allocations, instead of those.")
    ] = False,
    wait: Annotated[
        str, typer.Option(help="How long to wait for room if nothing fits: seconds, or 10m. Default 0: do not wait.")
    ] = "0",
) -> None:
    """Claim a place where a request fits: the best by its order_by, else a random one.

    The same claim can be repeated. Another claim for a consumer with allocations is refused. With --replace, it resizes
    the consumer: its allocations count as free. It stays in its tree if it fits there, unless the query has order_by or
    in_tree.
    """
    patience = read_seconds("--wait", wait)
    if consumer is not None and consumer_name is not None:
        raise CommandError("give either --consumer or --consumer-name")
    if consumer_name == "":
        raise CommandError("the value of --consumer-name is empty")
    requested = with_flavor(query, flavor)
    names = names_of_gang(consumer or consumer_name, count)
    is_named = count > 1 or consumer_name is not None
    owners = [Owner(uuid_of(name), project, user, consumer_type, name if is_named else "") for name in names]
    with connect() as site:

        def attempt() -> list[Claimed]:
            if count == 1:
                return [claim_place(site, requested, owners[0], replace=replace)]
            if not site.supports(OWN):
                raise CommandError("--count requires Stead: the server has no POST /claims")
            return claim_gang(site, requested, owners, distinct_hosts=distinct_hosts, replace=replace)

        claimed = _until_it_fits(site, attempt, patience) if patience else attempt()
    report(owners, claimed, names if is_named else None)


def report(owners: list[Owner], claimed: list[Claimed], names: list[str] | None = None) -> None:
    """Say what *owners* have now; *names* are theirs, if they have any."""
    if options().json:
        told = [_as_json(owner, each) for owner, each in zip(owners, claimed, strict=True)]
        if names is not None:
            told = [{"consumer_name": name, **each} for name, each in zip(names, told, strict=True)]
        print_json(told[0] if len(told) == 1 else {"claims": told}, told)
        return
    for place, (owner, each) in enumerate(zip(owners, claimed, strict=True)):
        again = f", at try {each.tries}" if each.tries > 1 else ""
        instead = ", in place of what it held" if each.replaced else ""
        print(f"{chr(10) if place else ''}claimed for consumer {printable(owner.title)}{instead}{again}\n")
        show_lines(draw_claim(each.candidate, each.names, line_width()))


def _as_json(owner: Owner, claimed: Claimed) -> dict[str, Any]:
    return {
        "consumer": owner.consumer,
        "tries": claimed.tries,
        "replaced": claimed.replaced,
        **candidate_as_json(claimed.candidate, claimed.names),
    }


def claim_place(site: Site, query: str, owner: Owner, *, replace: bool = False) -> Claimed:
    """Claim a place for *query*: in one request, or with :func:`claim_first` if the server does not support it.

    Args:
        replace: a consumer with allocations gets the place instead of them. Otherwise that is a conflict.

    Raises:
        Negative: nothing fits or was found, or the claim lost every race.
        Refused: for another reason.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    if site.supports(OWN):
        try:
            (claimed,) = claim_gang(site, query, [owner], replace=replace)
        except (NotFound, Unsupported) as error:
            # Servers of several kinds may share one address: this one does not support the path.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
                raise
        else:
            return claimed
    return claim_first(site, query, owner, replace=replace)


def claim_gang(
    site: Site, query: str, owners: list[Owner], *, distinct_hosts: bool = False, replace: bool = False
) -> list[Claimed]:
    """Claim a place for each of *owners*, or for none, in one request; with *distinct_hosts* each under another root.

    With *replace*, an owner that has a place stays in its tree if all find a place like that. If not, another request
    lets them move.
    If the connection breaks, the request is sent again: the service recognises a claim that it has written.

    Raises:
        As :func:`claim_place`.
    """
    asked = query_of(query)
    described = expanded(site, asked)
    before = [site.find(owner.consumer) if replace else None for owner in owners]
    first = owners[0]  # all have the same project, user and type

    def claim(queries: Sequence[str]) -> list[Claim]:
        consumers = [had or owner.consumer for had, owner in zip(before, owners, strict=True)]
        owned = {"project": first.project, "user": first.user, "type": first.type}
        return _writing(
            first,
            lambda: _again(
                lambda: site.claim_all(queries, consumers, distinct_hosts=distinct_hosts, explain=False, **owned)  # type: ignore[arg-type]  # the three are texts
            ),
        )

    staying = [_in_its_tree(site, described, had) or asked for had in before]
    moving = [asked] * len(owners)
    claims: list[Claim] | None = None
    try:
        if staying != moving:
            with suppress(NothingFits, NothingFound):
                claims = claim(staying)
        claims = claims or claim(moving)
    except (NothingFits, NothingFound) as error:
        require_named(site, asked)
        raise Negative(_why_not(query, error.detail, len(owners))) from error
    except Conflict as error:
        if _GENERATION in error.detail and not replace:
            _require_none(site, owners)
        raise
    return [
        Claimed(candidate, _allocations(had), made.tries, names)
        for made, had in zip(claims, before, strict=True)
        for candidate, names in [_look_at(site, made, amounts_by_group(described))]
    ]


def _allocations(claim: Claim | None) -> Json:
    """What a consumer has, in the form of the API."""
    allocations: Json = {} if claim is None else claim.document["allocations"]
    return allocations


def _require_none(site: Site, owners: list[Owner]) -> None:
    """Check that no consumer has allocations, which a claim would replace.

    Raises:
        CommandError: the first of *owners* that has some. It is not Negative, since waiting for room is no use.
    """
    for owner in owners:
        if had := site.find(owner.consumer):
            refusal = CommandError(
                f"consumer {printable(owner.title)} has {describe(had)} already; --replace claims instead of that"
            )
            refusal.exit_code = NO
            raise refusal


def describe(claim: Consumer | None) -> str:
    """The amounts of all providers together, ``4 VCPU, 8,192 MEMORY_MB``."""
    return "" if claim is None else printable(in_words(claim.amounts))


def _in_its_tree(site: Site, query: str, had: Consumer | None) -> str | None:
    """*query*, only in the tree that has all that a consumer *had*; None without one, or if it says where."""
    keys = {key for key, _ in parse_qsl(query)}
    if had is None or any(key == "order_by" or key.startswith(("in_tree", "in_subtree")) for key in keys):
        return None
    try:
        roots = {site.provider(uuid).root for uuid in had.allocations}
    except Refused:  # a provider was deleted meanwhile, or this user may claim but not read: a place anywhere will do
        return None
    if len(roots) > 1:
        return None
    suffixes = sorted(key.removeprefix("resources") for key in keys if key.startswith("resources"))
    return query + "".join(f"&in_tree{suffix}={root}" for root in roots for suffix in suffixes)


def _writing(owner: Owner, write: Callable[[], T]) -> T:
    try:
        return write()
    except Unreachable as error:
        raise error.worded(
            f"{error.detail}; whether consumer {printable(owner.title)} holds its claim is unknown"
        ) from error


def _again(write: Callable[[], T]) -> T:
    """Call *write*, and again if the connection breaks, a bounded number of times."""
    for tried in range(1, _SENDINGS):
        try:
            return write()
        except Unreachable:
            time.sleep(random_pause(tried, _FIRST_PAUSE, _LONGEST_PAUSE))
    return write()


def _why_not(query: str, detail: str, count: int = 1) -> str:
    """The message that nothing fits; it repeats the service's reason if that says more."""
    times = f"{count} times " if count > 1 else ""
    if not detail.startswith("Nothing fits"):
        return detail
    return f"nothing fits {times}{one_line(query)}; `stead explain` with the same query says why"


def _look_at(site: Site, claim: Claim, groups: Mapping[str, dict[str, int]]) -> tuple[Candidate, dict[str, str]]:
    """A written claim as a candidate, with the state of each provider before it; and the names in its trees.

    Data that cannot be read, or was deleted meanwhile, is left out: the claim is reported anyway.
    """
    read: dict[str, stead.Provider] = {}
    serving = dict.fromkeys([*claim.allocations, *(each for group in claim.mappings.values() for each in group)])
    for provider in serving:
        if provider not in read:
            with suppress(Refused):
                read.update((each.uuid, each) for tree in site.trees(in_tree=provider) for each in tree)
    summaries = {each: _before(each, read.get(each), claim.allocations.get(each, {})) for each in serving}
    candidate = stead.Candidate(claim.allocations, claim.mappings)
    return in_rows(candidate, summaries, groups), {each.uuid: each.name for each in read.values()}


def _before(called: str, provider: stead.Provider | None, claimed: Mapping[str, int]) -> Summary:
    """A provider without what was *claimed* from it."""
    if provider is None:
        return Summary(called, called, None, {}, frozenset())
    rooms = {name: Room(room.capacity, room.used - claimed.get(name, 0)) for name, room in provider.rooms.items()}
    return Summary(called, provider.root, provider.parent, rooms, frozenset())


def claim_first(site: Site, query: str, owner: Owner, tries: int = TRIES, *, replace: bool = False) -> Claimed:
    """Query, and claim the first candidate; repeat up to *tries* times if another client has claimed it meanwhile.

    Raises:
        Negative: nothing fits, or the claim lost every race.
        Refused: another refusal, such as a consumer that another client changes at the same time:
            a retry would overwrite that client's change.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    question = query_of(query, limit=1)
    groups = amounts_by_group(question)
    for tried in range(1, tries + 1):
        before = site.find(owner.consumer) if replace else None
        if not replace:
            _require_none(site, [owner])
        candidates = site.candidates(question)
        if not candidates:
            raise Negative(_why_not(query, "Nothing fits"))
        try:
            _allocate(site, owner, before, candidates[0])
        except Conflict as error:
            if _GENERATION in error.detail:
                raise
            refusal = error
            time.sleep(random_pause(tried, _FIRST_PAUSE, _LONGEST_PAUSE))
        else:
            replaced = {} if before is None else before.allocations
            candidate = in_rows(candidates[0], candidates.summaries, groups, replaced)
            return Claimed(candidate, _allocations(before), tried, names_of(site, [candidate]))
    raise Negative(f"other clients claimed the place first, {tries} times; the last refusal: {summary(refusal)}")


def _allocate(site: Site, owner: Owner, before: Claim | None, candidate: stead.Candidate) -> None:
    consumer = before or owner.consumer
    _writing(
        owner,
        lambda: site.allocate(candidate, consumer, project=owner.project, user=owner.user, type=owner.type),
    )


def _until_it_fits(site: Site, attempt: Callable[[], T], seconds: float) -> T:
    """What *attempt* returns, tried at once and after each change of the server, for *seconds*.

    Raises:
        Negative: the last attempt raised it.
    """
    deadline = time.monotonic() + seconds
    token = _token(site)  # before the attempt, so that no change after it is missed
    while True:
        try:
            return attempt()
        except Negative:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            token = _next_change(site, token, min(remaining, _LONGEST_WAIT))


def _token(site: Site) -> str | None:
    with suppress(Refused):
        return site.changes().token
    return None


def _next_change(site: Site, token: str | None, seconds: float) -> str | None:
    """Wait for a change after *token*; returns the token to go on from."""
    try:
        if token is not None:
            # The API takes whole seconds, and with 0 it would not wait.
            changes = site.changes(token, wait=max(int(seconds), 1))
            time.sleep(_PAUSE)
            return changes.token
    except StartOver:
        return _token(site)
    except Refused:  # it restarts, for example; the token stays valid
        pass
    time.sleep(min(seconds, _POLL))
    return token or _token(site)


# ``stead release``.


@release_app.command()
def release(
    consumers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONSUMER",
            help="UUIDs or names of consumers; - reads them from standard input, one on each line. Or give options.",
            show_default=False,
        ),
    ] = None,
    project: Project = None,
    user: User = None,
    consumer_type: Type = None,
    all_of: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Only consumers of a host. All their allocations are released, also elsewhere."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Release without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the consumers without releasing anything.")] = False,
) -> None:
    """Release all allocations of consumers, or of all consumers that options select.

    Several consumers are listed first, and the command asks. For orphans, which no service knows any more, see
    `stead help consumer list`.
    """
    is_selected = any(each is not None for each in (project, user, consumer_type, all_of))
    if bool(consumers) == is_selected:
        raise CommandError(
            "give either consumers, or --project, --user, --type or --all-of (see `stead release --help`)"
        )
    with connect() as site:
        if consumers and (len(consumers) > 1 or consumers == ["-"]):
            _release_named(site, _read_names(consumers), yes=yes, dry_run=dry_run)
        elif consumers:
            _release_one(site, consumers[0], dry_run=dry_run)
        elif all_of is None:
            listed = fetch_consumers(site, project, user, consumer_type)
            _release_several(site, listed, yes=yes, dry_run=dry_run)
        else:
            of_host = fetch_consumers_of(site, find(site, all_of).provider)
            chosen = [each for each in of_host if _passes(each, project, user, consumer_type)]
            whole = [site.find(each.consumer) for each in chosen]  # with all their allocations
            _release_several(site, [each for each in whole if each is not None], yes=yes, dry_run=dry_run)


def _read_names(words: Sequence[str]) -> list[str]:
    """The consumers that *words* name, each once, with the lines of standard input in the place of ``-``."""
    names: list[str] = []
    for word in words:
        names += read_names(Path("-")) if word == "-" else [word]
    return list(dict.fromkeys(names))


def _release_named(site: Site, names: Sequence[str], *, yes: bool, dry_run: bool) -> None:
    listed, missing = [], {}
    for name in names:
        uuid = uuid_of(name or "–")
        claim = site.find(uuid)
        if claim is None:
            missing[uuid] = without_allocations(name)
        else:
            listed.append(claim)
    _release_several(site, listed, yes=yes, dry_run=dry_run, missing=missing)


def _passes(consumer: Consumer, project: str | None, user: str | None, consumer_type: str | None) -> bool:
    pairs = ((project, consumer.project), (user, consumer.user), (consumer_type, consumer.type))
    return all(chosen in (None, own) for chosen, own in pairs)


def _release_one(site: Site, name: str, *, dry_run: bool) -> None:
    uuid = uuid_of(name or "–")
    claim = site.find(uuid)
    if claim is None:
        raise Negative(without_allocations(name))
    if not dry_run:
        site.release(uuid)
    if options().json:
        print_json({"consumer": uuid, "released": _allocations(claim), **({"dry_run": True} if dry_run else {})})
    else:
        say(f"{'would release' if dry_run else 'released'} {printable(with_name(uuid))}: {describe(claim)}")


def _release_several(
    site: Site, listed: Sequence[Claim], *, yes: bool, dry_run: bool, missing: Mapping[str, str] = MappingProxyType({})
) -> None:
    """List, ask, and release each at the generation that was listed, so that a changed consumer stays.

    Args:
        missing: why other consumers cannot be released, by uuid.
    """
    places = fetch_places(site, (provider for each in listed for provider in each.allocations))
    if not options().json:
        show_lines(draw_consumers(listed, places, line_width()))
    if listed and not (dry_run or yes or _agreed(listed, places)):
        raise CommandError("nothing was released")
    failures = dict(missing)
    for each in listed if not dry_run else ():
        try:
            each.release()
        except Unreachable:
            raise
        except Refused as error:
            failures[each.consumer] = summary(error)
    released = [each for each in listed if each.consumer not in failures]
    if options().json:
        print_json(
            {
                "dry_run": dry_run,
                "released": [consumer_as_json(each, places) for each in released],
                "failed": [{"uuid": uuid, "reason": reason} for uuid, reason in failures.items()],
            }
        )
    else:
        for uuid, reason in failures.items():
            say(one_line(f"not released: {with_name(uuid)}: {reason}"))
        if listed and not dry_run:
            say(f"released {len(released):,} of {_consumers(len(listed))}")
    if failures:
        raise typer.Exit(NO)


def _agreed(listed: Sequence[Consumer], places: Mapping[str, Place]) -> bool:
    """Whether the operator says yes. The list is on stdout already, unless that has JSON alone."""
    listing = draw_consumers(listed, places, console(stderr=True).width) if options().json else ()
    question = f"Release all allocations of {_consumers(len(listed))}?"
    return agreed(question, "releasing several consumers", listing)


def _consumers(count: int) -> str:
    return "1 consumer" if count == 1 else f"{count:,} consumers"
