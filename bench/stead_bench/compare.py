"""Compares the answers of two servers, ignoring their order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = 3
"""Maximum number of answers of each kind in the report of a difference."""


@dataclass(frozen=True)
class Answers:
    """A canonical body: each answer with its number of occurrences, and the additional data of each provider.

    Generations are left out, since they depend on how the provider was created.
    """

    found: Counter[tuple[Any, ...]]
    summaries: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, body: bytes) -> Answers:
        """The answers in the body of ``/allocation_candidates`` or ``/resource_providers``."""
        read = orjson.loads(body)
        if "resource_providers" in read:
            keys = ("uuid", "name", "parent_provider_uuid", "root_provider_uuid")
            return cls(Counter(tuple(provider.get(key) for key in keys) for provider in read["resource_providers"]), {})
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
    """The differences of two complete answers, as sentences; empty if they are equal."""
    return [
        *_surplus("only in Stead's answer", ours.found - theirs.found),
        *_surplus("only in the peer's answer", theirs.found - ours.found),
        *_summaries(ours, theirs),
        *_surplus("summary only in Stead's answer", Counter(ours.summaries.keys() - theirs.summaries.keys())),
        *_surplus("summary only in the peer's answer", Counter(theirs.summaries.keys() - ours.summaries.keys())),
    ]


def limited_differences(ours: Answers, theirs: Answers, unlimited: Answers | None) -> list[str]:
    """The differences of two answers with the same limit, which may contain different candidates.

    Args:
        unlimited: the peer's complete answer, if available; it must contain all of Stead's answers.
    """
    differences = [] if len(ours) == len(theirs) else [f"Stead gives {len(ours):,} answers, the peer {len(theirs):,}"]
    if unlimited is not None:
        differences += _surplus("not among all of the peer's answers", ours.found - unlimited.found)
        differences += _summaries(ours, unlimited)
    return differences


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
