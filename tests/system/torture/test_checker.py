"""The checker on histories written by hand: what it must accept, and what it must not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.system.torture import model
from tests.system.torture.checker import Unexplained, check
from tests.system.torture.history import UNKNOWN, History, Operation
from tests.system.torture.model import (
    DISABLED,
    DONE,
    FULL,
    NOTHING,
    OLD,
    Books,
    Claim,
    Document,
    Holding,
    Placed,
    Provider,
    ReadBooks,
    ReadCandidates,
    ReadConsumer,
    ReadInventory,
    ReadState,
    ReadUsages,
    Release,
    Request,
    Resize,
    Seek,
    SetState,
    Size,
    Want,
    Wish,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

A, B = Provider("a", 1, 4, 0), Provider("b", 1, 4, 0)
START = Books((A, B))


def claim(consumer: str, mark: int, expected: int | None = None, **amounts: int) -> Claim:
    return Claim((Wish(consumer, tuple(sorted(amounts.items())), expected),), mark)


def seek(mark: int, *amounts: int, distinct: bool = False) -> Seek:
    """Claims by query of new consumers s0, s1 and so on."""
    return Seek(tuple(Want(f"s{n}", amount, None) for n, amount in enumerate(amounts)), mark, distinct)


def sought(*rows: tuple[float, float, Request, Hashable]) -> list[Operation]:
    """A history as it is recorded, where the service may choose."""
    found: list[Operation] = []
    for began, ended, request, answer in rows:
        recorded = History(["a", "b"])
        recorded.record(0, request, lambda _, told=answer: told)  # type: ignore[misc]  # a default binds it
        found += [replace(operation, began=began, ended=ended) for operation in recorded.operations]
    return [replace(operation, number=number, client=number) for number, operation in enumerate(found)]


def history(*rows: tuple[float, float, Request, Hashable]) -> list[Operation]:
    return [Operation(number, number, request, *times, answer) for number, (*times, request, answer) in enumerate(rows)]


def held(consumer: str, generation: int, mark: int, *providers: int, **amounts: int) -> Hashable:
    """What a reader of the consumer is told, with the generations of the providers."""
    return Holding(consumer, generation, mark, tuple(sorted(amounts.items()))), providers


GOOD = {
    "one after the other": history(
        (0, 1, claim("c", 1, a=3), DONE), (2, 3, ReadUsages("a"), (2, 3)), (4, 5, claim("d", 2, a=2), FULL)
    ),
    "a read beside a write sees it": history((0, 5, claim("c", 1, a=3), DONE), (1, 2, ReadUsages("a"), (2, 3))),
    "a read beside a write does not see it": history((0, 5, claim("c", 1, a=3), DONE), (1, 2, ReadUsages("a"), (1, 0))),
    "of two claims side by side one has the room": history(
        (0, 5, claim("c", 1, a=3), FULL), (0, 5, claim("d", 2, a=3), DONE), (6, 7, ReadUsages("a"), (2, 3))
    ),
    "refused for room that came free before the answer did": history(
        (0, 1, claim("c", 1, a=4), DONE), (2, 6, claim("d", 2, a=1), FULL), (3, 4, Release("c"), DONE)
    ),
    "unknown, and happened": history((0, 1, claim("c", 1, a=3), UNKNOWN), (2, 3, ReadUsages("a"), (2, 3))),
    "unknown, and happened later": history(
        (0, 1, claim("c", 1, a=3), UNKNOWN), (2, 3, ReadUsages("a"), (1, 0)), (4, 5, ReadUsages("a"), (2, 3))
    ),
    "unknown, and did not happen": history(
        (0, 1, claim("c", 1, a=3), UNKNOWN), (2, 3, claim("c", 2, a=1), DONE), (4, 5, ReadUsages("a"), (2, 1))
    ),
    "a consumer comes again with the same generation": history(
        (0, 1, claim("c", 1, a=1), DONE), (2, 3, Release("c"), DONE), (4, 5, claim("c", 2, a=1), DONE),
        (6, 7, ReadConsumer("c"), held("c", 1, 2, 3, a=1)), (8, 9, Release("c"), DONE), (9, 9, Release("c"), NOTHING),
    ),
    "over-committed by its owner, and what is held may be kept": history(
        (0, 1, claim("c", 1, a=4), DONE), (2, 3, Resize("a", 1, 2, 2), 3), (4, 5, claim("c", 3, 1, a=3), DONE),
        (6, 7, claim("d", 4, a=1), FULL), (8, 9, ReadInventory("a"), Provider("a", 4, 1, 2)),
    ),
    "several inventories in one document": history(
        (0, 1, claim("c", 1, a=2), DONE), (2, 3, Document((Size("a", 2, None), Size("b", 3, 1)), 2), (3, 2)),
        (4, 5, ReadInventory("b"), Provider("b", 2, 3, 2)), (6, 7, Document((Size("b", 9, 1),), 3), OLD),
        (8, 9, Document((Size("b", 9, None), Size("a", 1, None)), 4), FULL),
        (10, 11, ReadInventory("b"), Provider("b", 2, 3, 2)),
    ),
    "a disabled provider keeps what is taken, gives no more, and is enabled": history(
        (0, 1, claim("c", 1, a=3), DONE), (2, 3, SetState("a", 2), 3), (4, 5, claim("d", 3, a=1), DISABLED),
        (6, 7, claim("c", 4, 1, a=2), DONE), (8, 9, claim("c", 5, 2, a=3), DISABLED), (10, 11, ReadState("a"), (4, 2)),
        (12, 13, ReadCandidates(1), (("b", 4, 0),)), (14, 15, claim("d", 6, a=9), FULL), (16, 17, SetState("a", 0), 5),
        (18, 19, SetState("a", 0), 5), (20, 21, claim("d", 7, a=1), DONE),
    ),
    "refused beside the write that disables": history(
        (0, 9, SetState("a", 2), 2), (1, 2, claim("c", 1, a=1), DISABLED), (3, 4, ReadState("a"), (2, 2)),
    ),
    "no place on a disabled provider": sought(
        (0, 1, SetState("a", 2), 2), (2, 3, seek(3, 3, 3), FULL), (4, 5, seek(4, 3), Placed(("b",))),
    ),
    "a place was found": sought(
        (0, 1, claim("c", 1, a=3), DONE), (2, 3, seek(2, 3), Placed(("b",))), (4, 5, ReadUsages("b"), (2, 3))
    ),
    "one of a gang beside another in one place": sought(
        (0, 1, seek(1, 2, 2), Placed(("a", "a"))), (2, 3, ReadUsages("a"), (2, 4))
    ),
    "there was no place": sought((0, 1, claim("c", 1, a=3, b=3), DONE), (2, 3, seek(2, 2), FULL)),
    "there were not places for all": sought((0, 1, seek(1, 3, 3, 3), FULL)),
    "there were not as many roots": sought((0, 1, seek(1, 1, 1, 1, distinct=True), FULL)),
    "the consumer was there": sought((0, 1, claim("s0", 1, a=1), DONE), (2, 3, seek(2, 1), OLD)),
    "unknown where": sought((0, 1, seek(1, 3), UNKNOWN), (2, 3, ReadConsumer("s0"), held("s0", 1, 1, 2, b=3))),
    "unknown, and nowhere": sought((0, 1, seek(1, 3), UNKNOWN), (2, 3, ReadConsumer("s0"), NOTHING)),
    "the final books": history(
        (0, 1, claim("c", 1, a=1, b=1), DONE),
        (2, 3, ReadBooks(), Books((A._replace(generation=2), B._replace(generation=2)),
                                  (Holding("c", 1, 1, (("a", 1), ("b", 1))),))),
    ),
}  # fmt: skip

BAD = {
    "lost update: two change what each read at the same generation": history(
        (0, 1, claim("c", 1, a=1), DONE),
        (2, 5, claim("c", 2, 1, a=2), DONE), (2, 5, claim("c", 3, 1, a=3), DONE),
    ),
    "lost update of an inventory": history((0, 5, Resize("a", 2, 1, 1), 2), (0, 5, Resize("a", 3, 1, 2), 2)),
    "a document below what was claimed before": history(
        (0, 1, claim("c", 1, a=3), DONE), (2, 3, Document((Size("a", 2, None),), 2), (3,)),
    ),
    "a claim after the answer of the write that disables": history(
        (0, 1, SetState("a", 2), 2), (2, 3, claim("c", 1, a=1), DONE),
    ),
    "refused after the answer of the write that enables": history(
        (0, 1, SetState("a", 2), 2), (2, 3, SetState("a", 0), 3), (4, 5, claim("c", 1, a=1), DISABLED),
    ),
    "a place on a disabled provider": sought((0, 1, SetState("a", 2), 2), (2, 3, seek(3, 3), Placed(("a",)))),
    "half a document": history(
        (0, 9, Document((Size("a", 9, None), Size("b", 9, None)), 2), (2, 2)),
        (1, 2, ReadInventory("a"), Provider("a", 2, 9, 2)), (3, 4, ReadInventory("b"), B),
    ),
    "over-commit": history((0, 5, claim("c", 1, a=3), DONE), (0, 5, claim("d", 2, a=2), DONE)),
    "over-commit by an unknown outcome that was seen": history(
        (0, 9, claim("c", 1, a=3), UNKNOWN), (0, 5, claim("d", 2, a=2), DONE),
        (6, 7, ReadConsumer("c"), held("c", 1, 1, 3, a=3)),
    ),
    "half a claim: one provider without the other": history(
        (0, 9, claim("c", 1, a=1, b=1), DONE),
        (1, 2, ReadUsages("a"), (2, 1)), (3, 4, ReadUsages("b"), (1, 0)),
    ),
    "half a claim of unknown outcome": history(
        (0, 1, claim("c", 1, a=1, b=1), UNKNOWN),
        (2, 3, ReadUsages("a"), (2, 1)), (4, 5, ReadUsages("b"), (1, 0)),
    ),
    "half of what was posted": history(
        (0, 1, Claim((Wish("c", (("a", 1),), None), Wish("d", (("b", 1),), None)), 1), DONE),
        (2, 3, ReadConsumer("c"), held("c", 1, 1, 2, a=1)), (4, 5, ReadConsumer("d"), NOTHING),
    ),
    "stale read": history((0, 1, claim("c", 1, a=3), DONE), (2, 3, ReadUsages("a"), (1, 0))),
    "stale candidates": history(
        (0, 1, claim("c", 1, a=4), DONE), (2, 3, ReadCandidates(1), (("a", 4, 0), ("b", 4, 0)))
    ),
    "two reads go back in time beside one write": history(
        (0, 9, claim("c", 1, a=3), DONE), (1, 2, ReadUsages("a"), (2, 3)), (3, 4, ReadUsages("a"), (1, 0))
    ),
    "acknowledged, then lost": history(
        (0, 1, claim("c", 1, a=3), DONE), (2, 3, ReadUsages("a"), (2, 3)), (8, 9, ReadBooks(), START)
    ),
    "a place that was taken": sought((0, 1, claim("c", 1, a=3), DONE), (2, 3, seek(2, 3), Placed(("a",)))),
    "one place for two": sought((0, 5, seek(1, 3), Placed(("a",))), (0, 5, claim("d", 2, a=2), DONE)),
    "a gang that does not fit": sought((0, 1, seek(1, 3, 2), Placed(("a", "a")))),
    "no place although there is one": sought((0, 1, claim("c", 1, a=3), DONE), (2, 3, seek(2, 3), FULL)),
    "no place although there was one all the time": sought(
        (0, 1, claim("c", 1, a=4, b=1), DONE), (2, 6, seek(2, 2), FULL), (3, 4, claim("c", 3, 1, a=4, b=2), DONE)
    ),
    "no place for a consumer that was there": sought(
        (0, 1, claim("s0", 1, a=4, b=4), DONE), (2, 3, seek(2, 1), FULL)
    ),
    "half of a gang": sought(
        (0, 1, seek(1, 1, 1), Placed(("a", "b"))), (2, 3, ReadUsages("a"), (2, 1)), (4, 5, ReadUsages("b"), (1, 0))
    ),
    "unknown, and twice": sought(
        (0, 1, seek(1, 3), UNKNOWN), (2, 3, ReadUsages("a"), (2, 3)), (4, 5, ReadUsages("b"), (2, 3))
    ),
    "refused although it is known to be right": history((0, 1, claim("c", 1, a=1), OLD)),
    "refused although there is room": history((0, 1, claim("c", 1, a=4), FULL)),
    "an old generation goes through": history((0, 1, claim("c", 1, a=1), DONE), (2, 3, claim("c", 2, a=2), DONE)),
    "seen before it was asked for": history((0, 1, ReadUsages("a"), (2, 3)), (2, 3, claim("c", 1, a=3), DONE)),
    "unknown, and happened twice": history(
        (0, 1, claim("c", 1, a=1), UNKNOWN), (2, 3, ReadConsumer("c"), held("c", 1, 1, 2, a=1)),
        (4, 5, Release("c"), DONE), (6, 7, ReadConsumer("c"), held("c", 1, 1, 3, a=1)),
    ),
    "a generation rose by nothing": history((0, 1, ReadUsages("a"), (2, 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_some_order_explains_is_accepted(name: str) -> None:
    check(GOOD[name], START)


@pytest.mark.parametrize("name", BAD)
def test_what_no_order_explains_is_refused(name: str) -> None:
    with pytest.raises(Unexplained):
        check(BAD[name], START)


def test_a_refusal_shows_the_operation_and_the_books_before_it() -> None:
    with pytest.raises(Unexplained, match=r"ReadUsages\(provider='a'\) -> \(1, 0\)\n(.|\n)*generation=2, total=4"):
        check(BAD["stale read"], START)


def test_many_at_a_time_are_decided() -> None:
    """Eight claims side by side and unknown outcomes beside them: orders by the thousand, situations by the hundred."""
    claims = [(0.0, 9.0, claim(f"c{n}", n, **{"ab"[n % 2]: 1}), DONE) for n in range(8)]
    lost = [(0.0, 1.0, claim(f"u{n}", 10 + n, a=1), UNKNOWN) for n in range(4)]
    check(history(*claims, *lost, (10, 11, ReadUsages("a"), (5, 4)), (10, 11, ReadUsages("b"), (5, 4))), START)
    with pytest.raises(Unexplained):
        check(history(*claims, *lost, (10, 11, ReadUsages("a"), (6, 5))), START)


def test_every_request_of_the_model_is_hashable_and_told_apart() -> None:
    assert claim("c", 1, a=1) == claim("c", 1, a=1) != claim("c", 2, a=1)
    assert len({model.ReadProject(), model.ReadProject(), ReadBooks()}) == 2
