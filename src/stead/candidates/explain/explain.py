"""Explain: why a request has the candidates it has, or none. It runs the phases of a query and counts.

Source: "Explaining" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.engine import Enumeration, found_within
from stead.candidates.explain.funnel import Choice, Step, funnels, root_steps
from stead.candidates.explain.relaxations import relaxations
from stead.candidates.explain.verdicts import Verdicts, verdicts
from stead.candidates.match import MatchedGroup, eligible_anchors, match
from stead.candidates.resolve import in_ids, resolve_aggregates, resolve_traits
from stead.candidates.work import Work, WorkSpent, keep_on, masked
from stead.domain.errors import UnknownResourceClass, UnknownTraits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.candidates.explain.relaxations import Relaxation
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

MOST_COUNTED = 100
"""Limit of the candidates counted for one request; beyond it, the answer only says that there are more."""

MOST_TRIED = 64
"""Limit of the relaxations tried for one request."""


class Count(NamedTuple):
    """A number of candidates; ``more``: there are more than this."""

    number: int
    more: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a request; ``is_complete`` unless the work was used up.

    ``relaxations`` has those that have candidates, each with their number.
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
    """Explain the candidates of *request*, without its limit.

    Args:
        most_work: units of `stead.candidates.work`, a third for each part: counting, groups and trees, relaxations.
        until: time of the monotonic clock at which it gives up.
        give_way: lets other requests run.

    Raises:
        WorkSpent: the time ended.
        UnknownResourceClass, UnknownTraits: as finding candidates does.
    """
    request = replace(request, limit=None)
    share = None if most_work is None else most_work // 3
    counting, judging, relaxing = (Work(share, until=until, give_way=give_way) for _ in range(3))
    count = _count(snapshot, request, counting)
    groups, choices = list[MatchedGroup](), list[Choice]()
    try:
        for group in request.groups:
            judging.require_time()
            of_group = funnels(snapshot, group)
            choices += of_group
            groups.append(match(snapshot, in_ids(snapshot, group)))
            judging.spend(sum(len(choice.steps) for choice in of_group) * masked(snapshot.size))
    except WorkSpent:
        # Without units, the other parts still have budgets of their own; without time, no part has any.
        if time.monotonic() > until:
            raise
    traits = resolve_traits(snapshot, request.root_traits)
    eligible = eligible_anchors(snapshot, traits, resolve_aggregates(snapshot, request.root_aggregates))
    if judging.is_cut:
        roots = int(np.count_nonzero(eligible))
        trees = Verdicts(roots, (), roots)
    else:
        trees = verdicts(snapshot, request, groups, eligible, judging)
    helpful = () if count.number else tuple(_helpful(snapshot, request, tuple(choices), relaxing))
    # Each part has a budget of its own, so an expensive count does not leave the cheaper parts empty.
    return Explanation(
        count,
        not (counting.is_cut or judging.is_cut or relaxing.is_cut),
        int(snapshot.roots.sum()),
        tuple(root_steps(snapshot, request.root_traits, request.root_aggregates)),
        tuple(choices),
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
        except (UnknownResourceClass, UnknownTraits):  # in the original request, a group without providers hides it
            continue
        if count.number:
            yield relaxation, count
