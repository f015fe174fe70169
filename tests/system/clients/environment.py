"""Where OpenStack's clients live: they bring some sixty packages, so it is not beside Stead's own."""

from pathlib import Path

from tests.servers.environment import Environment

CLIENTS = Environment(".venv-clients", Path(__file__).with_name("requirements.txt"), "STEAD_CLIENTS_VENV")
