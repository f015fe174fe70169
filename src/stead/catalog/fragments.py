"""Fragments: the text of one provider in an answer, made on first use and kept until that provider changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

MOST_CHARACTERS = 32 << 20
"""What the kept fragments of one form may take together."""

MOST_FORMS = 4
"""So many kinds of text are kept beside each other."""


@dataclass(slots=True)
class _Shelf:
    """Texts of one form with their versions, by slot: those used lately, and those used before that."""

    recent: dict[int, tuple[int, str]] = field(default_factory=dict)
    older: dict[int, tuple[int, str]] = field(default_factory=dict)
    characters: int = 0

    def put(self, slot: int, version: int, text: str) -> None:
        self.recent[slot] = version, text
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS // 2:
            self.older, self.recent, self.characters = self.recent, {}, 0


class Fragments:
    """A bounded memory of texts, shared by all snapshots of one catalog; safe under threads."""

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
            form: which text of a provider; it must follow from this and from the provider's version alone.
            versions: for each slot a number that is another one whenever the provider there changed.
            make: makes the texts of some slots.
        """
        shelf = self._shelf(form)
        texts = [
            kept[1] if kept is not None and kept[0] == version else None
            for kept, version in zip(map(shelf.recent.get, slots), versions, strict=True)
        ]
        missing = []
        for place, text in enumerate(texts):
            if text is None:
                kept = shelf.older.get(slots[place])
                if kept is not None and kept[0] == versions[place]:
                    texts[place] = kept[1]
                    shelf.put(slots[place], *kept)
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
