"""Disabling and enabling providers.

Source: "PATCH /provider_trees/{uuid}", docs/api.md; "The write and refresh protocol" (rule 19), docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.errors import UntilPassed
from stead.domain.moments import in_utc
from stead.domain.names import DISABLED_TRAIT
from stead.domain.provider import Disabled
from stead.store import providers, traits
from stead.store.extensions import service_states
from stead.store.extensions.service_states import State
from stead.store.protocol.clock import Part

if TYPE_CHECKING:
    from collections.abc import Collection

    from stead.store.protocol.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider, and why it is disabled; None: it is enabled."""

    uuid: str
    name: str
    generation: int
    disabled: Disabled | None


def disable(tx: Transaction, provider: str, reason: str, until: int | None) -> ProviderState:
    """Disable a provider, or change the reason and the end of its disabling; its generation rises.

    Args:
        until: seconds since 1970 (UTC), by the database's clock; None: until a client enables it.

    Raises:
        ProviderNotFound
        UntilPassed: nothing was changed.
    """
    row, subtree = providers.lock_subtree(tx, provider)
    # After the locks: *until* may pass while this transaction waits for them.
    now = service_states.now(tx.connection, tx.dialect)
    if until is not None and until <= now:
        raise UntilPassed(in_utc(until), in_utc(now))
    before = service_states.of_provider(tx.connection, row.id)
    is_given = traits.give(tx, row, DISABLED_TRAIT)
    disabled = Disabled(reason, now if before is None else before.disabled.since, until)
    # If another service has set the trait, it stays its own. If the trait was removed meanwhile, Stead owns it now.
    service_states.keep(tx, row.id, row.uuid, State(disabled, is_given or (before is not None and before.owns_trait)))
    return _changed(tx, row, subtree, disabled)


def enable(tx: Transaction, provider: str) -> ProviderState:
    """Enable a provider; its generation rises if it was disabled.

    Raises:
        ProviderNotFound
    """
    row, subtree = providers.lock_subtree(tx, provider)
    before = service_states.of_provider(tx.connection, row.id)
    if before is None:
        return ProviderState(row.uuid, row.name, row.generation, None)
    return _enable(tx, row, subtree, before)


def enable_if_overdue(tx: Transaction, provider: str) -> None:
    """Enable a provider if its ``until`` has passed.

    Raises:
        ProviderNotFound
    """
    row, subtree = providers.lock_subtree(tx, provider)
    before = service_states.of_provider(tx.connection, row.id)
    # Checked under the locks: a client may have enabled the provider, or changed its end, since the caller found it.
    if before is None or before.disabled.until is None:
        return
    if before.disabled.until <= service_states.now(tx.connection, tx.dialect):
        _enable(tx, row, subtree, before)


def _enable(tx: Transaction, row: providers.Row, subtree: Collection[int], before: State) -> ProviderState:
    if before.owns_trait:
        traits.take(tx, row, DISABLED_TRAIT)
    service_states.forget(tx, [row.id])
    return _changed(tx, row, subtree, None)


def _changed(tx: Transaction, row: providers.Row, subtree: Collection[int], disabled: Disabled | None) -> ProviderState:
    tx.tell(Part.DISABLED, subtree)
    generation = tx.bump_generations({row.id: row.generation})[row.id]
    return ProviderState(row.uuid, row.name, generation, disabled)
