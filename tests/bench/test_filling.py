"""Sites get into databases and servers, and out again, and what somebody else has there stays."""

from contextlib import closing
from dataclasses import replace

import pytest

from stead.application import build_service
from stead.config import load
from stead.store import providers, traits
from stead_bench import filling, tables
from stead_bench.errors import BenchError
from stead_bench.sites import Site
from tests.bench.conftest import serving, unwatched
from tests.conftest import write_configuration


def listed(server):
    with closing(server.connect()) as connection:
        return {provider["uuid"]: provider for provider in connection.read("/resource_providers")["resource_providers"]}


def test_a_database_gets_the_whole_site_at_once(database_url, tmp_path):
    site = Site("numa", 2)
    with tables.opened(database_url) as store:
        tables.prepare(store)
    service = build_service(load([write_configuration(tmp_path, database_url)]))
    try:
        before = service.snapshot()
        assert filling.make(database_url, site, unwatched) == 30
        assert service.snapshot() is not before  # it was told
        service.write(providers.create, "00000000-0000-4000-8000-000000000001", "bench-later", None)  # ids go on
        with tables.opened(database_url) as store:
            expected = {described.uuid for described in site.descriptions()}
            assert tables.present(store) == expected | {"00000000-0000-4000-8000-000000000001"}
            tables.clear(store)
            assert tables.present(store) == set()
    finally:
        service.close()


def test_providers_of_somebody_else_are_left_alone(tmp_path):
    url = f"sqlite:///{tmp_path}/used.db"
    with tables.opened(url) as store:
        tables.prepare(store)
        store.write(providers.create, "00000000-0000-4000-8000-000000000002", "production", None)
        store.write(traits.create, "CUSTOM_MINE")
    with pytest.raises(BenchError, match="production"):
        filling.make(url, Site("flat", 3), unwatched)


def test_over_the_api_a_server_gets_what_a_database_gets_and_keeps_nothing_else(tmp_path):
    with serving(tmp_path / "api", None) as opened, serving(tmp_path / "straight", Site("nested", 2)) as other:
        server = replace(opened, database=None)
        filling.fill(server, Site("flat", 5), unwatched)
        filling.fill(server, Site("nested", 3), unwatched)
        filling.fill(server, Site("nested", 2), unwatched)
        made, expected = listed(server), listed(other)
        assert made.keys() == expected.keys()
        for uuid, provider in made.items():
            assert provider | {"generation": 0} == expected[uuid] | {"generation": 0}
        filling.fill(other, Site("nested", 3), unwatched)  # straight, beside a server that runs
        assert len(listed(other)) == 21
