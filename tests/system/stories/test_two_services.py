"""Two services on one database: what one of them acknowledged, the other shows at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.api.client import Api, fresh_uuid, holding, http_door

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)  # two services write one database

CLIENTS = 4
WRITES = 12


def stale_answers(one: Api, other: Api) -> list[str]:
    """What was old when clients read it through *other*: each writes to its own host through *one*, and looks at once.

    What the clients do at the same time keeps the other service refreshing, which is when it could go wrong.
    """
    custom = one.create_class()

    def work(_number: int) -> list[str]:
        host = one.create_provider(inventories={custom: 1000, "VCPU": 1000})
        consumer, found = fresh_uuid(), []
        for amount in range(1, WRITES + 1):
            body = holding((host, {custom: amount}), generation=amount - 1 or None)
            one.put(f"/allocations/{consumer}", body).expect(204)
            used = other.get(host.usages).expect(200).usages[custom]
            if used != amount:
                found.append(f"usages: {used} instead of {amount}")
            room = {"resources": f"{custom}:1", "in_tree": host.uuid}
            shown = other.get("/allocation_candidates", room).expect(200).provider_summaries
            used = shown[host.uuid]["resources"][custom]["used"]
            if used != amount:
                found.append(f"candidates: {used} instead of {amount}")
        return found

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [stale for found in pool.map(work, range(CLIENTS)) for stale in found]


def test_what_one_service_acknowledged_the_other_shows_at_once(database_url: str, tmp_path: Path) -> None:
    with ExitStack() as services:
        apis = []
        for name in ("one", "other"):
            place = tmp_path / name
            place.mkdir()
            server = services.enter_context(started(write_configuration(place, database_url), workers=1))
            apis.append(Api(http_door(server.url)))
        assert stale_answers(*apis) == []
