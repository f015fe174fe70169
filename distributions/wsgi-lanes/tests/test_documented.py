"""What the docstring of the package and the README name is there."""

import pkgutil
import re
from dataclasses import fields
from pathlib import Path

import wsgi_lanes
from wsgi_lanes.bounds import Bounds

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_each_station_of_a_request_exists():
    stations = re.findall(r"`(\w+)\.([\w.]+)`", wsgi_lanes.__doc__)
    assert len(stations) > 10
    for module, name in stations:
        pkgutil.resolve_name(f"wsgi_lanes.{module}:{name}")


def test_each_name_that_a_program_imports_exists():
    rows = re.findall(r"^\| `(wsgi_lanes\.\w+)` \| (.*) \|$", README, re.MULTILINE)
    named = [(module, name) for module, text in rows for name in re.findall(r"`([A-Z]\w+)`", text)]
    assert len(named) > 8
    for module, name in named:
        pkgutil.resolve_name(f"{module}:{name}")


def test_each_limit_is_documented():
    table = README.partition("## Limits")[2]
    assert {field.name for field in fields(Bounds)} == set(
        re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `")))
    )
