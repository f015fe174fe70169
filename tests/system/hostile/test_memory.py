"""What connections cost in memory, whatever they send: a real worker, against the bound of docs/deployment.md."""

import pytest

from lanes_testing.pieces import KINDS
from tests.system.hostile.runs import victim
from wsgi_lanes.bounds import KIB, MIB
from wsgi_lanes.requests import FREE_SIZE

pytestmark = [
    pytest.mark.timeout(300),  # on a busy machine; 2 s each on an idle one
    pytest.mark.one_database,
]

CONNECTIONS = 600
BODIES = 1 * MIB
"""The least that `max_bodies_size` accepts, so that it bounds little connections too."""

CONNECTION = 16 * KIB
"""A connection itself."""

NOISE = 4 * MIB
"""What a worker allocates beside its connections meanwhile."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    with victim(tmp_path_factory.mktemp("memory"), f"max_bodies_size = {BODIES}\n") as server:
        yield server, server.memory()


@pytest.mark.parametrize("kind", KINDS)
def test_connections_take_no_more_memory_than_the_docs_promise(attacked, kind):
    server, at_rest = attacked
    with_them, after = server.memory_with(kind, CONNECTIONS)
    promised = BODIES + CONNECTIONS * (FREE_SIZE + CONNECTION) + NOISE
    assert with_them - at_rest < promised
    assert after - at_rest < promised  # nor do the kinds before it add up
