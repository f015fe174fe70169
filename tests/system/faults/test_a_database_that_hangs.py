"""The database stands still, or the way to it does: nobody waits for it for ever."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead import application
from stead.config import load
from tests.conftest import write_configuration
from tests.system.api.client import Api, holding, wsgi_door
from tests.system.faults.waiting import candidates_of, unavailable, when_back

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(300),  # database servers are started, stopped and found again
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]

AT_ONCE = 12  # more than the reader's connections that are kept open


@pytest.fixture
def api(victim: Victim, tmp_path: Path) -> Iterator[Api]:
    """A service that has little patience with its database."""
    url = sa.make_url(victim.url).update_query_dict({"connect_timeout": "2"})
    configuration = write_configuration(tmp_path, url.render_as_string(hide_password=False))
    with configuration.open("a") as file:
        file.write("[stead]\nanswer_timeout = 1\n")
    settings = load([configuration])
    service = application.build_service(settings)
    yield Api(wsgi_door(application.assemble(service, settings)))
    service.close()


def test_requests_end_while_it_hangs_and_are_answered_when_it_goes_on(api: Api, victim: Victim) -> None:
    host = api.create_provider(inventories={"VCPU": 8})
    consumer = api.claim((host, {"VCPU": 5}))
    known = candidates_of(api)

    with victim.standing_still():
        assert unavailable(api.get(host.path))
        assert unavailable(api.get("/allocation_candidates", {"resources": "VCPU:1"}))
        assert unavailable(api.get(f"/allocations/{consumer}"))
        assert unavailable(api.delete(f"/allocations/{consumer}"))
        assert unavailable(api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 6}), generation=1)))
        with ThreadPoolExecutor(AT_ONCE) as clients:
            asked = [clients.submit(api.get, host.path) for _ in range(AT_ONCE)]
        assert all(unavailable(one.result()) for one in asked)

    assert when_back(lambda: api.get(host.path)).status == 200
    assert when_back(lambda: api.get(f"/allocations/{consumer}")).status == 200
    assert api.used(host) == {"VCPU": 5}
    assert candidates_of(api) == known
    assert when_back(lambda: api.delete(f"/allocations/{consumer}")).status == 204
    assert api.used(host) == {"VCPU": 0}
