"""Traits: qualities of providers; by name, and by provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import StandardTrait, TooManyNames, TraitInUse, TraitNotFound, UnknownTraits
from stead.domain.names import MOST_NAMES, STANDARD_TRAITS, require_custom_trait
from stead.store import providers
from stead.store.protocol.clock import Part, trait_change
from stead.store.protocol.store import RaceLost
from stead.store.sql.statements import Insert, Query, in_portions
from stead.store.tables import resource_provider_traits, traits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction

_columns = traits.c


def create(tx: Transaction, name: str) -> bool:
    """Create a custom trait unless it exists; returns whether it was created.

    Raises:
        InvalidTraitName: it does not have the custom form.
        TooManyNames: the site has `MOST_NAMES` traits.
    """
    require_custom_trait(name)
    if name in _ids(tx.connection, [name]):
        return False
    _require_room(tx, 1)
    inserted = tx.connection.execute(sa.insert(traits), {"name": name, "created_at": tx.now}).inserted_primary_key
    tx.touch([trait_change(inserted[0] if inserted else 0)])
    return True


def insert(tx: Transaction, names: Sequence[str]) -> None:
    """Insert new custom traits.

    Raises:
        InvalidTraitName: a name does not have the custom form.
        TooManyNames: the site would have more than `MOST_NAMES` traits.
    """
    if not names:
        return
    _require_room(tx, len(names))
    for name in names:
        require_custom_trait(name)
    _INSERT.run(tx.connection, [{"name": name, "created_at": tx.now} for name in names])
    tx.touch(map(trait_change, _ids(tx.connection, names).values()))


def _require_room(tx: Transaction, number: int) -> None:
    """Require that a *number* of traits can be added. Transactions at the same time may each add theirs."""
    count: int = tx.connection.execute(sa.select(sa.func.count()).select_from(traits)).scalar_one()
    if count + number > MOST_NAMES:
        raise TooManyNames("traits", MOST_NAMES)


_INSERT = Insert(traits, "name", "created_at")


def all_ids(connection: Connection) -> dict[str, int]:
    """Ids of all traits by name."""
    return dict(_ALL.rows(connection))


_ALL = Query(sa.select(_columns.name, _columns.id))


def delete(tx: Transaction, name: str) -> None:
    """Delete a custom trait.

    Raises:
        TraitNotFound, StandardTrait
        TraitInUse: some provider has it.
    """
    id_ = _ids(tx.connection, [name]).get(name)
    if id_ is None:
        raise TraitNotFound(name)
    if name in STANDARD_TRAITS or not name.startswith("CUSTOM_"):
        raise StandardTrait(name)
    tx.lock(traits, [id_])
    # Read again: the lock may have waited for a transaction that deleted the trait.
    if _ids(tx.connection, [name]).get(name) != id_:
        raise RaceLost("traits")
    # Touched before the providers are read, on which the decision depends: see `Transaction.touch`.
    tx.touch([trait_change(id_)])
    had = sa.select(resource_provider_traits.c.trait_id).where(resource_provider_traits.c.trait_id == id_).limit(1)
    if tx.connection.execute(had).first():
        raise TraitInUse(name)
    tx.change(sa.delete(traits).where(_columns.id == sa.bindparam("p_id")), [{"p_id": id_}])


def replace(tx: Transaction, provider: str, names: Collection[str], expected: int) -> int:
    """Replace all traits of a provider; returns its generation, which rises only if the set changed.

    Raises:
        ProviderNotFound, GenerationConflict
        UnknownTraits: names all that do not exist.
    """
    row = providers.lock_one(tx, provider)
    providers.require_generation(row, expected)
    ids = lock_names(tx, names)
    return _associate(tx, row, set(ids.values()))


def clear(tx: Transaction, provider: str) -> None:
    """Remove all traits from a provider; its generation rises only if it had any.

    Raises:
        ProviderNotFound
    """
    _associate(tx, providers.lock_one(tx, provider), set())


def give(tx: Transaction, row: providers.StoredProvider, name: str) -> bool:
    """Add one trait to a locked provider; returns whether it lacked the trait. Its generation does not rise.

    Raises:
        UnknownTraits
    """
    id_ = lock_names(tx, [name])[name]
    if tx.connection.execute(sa.select(_pairs.trait_id).where(*_pair(row, id_))).first():
        return False
    pair = {"resource_provider_id": row.id, "trait_id": id_, "created_at": tx.now}
    tx.connection.execute(sa.insert(resource_provider_traits), pair)
    tx.note(Part.TRAITS, [row.id])
    return True


def take(tx: Transaction, row: providers.StoredProvider, name: str) -> None:
    """Remove one trait from a locked provider, if it has it. Its generation does not rise."""
    id_ = _ids(tx.connection, [name]).get(name)
    if id_ is not None:
        tx.connection.execute(sa.delete(resource_provider_traits).where(*_pair(row, id_)))
        tx.note(Part.TRAITS, [row.id])


_pairs = resource_provider_traits.c


def _pair(row: providers.StoredProvider, trait_id: int) -> tuple[sa.ColumnElement[bool], ...]:
    return _pairs.resource_provider_id == row.id, _pairs.trait_id == trait_id


def _associate(tx: Transaction, row: providers.StoredProvider, trait_ids: set[int]) -> int:
    if not providers.replace_members(tx, row, resource_provider_traits.c.trait_id, trait_ids):
        return row.generation
    tx.note(Part.TRAITS, [row.id])
    return tx.bump_generations({row.id: row.generation})[row.id]


def lock_names(tx: Transaction, names: Collection[str]) -> dict[str, int]:
    """Ids of traits by name. They cannot be deleted before this transaction ends.

    Raises:
        UnknownTraits: names all that do not exist.
    """
    ids = _ids(tx.connection, names)
    unknown = sorted(set(names) - set(ids))
    if unknown:
        raise UnknownTraits(unknown)
    # Standard traits are never deleted, so a lock on their rows would only make writers wait for each other.
    custom = {name: id_ for name, id_ in ids.items() if name not in STANDARD_TRAITS}
    if custom:
        tx.lock(traits, custom.values(), shared=True)
        if _ids(tx.connection, custom) != custom:
            raise RaceLost("traits")
        tx.touch(map(trait_change, custom.values()))
    return ids


def _ids(connection: Connection, names: Collection[str] | Mapping[str, int]) -> dict[str, int]:
    ids = {
        row.name: row.id
        for portion in in_portions(sorted(names))
        for row in connection.execute(sa.select(_columns.name, _columns.id).where(_columns.name.in_(portion)))
    }
    # Some databases compare names without case. Only the requested spelling counts (decision 7).
    return {name: ids[name] for name in names if name in ids}
