import os

import pytest


@pytest.fixture(autouse=True)
def no_configuration_of_this_machine(monkeypatch, tmp_path):
    """Home is an empty directory and no variable of ours is set, so what a test sees is what it wrote."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in [*os.environ]:
        if variable.startswith(("OS_", "STEAD_", "XDG_", "SNAP")):
            monkeypatch.delenv(variable)
    return home
