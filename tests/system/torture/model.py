"""What the service must look like to its clients: books on paper, and what each request answers and changes.

A request is a value with one method: it takes the books and returns the answer and the books afterwards. A claim over
several providers or consumers is one request. There is one resource class; providers stand alone. Every write has a
*mark*, a number no other write has, which readers are shown (the user of a consumer, the ``max_unit`` of an inventory,
the reason why a provider is disabled):
a read tells which write it saw, even where a generation came again because a consumer went and came back.

Source: "Writing allocations", "The capacity check" and "Generations", docs/api.md.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

Amounts = tuple[tuple[str, int], ...]
"""How much of which provider, by name."""

DONE, OLD, FULL, NOTHING = "done", "old generation", "no room", "nothing there"
DISABLED = "disabled"
PLACE = "there is a place"
UNKNOWN = "unknown"
"""The answer of a request that may or may not have happened, and may still: a broken connection, or a 5xx."""


class Provider(NamedTuple):
    name: str
    generation: int
    total: int
    mark: int
    state: int = 0
    """The mark of the write that disabled it; 0: it is enabled."""


class Holding(NamedTuple):
    """What one consumer holds. There is none for a consumer that holds nothing."""

    consumer: str
    generation: int
    mark: int
    amounts: Amounts


class Books(NamedTuple):
    """The state of the whole world; providers and holdings are in the order of their names."""

    providers: tuple[Provider, ...]
    holdings: tuple[Holding, ...] = ()

    def provider(self, name: str) -> Provider:
        return next(provider for provider in self.providers if provider.name == name)

    def holding(self, consumer: str) -> Holding | None:
        return next((holding for holding in self.holdings if holding.consumer == consumer), None)

    def used(self, provider: str) -> int:
        return sum(amount for holding in self.holdings for name, amount in holding.amounts if name == provider)

    def with_provider(self, after: Provider) -> Books:
        """*after* in place of what the provider of its name was."""
        return self._replace(providers=tuple(after if one.name == after.name else one for one in self.providers))

    def with_holdings(self, gone: Iterable[str], new: Iterable[Holding], raised: Iterable[str]) -> Books:
        """The holdings of *gone* consumers give way to *new* ones; the generations of *raised* providers rise."""
        left, rising = set(gone), set(raised)
        return Books(
            tuple(p._replace(generation=p.generation + 1) if p.name in rising else p for p in self.providers),
            tuple(sorted([*(held for held in self.holdings if held.consumer not in left), *new])),
        )


class Request(Protocol):
    """What a client asks for. Requests are hashable."""

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        """What it is told, and the books after it."""
        ...


class Wish(NamedTuple):
    """All that one consumer shall hold, by a client that knows its generation; None: that there is no such consumer."""

    consumer: str
    amounts: Amounts
    expected: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """PUT for one wish, POST for several."""

    wishes: tuple[Wish, ...]
    mark: int

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        held = {wish.consumer: books.holding(wish.consumer) for wish in self.wishes}
        generations = {consumer: holding and holding.generation for consumer, holding in held.items()}
        if any(wish.expected != generations[wish.consumer] for wish in self.wishes):
            return OLD, books
        ours = Counter[str]()
        for holding in held.values():
            ours.update(dict(holding.amounts) if holding else {})
        wanted = Counter[str]()
        for wish in self.wishes:
            wanted.update(dict(wish.amounts))
        if not all(self._fits(books, name, amount, ours[name]) for name, amount in wanted.items()):
            return FULL, books
        if any(books.provider(name).state and amount > ours[name] for name, amount in wanted.items()):
            return DISABLED, books
        released = {name for wish in self.wishes if not wish.amounts for name in self._providers(held[wish.consumer])}
        new = [
            Holding(wish.consumer, (wish.expected or 0) + 1, self.mark, wish.amounts)
            for wish in self.wishes
            if wish.amounts
        ]
        return DONE, books.with_holdings(held, new, {*wanted, *released})

    @staticmethod
    def _fits(books: Books, provider: str, amount: int, ours: int) -> bool:
        """Whether it fits, or is no more than was taken before, which counts where a provider is over-committed."""
        before = books.used(provider)
        after = before - ours + amount
        return after <= books.provider(provider).total or (before > 0 and after <= before)

    @staticmethod
    def _providers(holding: Holding | None) -> list[str]:
        return [name for name, _ in holding.amounts] if holding else []


class Want(NamedTuple):
    """How much of one provider, of whichever, a consumer shall hold, by a client that knows its generation."""

    consumer: str
    amount: int
    expected: int | None


@dataclass(frozen=True, slots=True)
class Seek:
    """POST of claims by query. The service chooses the places; `as_happened` says what that means for the books."""

    wants: tuple[Want, ...]
    mark: int
    distinct: bool = False

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        """As far as nothing is written: that there is a place is no answer that anybody is told."""
        held = {want.consumer: books.holding(want.consumer) for want in self.wants}
        if any(want.expected != (of and of.generation) for want, of in zip(self.wants, held.values(), strict=True)):
            return OLD, books
        free = Counter({provider.name: provider.total - books.used(provider.name) for provider in books.providers})
        for holding in held.values():
            free.update(dict(holding.amounts) if holding else {})
        names = [provider.name for provider in books.providers if not provider.state]
        return (PLACE if any(self._fits(free, some) for some in self.choices(names)) else FULL), books

    def _fits(self, free: Counter[str], places: tuple[str, ...]) -> bool:
        taken = Counter[str]()
        for want, name in zip(self.wants, places, strict=True):
            taken[name] += want.amount
        return all(amount <= free[name] for name, amount in taken.items())

    def choices(self, names: Iterable[str]) -> Iterable[tuple[str, ...]]:
        """Every place for every want, room or no room."""
        some = list(names)
        return (
            itertools.permutations(some, len(self.wants))
            if self.distinct
            else itertools.product(some, repeat=len(self.wants))
        )

    def at(self, places: Iterable[str]) -> Claim:
        """The claim of these places."""
        wishes = [
            Wish(want.consumer, ((name, want.amount),), want.expected)
            for want, name in zip(self.wants, places, strict=True)
        ]
        return Claim(tuple(sorted(wishes)), self.mark)

    def as_happened(self, answer: Hashable, names: Iterable[str]) -> list[tuple[Request, Hashable]]:
        """Requests and answers that mean the same. Told places are a claim of them, which must have been right then.

        Where the outcome is unknown, it is that of a claim of any places: of several that show one generation of a
        consumer, no two can happen unless it goes and comes back.
        """
        if isinstance(answer, Placed):
            return [(self.at(answer.places), DONE)]
        if answer == UNKNOWN:
            return [(self.at(places), UNKNOWN) for places in self.choices(names)]
        return [(self, answer)]


class Placed(NamedTuple):
    """What a client is told whose wants have got places, one for each."""

    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """DELETE: it asks for no generation, and raises none."""

    consumer: str

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        if books.holding(self.consumer) is None:
            return NOTHING, books
        return DONE, books.with_holdings([self.consumer], [], [])


@dataclass(frozen=True, slots=True)
class Resize:
    """PUT of an inventory; it may become smaller than what is taken of it. Told: the new generation."""

    provider: str
    total: int
    expected: int
    mark: int

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        before = books.provider(self.provider)
        if before.generation != self.expected:
            return OLD, books
        after = before._replace(generation=self.expected + 1, total=self.total, mark=self.mark)
        return after.generation, books.with_provider(after)


@dataclass(frozen=True, slots=True)
class SetState:
    """PATCH of a provider: disable it, by a mark, or enable it (0). Told: the generation."""

    provider: str
    state: int

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        before = books.provider(self.provider)
        if not (self.state or before.state):
            return before.generation, books
        after = before._replace(generation=before.generation + 1, state=self.state)
        return after.generation, books.with_provider(after)


@dataclass(frozen=True, slots=True)
class ReadState:
    """Told: a provider's generation, and the mark of its state."""

    provider: str

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        provider = books.provider(self.provider)
        return (provider.generation, provider.state), books


