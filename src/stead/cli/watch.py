"""``stead watch``: prints changes of providers and consumers as they happen, with the amounts."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.aliases import with_name
from stead.cli.arguments import options
from stead.cli.consumers import fetch_places
from stead.cli.errors import Negative
from stead.cli.server import connect, summary
from stead.cli.terminal import amount_text, in_words, json_text, machine_readable, say, with_aliases
from stead.client.calls import random_pause
from stead.client.errors import Refused, StartOver, Unavailable
from stead.client.provider import CONSUMER
from stead.printing import in_class_order, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stead import Change, Changes, Claim, Provider, Site

app = typer.Typer(add_completion=False)

_SECONDS = 30
_TIME = 9  # cells of "18:59:11 "
_ASKERS = 8  # requests under way at a time
_MOST_DETAILS = 100  # objects of one response that are read; on a busier server the others have no amounts
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0  # seconds between attempts to reach a server


@app.command()
def watch(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="Print changes after this token of --json. Default: from now on.", show_default=False
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End after the first response; without --since, it is a token.")
    ] = False,
    wait: Annotated[int, typer.Option(min=0, max=60, help="Seconds to wait for each response.")] = _SECONDS,
) -> None:
    """Print changes of providers and consumers, with the amounts, until you press Ctrl-C."""
    with connect() as site:
        for changes in fetch_changes(site, since, wait, _lost):
            if options().json:
                print(json_text(with_aliases(changes.document)), file=machine_readable(), flush=True)
            else:
                now = datetime.now().astimezone()
                for line in lines_of(site, changes.changes, now):
                    say(line, indent=_TIME)
                    sys.stdout.flush()
            if once:
                return


def _lost(reason: str) -> None:
    print(f"stead: {one_line(reason)}; trying again", file=sys.stderr, flush=True)


def fetch_changes(
    site: Site, since: str | None, wait: int, lost: Callable[[str], object] = lambda _reason: None
) -> Iterator[Changes]:
    """The token, if it begins now, and the responses after it; of those without changes only the first.

    If the server stops or restarts after the first response, the requests are repeated until it answers: tokens survive
    restarts.

    Args:
        wait: seconds that one request waits for a change.
        lost: called with the reason, once each time that the server is lost.

    Raises:
        Negative: the changes since the token are not available any more.
    """
    token = since
    is_first, failed = True, 0
    while True:
        try:
            changes = site.changes(token, wait=wait)
        except StartOver as error:
            raise Negative(f"{error.detail} (without --since it begins now)") from error
        except Unavailable as error:
            # Before the first response, a wrong URL is more likely than a restart.
            if is_first:
                raise
            if not failed:
                lost(summary(error))
            time.sleep(_FIRST_PAUSE + random_pause(failed, _FIRST_PAUSE, _LONGEST_PAUSE))
            failed += 1
            continue
        if is_first or changes.changes:
            yield changes
        token, is_first, failed = changes.token, False, 0


def lines_of(site: Site, changes: Sequence[Change], now: datetime) -> list[str]:
    """A line for each of *changes*, with names and amounts as they are now.

    For example ``18:59:11 provider host-1: 4 / 16 VCPU``.
    """
    consumers = [each for each in changes if each.kind == CONSUMER]
    providers = [each for each in changes if each.kind != CONSUMER]
    with ThreadPoolExecutor(_ASKERS) as askers:
        read = dict(
            zip(providers, askers.map(lambda each: _provider(site, each), providers[:_MOST_DETAILS]), strict=False)
        )
        claims = dict(
            zip(consumers, askers.map(lambda each: _claim(site, each), consumers[:_MOST_DETAILS]), strict=False)
        )
    names = {each.uuid: each.name for each in providers if each.name}
    names |= {each.uuid: each.name for each in read.values() if each is not None}
    shown = {each.uuid for each in providers}.union(*(claim.allocations for claim in claims.values() if claim))
    names |= {uuid: place.name for uuid, place in fetch_places(site, shown - names.keys()).items()}
    texts = [
        *(_of_provider(each, names.get(each.uuid, each.uuid), read.get(each)) for each in providers),
        *(_of_consumer(each, claims.get(each), names, now) for each in consumers),
    ]
    return [one_line(f"{now:%H:%M:%S} {text}") for text in texts]


def _provider(site: Site, change: Change) -> Provider | None:
    if not change.is_deletion:
        with suppress(Refused):  # it was deleted after this change, or may not be read
            return site.provider(change.uuid)
    return None


def _claim(site: Site, change: Change) -> Claim | None:
    if not change.is_deletion:
        with suppress(Refused):
            return site.find(change.uuid)
    return None


def _of_provider(change: Change, name: str, provider: Provider | None) -> str:
    if change.is_deletion:
        return f"provider {name} deleted"
    rooms = {} if provider is None else provider.rooms
    amounts = [
        f"{amount_text(each, room.used)} / {amount_text(each, room.capacity)} {each}"
        for each, room in in_class_order(rooms).items()
    ]
    return f"provider {name}{': ' + ', '.join(amounts) if amounts else ' changed'}"


def _of_consumer(change: Change, claim: Claim | None, names: dict[str, str], now: datetime) -> str:
    if change.is_deletion:
        return f"consumer {with_name(change.uuid)} released{', since its lease ended' if change.lease_ended else ''}"
    if claim is None:
        return f"consumer {with_name(change.uuid)} changed"
    owner = f"{claim.type} of project {with_name(claim.project)}"
    hosts = ", ".join(sorted(names.get(uuid, uuid) for uuid in claim.allocations))
    ends = "" if claim.expires_at is None else f" until {claim.expires_at.astimezone():%Y-%m-%d %H:%M:%S}"
    if change.lease_ended and claim.expires_at is not None and claim.expires_at <= now:
        ends = f", overdue since {claim.expires_at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"consumer {with_name(change.uuid)} ({owner}): {in_words(claim.amounts)} from {hosts}{ends}"
