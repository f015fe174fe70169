"""The commit clock, the change rows, the epoch, and the counter that numbers custom resource classes."""

import uuid

import sqlalchemy as sa

from stead.store.schema.migrations import steps

revision = "stead0001"
down_revision = None

SLOTS = 64


def upgrade() -> None:
    clock = steps.create_table(
        "stead_clock",
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tick", sa.BigInteger, nullable=False),
        sa.Column("stamp", sa.BigInteger, nullable=False),
        sa.Column("floor", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.insert(clock, [{"slot": slot, "tick": 0, "stamp": 0, "floor": 0} for slot in range(SLOTS)])
    steps.create_table(
        "stead_provider_change",
        sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("tick", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.create_index("stead_provider_change_slot_tick_idx", "stead_provider_change", ["slot", "tick"])
    epoch = steps.create_table(
        "stead_epoch",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.String(36), nullable=False),
        mysql_engine="InnoDB",
    )
    steps.insert(epoch, [{"id": 1, "epoch": str(uuid.uuid4())}])
    counter = steps.create_table(
        "stead_counter",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.insert(counter, [{"name": "resource_class", "value": 10000}])
