"""Where Keystone lives: it brings some eighty packages, so it is not beside Stead's own."""

from tests.checkout import ROOT
from tests.servers.environment import Environment

KEYSTONE = Environment(".venv-keystone", ROOT / "locks" / "keystone.txt", "STEAD_KEYSTONE_VENV")
