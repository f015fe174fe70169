"""Long answers are joined from runs of neighbouring texts, which are joined again only if one of them changed."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from stead.catalog import fragments
from stead.catalog.fragments import RUN, JoinedTexts


class Asking:
    """Asks for texts, and records for which slots single ones were needed."""

    def __init__(self, size: int = 5 * RUN) -> None:
        self.runs = JoinedTexts()
        self.versions = np.full(size, 1)
        self.joined: list[int] = []

    def ask(self, slots: list[int]) -> bool:
        """Whether the answer is right."""
        self.joined.clear()
        asked = np.array(slots, np.int64)
        parts = list(self.runs.get(asked, self.versions[asked], self.texts))
        return b"".join(parts) == b"".join(b",%d of %d" % (slot, self.versions[slot]) for slot in slots)

    def texts(self, slots: np.ndarray, versions: np.ndarray) -> list[bytes]:
        self.joined += slots.tolist()
        return [b"%d of %d" % pair for pair in zip(slots.tolist(), versions.tolist(), strict=True)]

    def change(self, slot: int) -> None:
        self.versions[slot] = self.versions.max() + 1


EVERY = list(range(5 * RUN))


def test_only_the_run_of_a_changed_provider_is_joined_again() -> None:
    asking = Asking()
    assert asking.ask(EVERY)
    assert asking.joined == EVERY
    assert asking.ask(EVERY)
    assert asking.joined == []
    asking.change(2 * RUN + 5)
    assert asking.ask(EVERY)
    assert asking.joined == EVERY[2 * RUN : 3 * RUN]


def test_another_choice_of_providers_has_other_runs() -> None:
    asking = Asking()
    assert asking.ask(EVERY)
    without = [slot for slot in EVERY if slot not in (3, 4 * RUN)]
    assert asking.ask(without)
    assert asking.joined == [slot for slot in without if slot // RUN in (0, 4)]
    assert asking.ask(EVERY)
    assert asking.joined == [slot for slot in EVERY if slot // RUN in (0, 4)]
    assert asking.ask(EVERY[RUN:])
    assert asking.joined == []


def test_a_provider_that_returns_with_its_old_version_is_joined_again() -> None:
    asking = Asking()
    assert asking.ask(EVERY)
    other = [*EVERY[:RUN][1:], *EVERY[RUN:]]
    assert asking.ask(other)
    assert asking.ask([0, *EVERY[:RUN][2:], *EVERY[RUN:]])  # as many as before, and all versions are old ones
    assert asking.joined == [0, *EVERY[:RUN][2:]]


@pytest.mark.parametrize("slots", [[], [7], EVERY[:RUN], EVERY[::-1], EVERY[::5], [*EVERY[:200], 3]])
def test_short_scattered_and_unordered_answers_have_no_runs(slots: list[int]) -> None:
    asking = Asking()
    for _ in range(2):
        assert asking.ask(slots)
        assert asking.joined == slots
    assert asking.runs._bytes == 0


def test_random_choices_and_changes_give_what_is_there() -> None:
    asking, rng = Asking(9 * RUN), random.Random(5)
    for _ in range(400):
        for _ in range(rng.randrange(3)):
            asking.change(rng.randrange(9 * RUN))
        first, share = rng.randrange(3 * RUN), rng.choice([0.2, 0.5, 0.999, 1])
        assert asking.ask([slot for slot in range(first, 9 * RUN) if rng.random() < share])
        assert asking.runs._bytes == sum(map(len, asking.runs._texts))


def test_the_bytes_of_all_runs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking()
    monkeypatch.setattr(fragments, "MOST_BYTES_OF_RUNS", 20 * RUN)
    for _ in range(2):
        assert asking.ask(EVERY)
        assert 0 < asking.runs._bytes <= 20 * RUN
        assert asking.joined[-RUN:] == EVERY[-RUN:]
    assert len(asking.joined) < len(EVERY)
    asking.change(0)
    assert asking.ask(EVERY)


def test_threads_with_different_versions_each_get_their_own_text() -> None:
    shared, slots, wrong = JoinedTexts(), np.arange(4 * RUN), []

    def read(version: int) -> None:
        expected = b"".join(b",%d %d" % (slot, version) for slot in slots)
        for _ in range(100):
            parts = shared.get(
                slots, np.full(4 * RUN, version), lambda these, _: [b"%d %d" % (slot, version) for slot in these]
            )
            if b"".join(parts) != expected:
                wrong.append(version)

    threads = [threading.Thread(target=read, args=(version,)) for version in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
