"""Every table: those of an existing Placement database, as they are, and Stead's own, prefixed ``stead_``.

Source: "The database", docs/protocol.md. The first thirteen belong to the deployment; Stead can be removed and leaves
them unchanged. The migrations alone create indexes and constraints; this module has only what the statements need.
"""

from __future__ import annotations

from sqlalchemy import BigInteger as _BigInteger
from sqlalchemy import (
    Column,
    DateTime,
    Double,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    Unicode,
    func,
    literal_column,
)

metadata = MetaData()


def _table(name: str, *columns: Column[object]) -> Table:
    return Table(name, metadata, Column("created_at", DateTime), Column("updated_at", DateTime), *columns)


resource_providers = _table(
    "resource_providers",
    Column("id", Integer, primary_key=True),
    Column("uuid", String(36), nullable=False),
    Column("name", Unicode(200)),
    Column("generation", Integer),
    Column("root_provider_id", Integer),
    Column("parent_provider_id", Integer),
)

provider_name = func.coalesce(resource_providers.c.name, resource_providers.c.uuid).label("name")
"""The name as it is read. The column may be NULL; then the uuid is the name."""

provider_generation = func.coalesce(resource_providers.c.generation, literal_column("0")).label("generation")
"""The generation as it is read. The column may be NULL, which counts as 0; the next write stores a number."""

