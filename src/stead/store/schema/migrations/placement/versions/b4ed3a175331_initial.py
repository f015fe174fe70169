"""The tables of a Placement database as of Stein, with the indexes that later turned out to be redundant."""

import sqlalchemy as sa

from stead.store.schema.migrations import steps

revision = "b4ed3a175331"
down_revision = None


def _stamped(name: str, *parts: sa.schema.SchemaItem) -> None:
    steps.create_table(
        name,
        sa.Column("created_at", sa.DateTime, nullable=True),
        sa.Column("updated_at", sa.DateTime, nullable=True),
        *parts,
        mysql_engine="InnoDB",
    )


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=nullable)


def _key() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True, nullable=False)


def upgrade() -> None:
    _providers()
    _names()
    _what_providers_have()
    _who_holds_what()


def _providers() -> None:
    _stamped(
        "resource_providers",
        _key(),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.Unicode(200), nullable=True),
        _number("generation", nullable=True),
        sa.Column("root_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"), nullable=True),
        sa.Column("parent_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"), nullable=True),
        sa.UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
        sa.UniqueConstraint("name", name="uniq_resource_providers0name"),
    )
    steps.create_index("resource_providers_name_idx", "resource_providers", ["name"])
    steps.create_index("resource_providers_parent_provider_id_idx", "resource_providers", ["parent_provider_id"])
    steps.create_index("resource_providers_root_provider_id_idx", "resource_providers", ["root_provider_id"])
    steps.create_index("resource_providers_uuid_idx", "resource_providers", ["uuid"])


def _names() -> None:
    _stamped(
        "resource_classes",
        _key(),
        sa.Column("name", sa.String(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_resource_classes0name"),
    )
    _stamped(
        "traits",
        _key(),
        sa.Column("name", sa.Unicode(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_traits0name"),
    )
    _stamped(
        "placement_aggregates",
        _key(),
        sa.Column("uuid", sa.String(36), nullable=True),
        sa.UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
    )
    steps.create_index("ix_placement_aggregates_uuid", "placement_aggregates", ["uuid"])


def _what_providers_have() -> None:
    _stamped(
        "inventories",
        _key(),
        _number("resource_provider_id"),
        _number("resource_class_id"),
        _number("total"),
        _number("reserved"),
        _number("min_unit"),
        _number("max_unit"),
        _number("step_size"),
        sa.Column("allocation_ratio", sa.Float, nullable=False),
        sa.UniqueConstraint(
            "resource_provider_id", "resource_class_id", name="uniq_inventories0resource_provider_resource_class"
        ),
    )
    steps.create_index("inventories_resource_class_id_idx", "inventories", ["resource_class_id"])
    steps.create_index("inventories_resource_provider_id_idx", "inventories", ["resource_provider_id"])
    steps.create_index(
        "inventories_resource_provider_resource_class_idx", "inventories", ["resource_provider_id", "resource_class_id"]
    )
    _stamped(
        "resource_provider_traits",
        sa.Column("trait_id", sa.Integer, sa.ForeignKey("traits.id"), primary_key=True, nullable=False),
        sa.Column(
            "resource_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"), primary_key=True, nullable=False
        ),
    )
    steps.create_index(
        "resource_provider_traits_resource_provider_trait_idx",
        "resource_provider_traits",
        ["resource_provider_id", "trait_id"],
    )
    _stamped(
        "resource_provider_aggregates",
        sa.Column("resource_provider_id", sa.Integer, primary_key=True, autoincrement=False, nullable=False),
        sa.Column("aggregate_id", sa.Integer, primary_key=True, autoincrement=False, nullable=False),
    )
    steps.create_index(
        "resource_provider_aggregates_aggregate_id_idx", "resource_provider_aggregates", ["aggregate_id"]
    )


def _who_holds_what() -> None:
    for table in ("projects", "users"):
        _stamped(
            table,
            _key(),
            sa.Column("external_id", sa.String(255), nullable=False),
            sa.UniqueConstraint("external_id", name=f"uniq_{table}0external_id"),
        )
    _stamped(
        "consumers",
        _key(),
        sa.Column("uuid", sa.String(36), nullable=False),
        _number("project_id"),
        _number("user_id"),
        sa.Column("generation", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
    )
    steps.create_index("consumers_project_id_user_id_uuid_idx", "consumers", ["project_id", "user_id", "uuid"])
    steps.create_index("consumers_project_id_uuid_idx", "consumers", ["project_id", "uuid"])
    _stamped(
        "allocations",
        _key(),
        _number("resource_provider_id"),
        sa.Column("consumer_id", sa.String(36), nullable=False),
        _number("resource_class_id"),
        _number("used"),
    )
    steps.create_index("allocations_consumer_id_idx", "allocations", ["consumer_id"])
    steps.create_index("allocations_resource_class_id_idx", "allocations", ["resource_class_id"])
    steps.create_index(
        "allocations_resource_provider_class_used_idx",
        "allocations",
        ["resource_provider_id", "resource_class_id", "used"],
    )
