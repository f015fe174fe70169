"""The environment of the tests of ``stead serve``: that of the tests of commands."""

from tests.rooms.cli.conftest import own_environment

__all__ = ["own_environment"]
