"""Where OpenStack's clients live: they bring some sixty packages, so it is not beside Stead's own."""

from tests.checkout import ROOT
from tests.servers.environment import Environment

CLIENTS = Environment(".venv-clients", ROOT / "locks" / "clients.txt", "STEAD_CLIENTS_VENV")
