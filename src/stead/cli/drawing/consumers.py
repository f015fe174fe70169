"""Consumers as tables and as JSON: one line each, one page for one consumer, or sums."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from stead.class_order import class_order, in_class_order
from stead.cli.arguments import age_text
from stead.cli.fetching.consumers import Consumer, Place, add_up
from stead.cli.terminal import draw_list, number, wrapped
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_HEADINGS = ("consumer", "type", "project", "user", "age", "host", "allocations")
_MOST_HOSTS = 2


def in_words(amounts: Mapping[str, int]) -> str:
    """``512 MEMORY_MB, 3 VCPU``."""
    return ", ".join(f"{number(amount)} {name}" for name, amount in in_class_order(amounts).items())


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
        "consumer": consumer.uuid,
        "type": consumer.type,
        "project": consumer.project,
        "user": consumer.user,
        "generation": str(consumer.generation),
        "created": f"{consumer.created_at:%Y-%m-%d %H:%M:%S %Z}" if consumer.created_at else "",
    }
    for title, text in facts.items():
        if text:
            yield from wrapped(Text.assemble((title.ljust(12), "dim"), printable(text)), width, min(12, width // 2))
    yield Text()
    rows = [
        (_name(provider, places), _root(provider, places), in_words(amounts))
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
        [key, number(count), *(number(amounts[name]) if name in amounts else "–" for name in classes)]
        for key, (count, amounts) in sorted(sums.items())
    ]
    if len(sums) > 1:
        everything = add_up(dict(amounts) for _, amounts in sums.values())
        rows.append(
            ["all", number(sum(count for count, _ in sums.values())), *(number(everything[name]) for name in classes)]
        )
    headings = (by, "consumers", *classes)
    yield from draw_list(headings, rows, width, headings[1:])


def consumer_as_json(consumer: Consumer, places: Mapping[str, Place]) -> dict[str, Any]:
    """All data of a consumer."""
    return {
        "uuid": consumer.uuid,
        "project": consumer.project,
        "user": consumer.user,
        "type": consumer.type,
        "generation": consumer.generation,
        "created_at": consumer.created_at and consumer.created_at.isoformat(),
        "resources": in_class_order(consumer.amounts),
        "allocations": [
            {
                "provider": provider,
                "name": places[provider].name if provider in places else None,
                "root_name": places[provider].root if provider in places else None,
                "resources": in_class_order(amounts),
            }
            for provider, amounts in sorted(consumer.allocations.items())
        ],
    }


def consumers_as_json(consumers: Sequence[Consumer], places: Mapping[str, Place]) -> dict[str, Any]:
    """The consumers, and the sums per class."""
    return {
        "consumers": [consumer_as_json(consumer, places) for consumer in consumers],
        "totals": in_class_order(add_up(consumer.amounts for consumer in consumers)),
    }


def _row(consumer: Consumer, places: Mapping[str, Place], now: datetime) -> tuple[str, ...]:
    age = "" if consumer.created_at is None else age_text(now - consumer.created_at)
    hosts = sorted({_root(provider, places) for provider in consumer.allocations})
    more = f" +{len(hosts) - _MOST_HOSTS}" if len(hosts) > _MOST_HOSTS else ""
    where = " ".join(hosts[:_MOST_HOSTS]) + more
    return (consumer.uuid, consumer.type, consumer.project, consumer.user, age, where, in_words(consumer.amounts))


def _counted(count: int) -> str:
    return "1 consumer" if count == 1 else f"{count:,} consumers"


def _name(provider: str, places: Mapping[str, Place]) -> str:
    return places[provider].name if provider in places else provider


def _root(provider: str, places: Mapping[str, Place]) -> str:
    return places[provider].root if provider in places else provider
