"""Explain: why a request finds what it finds, told by the same phases that find it.

Source: "Explaining" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from stead.candidates.engine import Enumeration, found_within
from stead.candidates.explain.funnel import Choice, Step, funnels, root_steps
from stead.candidates.explain.relaxations import relaxations
from stead.candidates.explain.verdicts import Verdicts, verdicts
from stead.candidates.match import eligible_anchors, match
from stead.candidates.resolve import in_ids, resolve_aggregates, resolve_traits
from stead.candidates.work import Work, keep_on
from stead.domain.errors import UnknownResourceClass, UnknownTraits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.candidates.explain.relaxations import Relaxation
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

MOST_COUNTED = 100
"""Candidates of one request; of more it is only told that there are more."""

MOST_TRIED = 64
"""Relaxations of one request."""


class Count(NamedTuple):
    """A number of candidates; with ``more`` there are more."""

    number: int
    more: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is told of a request; ``is_complete`` if there was work enough for it.

    ``relaxations`` are those that find something, each with how much.
    """

    candidates: Count
    is_complete: bool
    roots: int
    root_steps: tuple[Step, ...]
    choices: tuple[Choice, ...]
    trees: Verdicts
    relaxations: tuple[tuple[Relaxation, Count], ...]


def explain(
    snapshot: Snapshot,
    request: CandidateRequest,
    most_work: int | None = None,
    *,
    until: float = inf,
    give_way: Callable[[], object] = keep_on,
) -> Explanation:
    """Explain what *request* finds, whatever its limit.

    Args:
        most_work: in units of `stead.candidates.work`, for each of: counting, the trees, and the relaxations.
        until: when it gives up, by the monotonic clock.
        give_way: lets other requests run.

    Raises:
        WorkSpent: there was no time for it.
        UnknownResourceClass, UnknownTraits: as finding candidates does.
    """
    request = replace(request, limit=None)
    counting, judging, relaxing = (Work(most_work, until=until, give_way=give_way) for _ in range(3))
    count = _count(snapshot, request, counting)
    groups, found = [], list[Choice]()
    for group in request.groups:
        judging.require_time()
        found += funnels(snapshot, group)
        groups.append(match(snapshot, in_ids(snapshot, group)))
    choices = tuple(found)
    traits = resolve_traits(snapshot, request.root_traits)
    eligible = eligible_anchors(snapshot, traits, resolve_aggregates(snapshot, request.root_aggregates))
    trees = verdicts(snapshot, request, groups, eligible, judging)
    helpful = () if count.number else tuple(_helpful(snapshot, request, choices, relaxing))
    return Explanation(
        count,
        not (counting.is_cut or judging.is_cut or relaxing.is_cut),
        int(snapshot.roots.sum()),
        tuple(root_steps(snapshot, request.root_traits, request.root_aggregates)),
        choices,
        trees,
        helpful,
    )


def _count(snapshot: Snapshot, request: CandidateRequest, work: Work) -> Count:
    number = sum(
        batch.size for batch in found_within(snapshot, replace(request, limit=MOST_COUNTED + 1), Enumeration(), work)
    )
    return Count(min(number, MOST_COUNTED), number > MOST_COUNTED)


def _helpful(
    snapshot: Snapshot, request: CandidateRequest, choices: tuple[Choice, ...], work: Work
) -> Iterator[tuple[Relaxation, Count]]:
    for relaxation in islice(relaxations(request, choices), MOST_TRIED):
        if work.is_cut:
            return
        try:
            count = _count(snapshot, relaxation.request, work)
        except (UnknownResourceClass, UnknownTraits):  # a name that an empty group had hidden
            continue
        if count.number:
            yield relaxation, count
