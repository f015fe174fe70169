"""The forest: parents that do not exist, cycles, and roots that are not where the parents lead."""

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
    """What is wrong with the places of providers; where the parents lead nowhere, a root is neither right nor wrong."""
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
        elif (found := roots[id_]) is None:
            continue
        elif root is None:
            yield Finding(Fault.NO_ROOT, subject, f"no root instead of id {found}", id_)
        elif root != found:
            yield Finding(Fault.WRONG_ROOT, subject, f"root id {root} instead of {found}", id_)


def roots_of(parents: Mapping[int, int | None]) -> dict[int, int | None]:
    """Where the parents of each provider lead: to a root, or to None from a cycle or to a parent that is not known."""
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
        found = roots.get(at)  # None too where the path met itself
        roots.update(dict.fromkeys(path, found))
    return roots


def cycles(parents: Mapping[int, int | None], roots: Mapping[int, int | None]) -> set[int]:
    """Those that are their own ancestors; what merely hangs below them is not among them."""
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
    # What hangs under an unknown parent has no cycle: from its top, which is not in `lost`, it falls away as above.
    return set(lost)