inventories = _table(
    "inventories",
    Column("id", Integer, primary_key=True),
    Column("resource_provider_id", Integer, nullable=False),
    Column("resource_class_id", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("reserved", Integer, nullable=False),
    Column("min_unit", Integer, nullable=False),
    Column("max_unit", Integer, nullable=False),
    Column("step_size", Integer, nullable=False),
    Column("allocation_ratio", Float, nullable=False),
)

allocations = _table(
    "allocations",
    Column("id", Integer, primary_key=True),
    Column("resource_provider_id", Integer, nullable=False),
    Column("consumer_id", String(36), nullable=False),  # the consumer's uuid, whatever the name says
    Column("resource_class_id", Integer, nullable=False),
    Column("used", Integer, nullable=False),
)

consumers = _table(
    "consumers",
    Column("id", Integer, primary_key=True),
    Column("uuid", String(36), nullable=False),
    Column("project_id", Integer, nullable=False),
    Column("user_id", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("consumer_type_id", Integer),
)

consumer_types = _table(
    "consumer_types",
    Column("id", Integer, primary_key=True),
    Column("name", Unicode(255), nullable=False),
)

projects = _table(
    "projects",
    Column("id", Integer, primary_key=True),
    Column("external_id", String(255), nullable=False),
)

users = _table(
    "users",
    Column("id", Integer, primary_key=True),
    Column("external_id", String(255), nullable=False),
)

resource_classes = _table(
    "resource_classes",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", String(255), nullable=False),
)

traits = _table(
    "traits",
    Column("id", Integer, primary_key=True),
    Column("name", Unicode(255), nullable=False),
)

resource_provider_traits = _table(
    "resource_provider_traits",
    Column("trait_id", Integer, primary_key=True),
    Column("resource_provider_id", Integer, primary_key=True),
)

placement_aggregates = _table(
    "placement_aggregates",
    Column("id", Integer, primary_key=True),
    Column("uuid", String(36)),
)

resource_provider_aggregates = _table(
    "resource_provider_aggregates",
    Column("resource_provider_id", Integer, primary_key=True),
    Column("aggregate_id", Integer, primary_key=True),
)

KEPT_STAMPS = 480
"""Characters for the earlier ticks of a slot with their stamps: about 16 of them."""

stead_clock = Table(
    "stead_clock",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("tick", _BigInteger, nullable=False),
    Column("stamp", _BigInteger, nullable=False),
    Column("floor", _BigInteger, nullable=False),
    Column("earlier", String(KEPT_STAMPS), nullable=False, server_default=""),  # "tick:stamp," … newest first
)

stead_provider_change = Table(
    "stead_provider_change",
    metadata,
    Column("provider_id", Integer, primary_key=True, autoincrement=False),
    Column("slot", Integer, nullable=False),
    Column("tick", _BigInteger, nullable=False),
)

stead_usage_change = Table(
    "stead_usage_change",
    metadata,
    Column("provider_id", Integer, primary_key=True, autoincrement=False),
    Column("slot", Integer, nullable=False),
    Column("tick", _BigInteger, nullable=False),
)

stead_part_change = Table(
    "stead_part_change",
    metadata,
    Column("provider_id", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),  # of clock.Part
    Column("slot", Integer, nullable=False),
    Column("tick", _BigInteger, nullable=False),
)

stead_change_log = Table(
    "stead_change_log",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("tick", _BigInteger, primary_key=True, autoincrement=False),
    Column("uuid", String(36), primary_key=True),
    Column("kind", Integer, nullable=False),  # of clock.LogKind
    Column("ended", Integer),  # 1: the lease of the consumer ended; otherwise null
)

stead_change_floor = Table(
    "stead_change_floor",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("floor", _BigInteger, nullable=False),  # the log has no rows up to and including this tick
)

stead_usage = Table(
    "stead_usage",
    metadata,
    Column("provider_id", Integer, primary_key=True, autoincrement=False),
    Column("class_id", Integer, primary_key=True, autoincrement=False),
    Column("used", _BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),  # the provider's generation for which the sum is valid
)

stead_disabled_provider = Table(
    "stead_disabled_provider",
    metadata,
    Column("provider_id", Integer, primary_key=True, autoincrement=False),
    # The provider's uuid: if the database reuses ids, another service may have replaced the provider.
    Column("uuid", String(36), nullable=False),
    Column("reason", Unicode(255), nullable=False),
    Column("disabled_at", _BigInteger, nullable=False),  # in seconds since 1970, like the next column
    Column("enable_at", _BigInteger, nullable=True),
    Column("owns_trait", Integer, nullable=False),  # 1: COMPUTE_STATUS_DISABLED was set with this row
)

stead_flavor = Table(
    "stead_flavor",
    metadata,
    Column("name", String(255), primary_key=True),  # ASCII; compared and sorted by bytes
    Column("query", Text, nullable=False),
    Column("description", Unicode(255), nullable=False),
    Column("weight", Double, nullable=True),  # of the mix; NULL if it is not known
)

stead_ended_session = Table(
    "stead_ended_session",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("forget_at", _BigInteger, nullable=False),  # in seconds since 1970; the session ends then by itself
)

stead_asked_form = Table(
    "stead_asked_form",
    metadata,
    Column("digest", String(64), primary_key=True),  # of the query
    Column("query", Text, nullable=False),
    Column("times", Double, nullable=False),  # as of `counted_at`; it decays
    Column("surplus", Double, nullable=False),  # this part of `times` may be of forms that were removed
    Column("counted_at", _BigInteger, nullable=False),  # in seconds since 1970
)

stead_learned_mix = Table(
    "stead_learned_mix",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", _BigInteger, nullable=False),  # of the changes of stead_asked_form, whose writers lock this row
)

stead_lease = Table(
    "stead_lease",
    metadata,
    # Both: if the database reuses ids, another service may have replaced the consumer.
    Column("consumer_id", Integer, primary_key=True, autoincrement=False),
    Column("uuid", String(36), nullable=False),
    Column("expires_at", _BigInteger, nullable=False),  # in seconds since 1970, like the next column
    Column("renewed_at", _BigInteger, nullable=False),  # when the database's clock was read for `expires_at`
    Column("state", Integer, nullable=False),  # of leases.State
)

stead_epoch = Table(
    "stead_epoch",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", String(36), nullable=False),
)

stead_counter = Table(
    "stead_counter",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", _BigInteger, nullable=False),
)

stead_schema = Table(
    "stead_schema",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("oldest", String(32), nullable=False),
)
"""One row: the head of the oldest release that may still use Stead's tables in their present form. A release that knows
this revision can run on them, even after a newer one has upgraded them.
"""
