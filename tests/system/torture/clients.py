"""Clients that claim, move, release, resize and read at random, all knowing what any of them was told."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from tests.system.torture.history import UNKNOWN, History, NotSent
from tests.system.torture.model import (
    DONE,
    NOTHING,
    Claim,
    Document,
    Holding,
    Placed,
    Provider,
    ReadAllocations,
    ReadCandidates,
    ReadConsumer,
    ReadInventory,
    ReadProject,
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
    from collections.abc import Hashable, Sequence

    from tests.system.torture.history import History
    from tests.system.torture.speech import Caller

CONSUMERS = 5
PAUSE_SECONDS = 0.1  # after a failure


class Knowledge:
    """What clients were told; it may be old by the time it is used, and that is wanted."""

    def __init__(self, providers: Sequence[str]) -> None:
        self.providers = list(providers)
        self.provider_generations = dict.fromkeys(providers, 1)
        self.holdings: dict[str, Holding | None] = {f"c{number}": None for number in range(CONSUMERS)}
        self._numbers = iter(range(1, 10**9))
        self._writing = threading.Lock()

    def mark(self) -> int:
        with self._writing:
            return next(self._numbers)

    def renew(self, consumer: str) -> None:
        """Let a consumer that is gone be followed by one with a new name."""
        with self._writing:
            if self.holdings.pop(consumer, None) is not None or len(self.holdings) < CONSUMERS:
                self.holdings[f"c{CONSUMERS + next(self._numbers)}"] = None

    def learn(self, request: Request, answer: Any) -> None:
        match request:
            case Claim() if answer == DONE:
                for wish in request.wishes:
                    new = Holding(wish.consumer, (wish.expected or 0) + 1, request.mark, wish.amounts)
                    self._hold(wish.consumer, new if wish.amounts else None)
            case Seek() if isinstance(answer, Placed):
                self.learn(request.at(answer.places), DONE)
            case ReadConsumer():
                self._hold(request.consumer, None if answer == NOTHING else answer[0])
            case Release() if answer == DONE:
                self._hold(request.consumer, None)
            case _:
                self.provider_generations.update(_generations(request, answer))

    def _hold(self, consumer: str, holding: Holding | None) -> None:
        with self._writing:
            if consumer in self.holdings:
                self.holdings[consumer] = holding


def _generations(request: Request, answer: Any) -> dict[str, int]:
    """The generations of providers that *answer* tells."""
    match request:
        case Resize() | SetState() if isinstance(answer, int):
            return {request.provider: answer}
        case Document() if isinstance(answer, tuple):
            return {size.provider: generation for size, generation in zip(request.sizes, answer, strict=True)}
        case ReadInventory() if isinstance(answer, Provider):
            return {request.provider: answer.generation}
        case ReadUsages() | ReadAllocations() | ReadState():
            return {request.provider: answer[0]}
    return {}


class Client(threading.Thread):
    """Asks one thing after the other until it is told to stop."""

    def __init__(
        self, number: int, caller: Caller, history: History, knowledge: Knowledge, stop: threading.Event, seed: int
    ) -> None:
        super().__init__(name=f"client {number}")
        self.failure: BaseException | None = None
        self._number = number
        self._caller = caller
        self._history = history
        self._knowledge = knowledge
        self._stop_asked = stop
        self._chance = random.Random(seed)

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                request = self._request()
                if self._ask(request) == UNKNOWN:
                    self._find_out(request)
        except BaseException as failure:  # whoever waits for this thread raises it
            self.failure = failure
        finally:
            self._caller.close()

    def _ask(self, request: Request) -> Hashable:
        try:
            answer = self._history.record(self._number, request, self._caller.ask)
        except NotSent:
            answer = UNKNOWN
        if answer == UNKNOWN:
            self._stop_asked.wait(PAUSE_SECONDS)
        else:
            self._knowledge.learn(request, answer)
        return answer

    def _find_out(self, request: Request) -> None:
        """Look what became of it, before anything else is asked for: else unknown outcomes would heap up."""
        for question in _questions(request):
            while self._ask(question) == UNKNOWN and not self._stop_asked.is_set():
                pass

    def _request(self) -> Request:
        chance, known = self._chance, self._knowledge
        consumer = chance.choice(list(known.holdings))
        provider = chance.choice(known.providers)
        reads: list[Request] = [
            ReadConsumer(consumer),
            ReadUsages(provider),
            ReadAllocations(provider),
            ReadInventory(provider),
            ReadState(provider),
            ReadProject(),
            ReadCandidates(chance.randint(1, 3)),
        ]
        kind = chance.random()
        if kind < 0.45:
            return chance.choice(reads)
        if kind < 0.52:
            several = sorted(chance.sample(known.providers, k=chance.randint(1, len(known.providers))))
            return Document(tuple(self._size(name) for name in several), known.mark())
        if kind < 0.56:
            return Resize(provider, chance.randint(1, 6), known.provider_generations[provider], known.mark())
        if kind < 0.61:
            return SetState(provider, known.mark() if chance.random() < 0.4 else 0)
        if kind < 0.66:
            if known.holdings.get(consumer) is None:
                known.renew(consumer)
            return Release(consumer)
        several = chance.sample(list(known.holdings), k=chance.choice([1, 1, 1, 2, 3]))
        if chance.random() < 0.4:
            wants = tuple(self._want(one) for one in sorted(several))
            return Seek(wants, known.mark(), distinct=chance.random() < 0.3)
        return Claim(tuple(sorted(self._wish(one) for one in several)), known.mark())

    def _size(self, provider: str) -> Size:
        generation = self._knowledge.provider_generations[provider]
        return Size(provider, self._chance.randint(2, 6), generation if self._chance.random() < 0.5 else None)

    def _want(self, consumer: str) -> Want:
        holding = self._knowledge.holdings.get(consumer)
        return Want(consumer, self._chance.randint(1, 3), holding and holding.generation)

    def _wish(self, consumer: str) -> Wish:
        chance, holding = self._chance, self._knowledge.holdings.get(consumer)
        size = chance.choice([0, 1, 1, 2]) if holding else chance.choice([1, 1, 2])
        providers = sorted(chance.sample(self._knowledge.providers, k=size))
        return Wish(consumer, tuple((name, chance.randint(1, 3)) for name in providers), holding and holding.generation)


def _questions(request: Request) -> list[Request]:
    match request:
        case Claim():
            return [ReadConsumer(wish.consumer) for wish in request.wishes]
        case Seek():
            return [ReadConsumer(want.consumer) for want in request.wants]
        case Release():
            return [ReadConsumer(request.consumer)]
        case Resize():
            return [ReadInventory(request.provider)]
        case SetState():
            return [ReadState(request.provider)]
        case Document():
            return [ReadInventory(size.provider) for size in request.sizes]
    return []
