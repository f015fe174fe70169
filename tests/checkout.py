"""Where the files of this checkout are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The root of the repository."""
