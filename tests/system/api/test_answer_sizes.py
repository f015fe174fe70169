"""No response takes more memory of a worker than its limit: lists that grow with the site, and candidates."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.config import load
from tests.conftest import write_configuration
from tests.system.api.client import NEWEST, Api, wsgi_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.one_database

PATHS = {
    "/resource_providers": "name=host-1",
    "/provider_trees": "limit=1",
    "/provider_trees?columns=true": "name=host-1",
    "/allocation_candidates?resources=VCPU:1": "limit=1",
}
"""What makes each of them shorter."""


@contextmanager
def service_with(folder: Path, answer_size: int) -> Iterator[Api]:
    """A service on one database, with a limit of answers in bytes."""
    file = write_configuration(folder, f"sqlite:///{folder}/stead.db")
    with file.open("a") as more:
        more.write(f"[stead]\nmax_answer_size = {answer_size}\n")
    settings = load([file])
    service = application.build_service(settings)
    try:
        yield Api(wsgi_door(application.assemble(service, settings))).at(f"{NEWEST}, stead 1.1")
    finally:
        service.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_longer_response_is_refused_and_a_shorter_one_is_not(tmp_path: Path, path: str) -> None:
    with service_with(tmp_path, 1 << 30) as api:
        for number in range(50):
            api.create_provider(f"host-{number}", inventories={"VCPU": 8})
        whole = api.get(path).expect(200).body
    with service_with(tmp_path, len(whole)) as api:
        assert api.get(path).expect(200).body == whole
    with service_with(tmp_path, len(whole) * 9 // 10) as api:
        assert api.get(path).refused(400, f"more than {len(whole) * 9 // 10} bytes ([stead] max_answer_size)")
        api.get(f"{path}{'&' if '?' in path else '?'}{PATHS[path]}").expect(200)
