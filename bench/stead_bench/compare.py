"""Whether two servers give the same set of answers, whatever their order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = 3
"""Answers of a kind that a difference shows."""


@dataclass(frozen=True)
class Answers:
    """A body, canonical: each answer with how often it stands there, and what is said beside them of each provider.

    Generations are left out: they tell how a provider came to be what it is.
    """

    found: Counter[tuple[Any, ...]]
    summaries: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, body: bytes) -> Answers:
        """The answers in the body of ``/allocation_candidates`` or ``/resource_providers``."""
        read = orjson.loads(body)
        if "resource_providers" in read:
            kept = ("uuid", "name", "parent_provider_uuid", "root_provider_uuid")
            return cls(Counter(tuple(one.get(key) for key in kept) for one in read["resource_providers"]), {})
        return cls(
            Counter(map(canonical, read["allocation_requests"])),
            {uuid: canonical(said) for uuid, said in read["provider_summaries"].items()},
        )

    def __len__(self) -> int:
        return self.found.total()


def canonical(value: Any) -> Any:
    """*value* without the order of its objects and lists."""
    if isinstance(value, dict):
        return tuple((key, canonical(value[key])) for key in sorted(value))
    if isinstance(value, list):
        return tuple(sorted((canonical(element) for element in value), key=repr))
    return value


def differences(ours: Answers, theirs: Answers) -> list[str]:
    """In what two complete answers differ, in sentences; empty if in nothing."""
    return [
        *_surplus("only in Stead's answer", ours.found - theirs.found),
        *_surplus("only in the peer's answer", theirs.found - ours.found),
        *_summaries(ours, theirs),
        *_surplus("summary only in Stead's answer", Counter(ours.summaries.keys() - theirs.summaries.keys())),
        *_surplus("summary only in the peer's answer", Counter(theirs.summaries.keys() - ours.summaries.keys())),
    ]


def limited_differences(ours: Answers, theirs: Answers, unlimited: Answers | None) -> list[str]:
    """In what two answers differ that were cut at the same limit, and need not be cut at the same place.

    Args:
        unlimited: all that the peer knows, if that could be had: ours must be among it.
    """
    found = [] if len(ours) == len(theirs) else [f"Stead gives {len(ours):,} answers, the peer {len(theirs):,}"]
    if unlimited is not None:
        found += _surplus("not among all of the peer's answers", ours.found - unlimited.found)
        found += _summaries(ours, unlimited)
    return found


def _summaries(ours: Answers, theirs: Answers) -> Iterator[str]:
    both = ours.summaries.keys() & theirs.summaries.keys()
    other = sorted(uuid for uuid in both if ours.summaries[uuid] != theirs.summaries[uuid])
    if other:
        first = other[0]
        yield (
            f"{len(other):,} providers are summarised differently, for example {first}: "
            f"{ours.summaries[first]} and {theirs.summaries[first]}"
        )


def _surplus(where: str, surplus: Counter[Any]) -> Iterator[str]:
    if surplus:
        examples = "; ".join(str(example) for example in list(surplus)[:EXAMPLES])
        yield f"{surplus.total():,} {where}, for example {examples}"
