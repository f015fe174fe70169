"""The provider forest: checks for missing parents, cycles, and roots that differ from where the parents lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store.audit.findings import Fault, Finding
from stead.store.tables import resource_providers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.engine import Connection

_columns = resource_providers.c


def misplaced(connection: Connection) -> Iterator[Finding]:
    """Faults of parents and roots. If the parents of a provider lead to no root, its stored root is not checked."""
    rows = connection.execute(
        sa.select(_columns.id, _columns.uuid, _columns.parent_provider_id, _columns.root_provider_id)
    ).all()
    parents = {row.id: row.parent_provider_id for row in rows}
    roots = roots_of(parents)
    cyclic = cycles(parents, roots)
    for id_, uuid, parent, root in rows:
        subject = f"provider {uuid}"
        if parent is not None and parent not in parents:
            yield Finding(Fault.UNKNOWN_PARENT, subject, f"parent id {parent}", id_)
        elif id_ in cyclic:
            yield Finding(Fault.CYCLE, subject, f"parent id {parent}", id_)
        elif (right_root := roots[id_]) is None:
            continue
        elif root is None:
            yield Finding(Fault.NO_ROOT, subject, f"no root instead of id {right_root}", id_)
        elif root != right_root:
            yield Finding(Fault.WRONG_ROOT, subject, f"root id {root} instead of {right_root}", id_)


def roots_of(parents: Mapping[int, int | None]) -> dict[int, int | None]:
    """The root that each provider's parents lead to; None if they lead to a cycle or a missing parent."""
    roots: dict[int, int | None] = {}
    for start in parents:
        path: dict[int, None] = {}
        at = start
        while at not in roots and at not in path:
            path[at] = None
            above = parents[at]
            if above is None:
                roots[at] = at
            elif above not in parents:
                roots[at] = None
            else:
                at = above
        root = roots.get(at)  # also None if the path is a cycle
        roots.update(dict.fromkeys(path, root))
    return roots


def cycles(parents: Mapping[int, int | None], roots: Mapping[int, int | None]) -> set[int]:
    """Providers that are their own ancestors; their other descendants are not included."""
    lost = {id_: parent for id_, parent in parents.items() if roots[id_] is None and parent in parents}
    below = dict.fromkeys(lost, 0)
    for parent in lost.values():
        if parent in below:
            below[parent] += 1
    leaves = [id_ for id_, children in below.items() if not children]
    while leaves:
        parent = lost.pop(leaves.pop())
        if parent in lost:
            below[parent] -= 1
            if not below[parent]:
                leaves.append(parent)
    # Providers below a missing parent are on no cycle: the loop above removes them from the bottom up.
    return set(lost)
