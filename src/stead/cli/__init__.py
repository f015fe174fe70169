"""The command line. All commands are clients of the HTTP API, except ``serve``, ``db`` and ``audit``."""

from stead.cli.app import main

__all__ = ["main"]