class Size(NamedTuple):
    """How much of one provider there shall be, by a client that knows its generation; None: whatever that is."""

    provider: str
    total: int
    expected: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """PUT of provider trees: several inventories, none of which may become smaller than what is taken of it.

    Told: the new generations.
    """

    sizes: tuple[Size, ...]
    mark: int

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        sizes = {size.provider: size for size in self.sizes}
        before = {name: books.provider(name) for name in sizes}
        if any(size.expected not in (None, before[name].generation) for name, size in sizes.items()):
            return OLD, books
        if any(books.used(name) > size.total < before[name].total for name, size in sizes.items()):
            return FULL, books
        after = {
            name: before[name]._replace(generation=before[name].generation + 1, total=size.total, mark=self.mark)
            for name, size in sizes.items()
        }
        return tuple(after[size.provider].generation for size in self.sizes), books._replace(
            providers=tuple(after.get(provider.name, provider) for provider in books.providers)
        )


@dataclass(frozen=True, slots=True)
class ReadConsumer:
    """Told: the holding, and the generations of the providers it is of."""

    consumer: str

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        holding = books.holding(self.consumer)
        if holding is None:
            return NOTHING, books
        return (holding, tuple(books.provider(name).generation for name, _ in holding.amounts)), books


@dataclass(frozen=True, slots=True)
class ReadAllocations:
    """Told: a provider's generation, and of each of its consumers the generation and the amount."""

    provider: str

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        held = tuple(
            (holding.consumer, holding.generation, dict(holding.amounts)[self.provider])
            for holding in books.holdings
            if self.provider in dict(holding.amounts)
        )
        return (books.provider(self.provider).generation, held), books


@dataclass(frozen=True, slots=True)
class ReadUsages:
    """Told: a provider's generation, and how much is taken of it."""

    provider: str

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        return (books.provider(self.provider).generation, books.used(self.provider)), books


@dataclass(frozen=True, slots=True)
class ReadInventory:
    """Told: the provider."""

    provider: str

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        return books.provider(self.provider)._replace(state=0), books


@dataclass(frozen=True, slots=True)
class ReadProject:
    """Told: how many consumers hold something, and how much all of them hold."""

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        return (len(books.holdings), sum(amount for held in books.holdings for _, amount in held.amounts)), books


@dataclass(frozen=True, slots=True)
class ReadCandidates:
    """Told: each enabled provider that has room for the amount, with its total and what is taken of it."""

    amount: int

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        enabled = [provider for provider in books.providers if not provider.state]
        states = [(provider.name, provider.total, books.used(provider.name)) for provider in enabled]
        return tuple(state for state in states if state[2] + self.amount <= state[1]), books


@dataclass(frozen=True, slots=True)
class ReadBooks:
    """Told: everything. No client can ask this; it is read from the tables, in one transaction."""

    def answer(self, books: Books) -> tuple[Hashable, Books]:
        return books, books
