"""``stead consumer list``, ``consumer show``, ``usage`` and ``who``: what consumers have, in tables and sums."""

from __future__ import annotations

import json
from copy import copy
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.aliases import IDS, with_name
from stead.cli.arguments import age_text, name_of, options, read_age, read_file, read_moment
from stead.cli.errors import CommandError, Negative
from stead.cli.forest import walk
from stead.cli.server import connect
from stead.cli.terminal import (
    amount_text,
    draw_list,
    in_words,
    line_width,
    number,
    page_lines,
    print_json,
    read_all,
    wrapped,
)
from stead.cli.text import Text
from stead.cli.tree import find
from stead.client.consumers import uuid_of
from stead.client.errors import Refused
from stead.client.provider import add_up
from stead.printing import class_order, in_class_order, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stead import Claim, Place, Site
    from stead.cli.forest import Provider
    from stead.client.provider import Amounts, Consumer

consumer_app = typer.Typer(add_completion=False, no_args_is_help=True, help="List and show consumers: who has what.")
usage_app = typer.Typer(add_completion=False)
who_app = typer.Typer(add_completion=False)

Project = Annotated[str | None, typer.Option(help="Only consumers of this project.")]
User = Annotated[str | None, typer.Option(help="Only consumers of this user.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only consumers of this type; unknown: those without one.")
]
OlderThan = Annotated[
    str | None, typer.Option(metavar="AGE", help="Only consumers that are older, such as 90s, 30m, 12h, 7d.")
]


@consumer_app.command("list")
def list_consumers(
    project: Project = None,
    user: User = None,
    consumer_type: Type = None,
    older_than: OlderThan = None,
    expires_before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only consumers whose lease ends before: 30m, 12h, or a time with a zone."),
    ] = None,
    not_in: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Only orphans: consumers that this file lacks. It has a UUID on each line, or is the output of "
            "`openstack server list -f json`; - reads standard input.",
        ),
    ] = None,
) -> None:
    """List consumers with their project, user, type, age, hosts and allocations, and the sums."""
    age = None if older_than is None else read_age("--older-than", older_than)
    before = None if expires_before is None else read_moment("--expires-before", expires_before)
    known = None if not_in is None else _known(not_in)
    with connect() as site:
        listed = fetch_consumers(site, project, user, consumer_type, before)
        if age is not None:
            listed = [each for each in listed if _created(each) <= datetime.now(UTC) - age]
        if known is not None:
            listed = [each for each in listed if each.consumer not in known]
        _show_consumers(site, listed)


def _known(path: Path) -> set[str]:
    """The consumers that a file names.

    Raises:
        CommandError: none, as after a list that failed: every consumer would be an orphan.
    """
    known = {uuid_of(name) for name in read_names(path)}
    if not known:
        raise CommandError(f"--not-in: {name_of(path)} has no UUIDs, so that every consumer would be an orphan")
    return known


_MOST_BYTES = 256 * 1024 * 1024


def read_names(path: Path) -> list[str]:
    """The UUIDs or names in a file: one on each line, or a JSON list of texts or of objects with an ``ID``.

    Raises:
        CommandError: it cannot be read, or is neither.
    """
    text = read_file(path, _MOST_BYTES).decode(errors="replace").strip()
    if not text.startswith("["):
        lines = (line.strip() for line in text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]
    try:
        items = json.loads(text)
        names = [item if isinstance(item, str) else next(item[key] for key in IDS if key in item) for item in items]
    except (ValueError, TypeError, StopIteration):
        raise CommandError(
            f"{name_of(path)}: expected a UUID on each line, or a JSON list of objects with an ID"
        ) from None
    return [str(name) for name in names]


def _created(consumer: Consumer) -> datetime:
    if consumer.created_at is None:
        raise CommandError("the server does not tell the age of consumers; --older-than requires a newer Stead")
    return consumer.created_at


def _show_consumers(site: Site, listed: Sequence[Consumer]) -> None:
    places = fetch_places(site, (provider for each in listed for provider in each.allocations))
    if options().json:
        print_json(consumers_as_json(listed, places))
    else:
        page_lines(draw_consumers(listed, places, line_width()))


@consumer_app.command()
def show(
    consumer: Annotated[str, typer.Argument(help="UUID or name of the consumer.", show_default=False)],
) -> None:
    """Show one consumer: its owner, and its allocations by provider."""
    uuid = uuid_of(consumer or "–")
    with connect() as site:
        shown = site.find(uuid)
        if shown is None:
            raise Negative(without_allocations(consumer))
        places = fetch_places(site, shown.allocations)
    if options().json:
        told = consumer_as_json(shown, places)
        print_json(told, [told])
    else:
        page_lines(draw_consumer(shown, places, line_width()))


