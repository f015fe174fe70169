"""The forms of requests that clients ask for, with the times: what the mix is learned from, one row each.

Source: "The mix", docs/stead-api.md; decision 72.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.request import AskedForm
from stead.store.tables import stead_asked_form, stead_learned_mix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction

_columns = stead_asked_form.c
_number = stead_learned_mix.c.number


def number(connection: Connection) -> int:
    """A number that grows with every change."""
    found: int = connection.execute(sa.select(_number)).scalar_one()
    return found


def read(connection: Connection) -> tuple[int, list[AskedForm]]:
    """The number, and all forms."""
    query = sa.select(_columns.query, _columns.times, _columns.surplus, _columns.counted_at)
    return number(connection), [AskedForm(*row) for row in connection.execute(query)]


def change(
    tx: Transaction, changed: Callable[[Sequence[AskedForm]], Sequence[AskedForm]]
) -> tuple[int, list[AskedForm]]:
    """Replace all forms by what *changed* makes of them; returns the number and the forms then.

    If the outcome of a commit is unknown, *changed* is called again and may count the same requests twice.
    """
    # First, since it locks the row: another worker that counts waits, and then reads these forms.
    raised = sa.update(stead_learned_mix).values(number=_number + 1)
    tx.require_count(tx.connection.execute(raised), 1)
    value, before = read(tx.connection)
    after = list(changed(before))
    stored = {form.query: form for form in before}
    kept = {form.query for form in after}
    gone = [query for query in stored if query not in kept]
    differing = [form for form in after if form.query in stored and stored[form.query] != form]
    new = [form for form in after if form.query not in stored]
    if gone:
        by_digest = sa.delete(stead_asked_form).where(_columns.digest == sa.bindparam("b_digest"))
        tx.connection.execute(by_digest, [{"b_digest": _digest(query)} for query in gone])
    if differing:
        one = sa.update(stead_asked_form).where(_columns.digest == sa.bindparam("b_digest"))
        one = one.values(
            times=sa.bindparam("b_times"), surplus=sa.bindparam("b_surplus"), counted_at=sa.bindparam("b_counted_at")
        )
        tx.connection.execute(one, [_bound(form) for form in differing])
    if new:
        tx.connection.execute(
            sa.insert(stead_asked_form), [{"digest": _digest(form.query), **form._asdict()} for form in new]
        )
    return value, after


def _digest(query: str) -> str:
    """The key: some databases have no unique index on long texts."""
    return hashlib.sha256(query.encode()).hexdigest()


def _bound(form: AskedForm) -> dict[str, object]:
    return {
        "b_digest": _digest(form.query),
        "b_times": form.times,
        "b_surplus": form.surplus,
        "b_counted_at": form.counted_at,
    }
