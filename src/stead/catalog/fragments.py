"""Fragments: the text of one provider in an answer, made on first use and cached until that provider changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

MOST_CHARACTERS = 32 << 20
"""Limit of the characters that the cached fragments of one form have together."""

MOST_FORMS = 4
"""Limit of the forms that are cached at the same time."""


@dataclass(slots=True)
class _Shelf:
    """Texts of one form with their versions, by slot, in two generations: recently used ones, and older ones."""

    recent: dict[int, tuple[int, str]] = field(default_factory=dict)
    older: dict[int, tuple[int, str]] = field(default_factory=dict)
    characters: int = 0

    def put(self, slot: int, version: int, text: str) -> None:
        self.recent[slot] = version, text
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS // 2:
            self.older, self.recent, self.characters = self.recent, {}, 0


class Fragments:
    """A bounded cache of texts, shared by all snapshots of one catalog; thread-safe."""

    def __init__(self) -> None:
        self._shelves: dict[Hashable, _Shelf] = {}

    def get(
        self,
        form: Hashable,
        slots: Sequence[int],
        versions: Sequence[int],
        make: Callable[[Sequence[int]], Iterable[str]],
    ) -> list[str]:
        """The texts of the providers at *slots*.

        Args:
            form: identifies the text; the text must depend only on this and on the provider's version.
            versions: for each slot a number that changes whenever its provider changes.
            make: makes the texts of slots.
        """
        shelf = self._shelf(form)
        texts = [
            cached[1] if cached is not None and cached[0] == version else None
            for cached, version in zip(map(shelf.recent.get, slots), versions, strict=True)
        ]
        missing = []
        for place, text in enumerate(texts):
            if text is None:
                cached = shelf.older.get(slots[place])
                if cached is not None and cached[0] == versions[place]:
                    texts[place] = cached[1]
                    # To the recent ones, since the older ones are dropped as a whole.
                    shelf.put(slots[place], *cached)
                else:
                    missing.append(place)
        for place, text in zip(missing, make([slots[place] for place in missing]) if missing else (), strict=True):
            texts[place] = text
            shelf.put(slots[place], versions[place], text)
        return texts  # type: ignore[return-value]  # none is missing any more

    def _shelf(self, form: Hashable) -> _Shelf:
        shelf = self._shelves.get(form)
        if shelf is None:
            if len(self._shelves) >= MOST_FORMS:
                self._shelves = {}
            shelf = self._shelves.setdefault(form, _Shelf())
        return shelf
