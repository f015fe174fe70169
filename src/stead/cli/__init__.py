"""The command line: clients of the HTTP API, but for ``serve``, ``db`` and ``audit``, which open the house."""

from stead.cli.app import main

__all__ = ["main"]
