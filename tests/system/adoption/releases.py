"""The releases of the OpenStack service since its first one of its own, each in a virtual environment of its own."""

import re
from pathlib import Path

from tests.servers.environment import Environment

REQUIREMENTS = Path(__file__).with_name("requirements")

HEADS = {
    "1.0.0": "b4ed3a175331",
    "2.0.0": "b5c396305c25",
    "3.0.0": "b5c396305c25",
    "4.0.0": "b5c396305c25",
    "5.0.0": "b5c396305c25",
    "6.0.0": "422ece571366",
    "7.0.0": "422ece571366",
    "8.0.0": "422ece571366",
    "9.0.0": "422ece571366",
    "10.0.0": "a082b8bb98d0",
    "11.0.0": "a082b8bb98d0",
    "12.0.0": "a082b8bb98d0",
    "13.0.0": "a082b8bb98d0",
    "14.0.0": "a082b8bb98d0",
    "15.0.0": "a082b8bb98d0",
    "16.0.0": "a082b8bb98d0",
}
"""By release, the revision to which its ``db sync`` brings a database."""

DUMPED = ("1.0.0", "2.0.0", "6.0.0", "10.0.0", "16.0.0")
"""The first release with each schema, and the last one: what is tested of them all the time."""


def environment(release: str) -> Environment:
    """Where *release* is installed; ``STEAD_RELEASED_1_0_0_VENV`` may name a place that has it."""
    return Environment(
        f".venv-released-{release}",
        REQUIREMENTS / f"{release}.txt",
        f"STEAD_RELEASED_{re.sub('[.]', '_', release)}_VENV",
    )
