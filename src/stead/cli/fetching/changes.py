"""Changes of providers and consumers, with their names and amounts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stead.cli.errors import Negative
from stead.cli.fetching.consumers import Consumer, fetch_consumer
from stead.cli.forest import Amount, capacity
from stead.cli.server import summary
from stead.client.calls import OWN, random_pause
from stead.client.errors import Refused, StartOver, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead import Site

Json = dict[str, Any]

_ASKERS = 8  # requests under way at a time
_MOST_DETAILS = 100  # objects of one response that are read; on a busier server the others have no amounts
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0  # seconds between attempts to reach a server


@dataclass(frozen=True, slots=True)
class ProviderChange:
    """A provider that changed: its amounts now; None for both if it was deleted, no amounts if they were not read."""

    uuid: str
    name: str
    generation: int | None
    amounts: dict[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerChange:
    """A consumer that changed: what it has now, None if it was released. *places* are the names of its providers."""

    uuid: str
    generation: int | None
    consumer: Consumer | None = None
    places: tuple[str, ...] = ()


def fetch_token(api: Site) -> str:
    """The token of this moment."""
    return str(api.request("GET", "/changes", stead=OWN, timeout=0)["token"])


def fetch_changes(
    api: Site, since: str | None, wait: int, lost: Callable[[str], object] = lambda _reason: None
) -> Iterator[Json]:
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
            told = api.request("GET", "/changes", stead=OWN, since=token, timeout=wait)
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
        if is_first or told["providers"] or told["consumers"]:
            yield told
        token, is_first, failed = told["token"], False, 0


def fetch_details(api: Site, told: Json, names: dict[str, str]) -> list[ProviderChange | ConsumerChange]:
    """The changes of one response with names and amounts as they are now.

    Args:
        names: of providers, by UUID; those that are read are added.
    """
    providers, consumers = told["providers"], told["consumers"]
    with ThreadPoolExecutor(_ASKERS) as askers:
        amounts = list(askers.map(lambda each: _provider_amounts(api, each), providers[:_MOST_DETAILS]))
        consumer_changes = list(askers.map(lambda each: _consumer(api, each), consumers[:_MOST_DETAILS]))
        unnamed = {each["uuid"] for each in providers if "name" not in each and each["uuid"] not in names}
        unnamed |= {
            uuid for each in consumer_changes if each is not None for uuid in each.allocations if uuid not in names
        }
        names |= {uuid: name for uuid, name in askers.map(lambda uuid: _name(api, uuid), sorted(unnamed)) if name}
    names |= {each["uuid"]: each["name"] for each in providers if each.get("name")}
    changes: list[ProviderChange | ConsumerChange] = []
    for place, each in enumerate(providers):
        known_amounts = amounts[place] if place < len(amounts) else {}
        changes.append(
            ProviderChange(each["uuid"], names.get(each["uuid"], each["uuid"]), each["generation"], known_amounts)
        )
    for place, each in enumerate(consumers):
        consumer = consumer_changes[place] if place < len(consumer_changes) else None
        places = tuple(sorted(names.get(uuid, uuid) for uuid in consumer.allocations)) if consumer else ()
        changes.append(ConsumerChange(each["uuid"], each["generation"], consumer, places))
    return changes


def _provider_amounts(api: Site, each: Json) -> dict[str, Amount]:
    if each["generation"] is None:
        return {}
    path = f"/resource_providers/{each['uuid']}"
    try:
        inventories = api.request("GET", f"{path}/inventories")["inventories"]
        usages = api.request("GET", f"{path}/usages")["usages"] if inventories else {}
    except Refused:  # it was deleted after this change, or may not be read
        return {}
    return {
        name: Amount(capacity(record), usages.get(name, 0), record["reserved"]) for name, record in inventories.items()
    }


def _consumer(api: Site, each: Json) -> Consumer | None:
    try:
        return None if each["generation"] is None else fetch_consumer(api, each["uuid"])
    except Refused:
        return None


def _name(api: Site, uuid: str) -> tuple[str, str]:
    try:
        return uuid, str(api.request("GET", f"/resource_providers/{uuid}")["name"])
    except (Refused, LookupError, TypeError):
        return uuid, ""