def without_allocations(name: str) -> str:
    """That the consumer with this name or uuid has none."""
    uuid = uuid_of(name or "–")
    return f"no allocations of {name!r}" + ("" if uuid == name else f" (consumer {uuid})")


class By(StrEnum):
    """The kind of the sums."""

    PROJECT = "project"
    USER = "user"
    TYPE = "type"


@usage_app.command()
def usage(
    project: Project = None,
    user: User = None,
    consumer_type: Type = None,
    by: Annotated[
        By, typer.Option(metavar="project|user|type", help="Sums per project, user or type.", show_default=True)
    ] = By.PROJECT,
) -> None:
    """Show the number of consumers and the sums of their allocations, per project, user or type."""
    with connect() as site:
        sums = sums_by(by, fetch_consumers(site, project, user, consumer_type))
    if options().json:
        usages = [
            {by.value: key, "consumers": count, "resources": in_class_order(amounts)}
            for key, (count, amounts) in sorted(sums.items())
        ]
        print_json({"usages": usages, "totals": in_class_order(add_up(amounts for _, amounts in sums.values()))})
        return
    page_lines(draw_sums(by.value, sums, line_width()))


def sums_by(by: By, consumers: Iterable[Consumer]) -> dict[str, tuple[int, Amounts]]:
    """The number of consumers and the amounts per class, by project, user or type."""
    groups: dict[str, list[Amounts]] = {}
    for consumer in consumers:
        groups.setdefault(getattr(consumer, by.value), []).append(consumer.amounts)
    return {key: (len(several), add_up(several)) for key, several in groups.items()}


@who_app.command()
def who(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="UUID or name of a host, or of another provider.", show_default=False)
    ],
) -> None:
    """List the consumers of a host: those with allocations from it or a provider below it."""
    with connect() as site:
        _show_consumers(site, fetch_consumers_of(site, find(site, host).provider))


# Reading: also for ``stead release`` and for plans.


def fetch_consumers(
    site: Site, project: str | None, user: str | None, consumer_type: str | None, expires_before: str | None = None
) -> list[Claim]:
    """The consumers with these owners and this type, ordered by uuid; ``unknown``: those without a type."""
    claims = site.claims(project=project, user=user, type=consumer_type, expires_before=expires_before)
    return read_all("reading consumers", claims)


def fetch_consumers_of(site: Site, top: Provider) -> list[Consumer]:
    """The consumers with allocations from *top* or a provider below it, with these allocations only."""
    below = {each.uuid for each in walk([top])}
    consumers = []
    for consumer in site.claims(in_tree=top.uuid):  # of the whole tree, in which top may be deep
        allocations = {uuid: amounts for uuid, amounts in consumer.allocations.items() if uuid in below}
        if allocations:
            part: Consumer = copy(consumer)
            part.allocations = allocations
            consumers.append(part)
    return consumers


def fetch_places(site: Site, providers: Iterable[str]) -> Mapping[str, Place]:
    """The names of providers and of their hosts, by uuid; without those that were deleted or may not be read."""
    try:
        return site.places(providers)
    except Refused:
        return {}


# Drawing.


_HEADINGS = ("consumer", "type", "project", "user", "age", "ends", "host", "allocations")
_MOST_HOSTS = 2


def draw_consumers(
    consumers: Sequence[Consumer], places: Mapping[str, Place], width: int, now: datetime | None = None
) -> Iterator[Text]:
    """The lines of a table and of the sums, none longer than *width* cells. Empty columns are left out."""
    if not consumers:
        yield Text("no consumers", style="dim")
        return
    rows = [_row(consumer, places, now or datetime.now(UTC)) for consumer in consumers]
    shown = [place for place in range(len(_HEADINGS)) if any(row[place] for row in rows)]
    yield from draw_list(
        [_HEADINGS[place] for place in shown], [[row[place] for place in shown] for row in rows], width
    )
    yield Text()
    sums = in_words(add_up(consumer.amounts for consumer in consumers))
    yield from wrapped(Text(f"{_counted(len(consumers))}: {printable(sums)}", style="bold"), width, 2)


