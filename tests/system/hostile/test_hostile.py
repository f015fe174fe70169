"""One client cannot stop the service: each attack in little, beside a client that wants to be served."""

import pytest

from tests.system.hostile.attacks import ATTACKS
from tests.system.hostile.runs import victim

pytestmark = [
    pytest.mark.timeout(300),  # an attack each, and what comes after it
    pytest.mark.one_database,
]

SECONDS = 5.0
MEMORY = 512 * 1024 * 1024
DESCRIPTORS = 2000


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    with victim(tmp_path_factory.mktemp("hostile"), "head_timeout = 2\nbody_timeout = 2\nsend_timeout = 2\n") as one:
        yield one


@pytest.mark.parametrize("name", ATTACKS)
def test_other_clients_are_served_during_an_attack(attacked, name):
    attack, count, _ = ATTACKS[name]
    report = attacked.attacked(attack(attacked.target, count), SECONDS)
    assert report.failures == []
    assert report.query
    assert report.memory < MEMORY
    assert report.descriptors < DESCRIPTORS
