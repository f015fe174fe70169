"""The configuration of a service on a database of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_configuration(directory: Path, database_url: str) -> Path:
    """A placement.conf as an operator would write it, for a database whose tables are made at start."""
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = {database_url}\nsync_on_startup = true\n[api]\nauth_strategy = noauth2\n"
    )
    return file