def draw_consumer(consumer: Consumer, places: Mapping[str, Place], width: int) -> Iterator[Text]:
    """The lines of one consumer and of its allocations by provider."""
    facts = {
        "consumer": with_name(consumer.consumer),
        "type": consumer.type,
        "project": with_name(consumer.project),
        "user": with_name(consumer.user),
        "generation": str(consumer.generation),
        "created": f"{consumer.created_at:%Y-%m-%d %H:%M:%S %Z}" if consumer.created_at else "",
        "ends": f"{consumer.expires_at:%Y-%m-%d %H:%M:%S %Z} ({consumer.on_expiry})" if consumer.expires_at else "",
    }
    for title, text in facts.items():
        if text:
            yield from wrapped(Text.assemble((title.ljust(12), "dim"), printable(text)), width, min(12, width // 2))
    yield Text()
    rows = [
        (_name(provider, places), _host(provider, places), in_words(amounts))
        for provider, amounts in sorted(consumer.allocations.items(), key=lambda pair: _name(pair[0], places))
    ]
    yield from draw_list(("provider", "host", "allocations"), rows, width)


def draw_sums(by: str, sums: Mapping[str, tuple[int, Mapping[str, int]]], width: int) -> Iterator[Text]:
    """The lines of sums: for each value of *by*, the number of consumers and the amounts per class."""
    if not sums:
        yield Text("no consumers", style="dim")
        return
    classes = sorted({name for _, amounts in sums.values() for name in amounts}, key=class_order)
    rows = [
        [
            with_name(key),
            number(count),
            *(amount_text(name, amounts[name]) if name in amounts else "–" for name in classes),
        ]
        for key, (count, amounts) in sorted(sums.items())
    ]
    if len(sums) > 1:
        everything = add_up(dict(amounts) for _, amounts in sums.values())
        rows.append(
            [
                "all",
                number(sum(count for count, _ in sums.values())),
                *(amount_text(name, everything[name]) for name in classes),
            ]
        )
    headings = (by, "consumers", *classes)
    yield from draw_list(headings, rows, width, headings[1:])


def consumer_as_json(consumer: Consumer, places: Mapping[str, Place]) -> dict[str, Any]:
    """All data of a consumer."""
    return {
        "uuid": consumer.consumer,
        "project": consumer.project,
        "user": consumer.user,
        "type": consumer.type,
        "generation": consumer.generation,
        "created_at": consumer.created_at and consumer.created_at.isoformat(),
        **({} if consumer.expires_at is None else _end(consumer.expires_at, consumer.on_expiry)),
        "resources": in_class_order(consumer.amounts),
        "allocations": [
            {
                "provider": provider,
                "name": places[provider].name if provider in places else None,
                "root_name": places[provider].host if provider in places else None,
                "resources": in_class_order(amounts),
            }
            for provider, amounts in sorted(consumer.allocations.items())
        ],
    }


def _end(expires_at: datetime, on_expiry: str | None) -> dict[str, str | None]:
    """The end of a lease; a consumer without one has no such fields."""
    return {"expires_at": expires_at.isoformat(), "on_expiry": on_expiry}


def consumers_as_json(consumers: Sequence[Consumer], places: Mapping[str, Place]) -> dict[str, Any]:
    """The consumers, and the sums per class."""
    return {
        "consumers": [consumer_as_json(consumer, places) for consumer in consumers],
        "totals": in_class_order(add_up(consumer.amounts for consumer in consumers)),
    }


def _row(consumer: Consumer, places: Mapping[str, Place], now: datetime) -> tuple[str, ...]:
    age = "" if consumer.created_at is None else age_text(now - consumer.created_at)
    hosts = sorted({_host(provider, places) for provider in consumer.allocations})
    more = f" +{len(hosts) - _MOST_HOSTS}" if len(hosts) > _MOST_HOSTS else ""
    where = " ".join(hosts[:_MOST_HOSTS]) + more
    names = with_name(consumer.consumer), consumer.type, with_name(consumer.project), with_name(consumer.user)
    ends = "" if consumer.expires_at is None else f"{consumer.expires_at:%Y-%m-%d %H:%M:%S %Z}"
    return (*names, age, ends, where, in_words(consumer.amounts))


def _counted(count: int) -> str:
    return "1 consumer" if count == 1 else f"{count:,} consumers"


def _name(provider: str, places: Mapping[str, Place]) -> str:
    return places[provider].name if provider in places else provider


def _host(provider: str, places: Mapping[str, Place]) -> str:
    return places[provider].host if provider in places else provider
