"""Generates the synchronous client whenever Stead is built, or installed from a checkout."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SynchronousClient(BuildHookInterface[Any]):
    """Writes ``stead.client.blocking`` before the files of a distribution are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        runpy.run_path(str(Path(self.root) / "scripts" / "twins.py"))["write"]()
