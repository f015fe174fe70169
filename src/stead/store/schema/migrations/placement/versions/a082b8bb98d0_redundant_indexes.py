"""Drop the indexes that duplicate a unique constraint."""

from stead.store.schema.migrations import steps

revision = "a082b8bb98d0"
down_revision = "422ece571366"


def upgrade() -> None:
    steps.drop_index("inventories_resource_provider_id_idx", "inventories")
    steps.drop_index("inventories_resource_provider_resource_class_idx", "inventories")
    steps.drop_index("ix_placement_aggregates_uuid", "placement_aggregates")
    steps.drop_index("resource_providers_name_idx", "resource_providers")
    steps.drop_index("resource_providers_uuid_idx", "resource_providers")
