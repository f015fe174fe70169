"""Where Keystone lives: it brings some eighty packages, so it is not beside Stead's own."""

from pathlib import Path

from tests.servers.environment import Environment

KEYSTONE = Environment(".venv-keystone", Path(__file__).with_name("requirements.txt"), "STEAD_KEYSTONE_VENV")
