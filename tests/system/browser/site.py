"""A small site for the pages: hosts of several sizes and aggregates, hostile names, a disabled host, some use."""

from __future__ import annotations

from typing import Any, Self

import httpx2

from tests.system.api.client import NEWEST

HOSTILE = (
    "<script>document.title='owned'</script>",
    "x" * 200,
    "שלום-مرحبا-\u202egnp.exe",
    "🦄🏳️‍🌈 host",
    '"><img src=x onerror=alert(1)>',
    "&amp; 100% #?/",
)
HOSTS = 60
CLASSES = {"VCPU": 64, "MEMORY_MB": 262_144, "DISK_GB": 2000}
AGGREGATES = ("7f1f0d5e-0000-4000-8000-000000000001", "7f1f0d5e-0000-4000-8000-000000000002")
FLAVORS = {
    "m1.large": ("resources=VCPU:8,MEMORY_MB:16384,DISK_GB:100", "eight cores"),
    "m1.small": ("resources=VCPU:1,MEMORY_MB:2048,DISK_GB:20", ""),
    "g1.two": ("resources=VCPU:4&resources_G=PGPU:2", "<b>both</b> GPUs of a host"),
    "whole-rack": ("resources=VCPU:65", "fits nowhere"),
}
"""Query and description of each flavor."""
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {NEWEST}, stead 1.1"}


def names() -> list[str]:
    """All hosts."""
    return [*(f"host-{number:03}" for number in range(HOSTS)), *HOSTILE]


def fill(url: str) -> None:
    """Make the site on an empty server."""
    trees = [{"providers": _tree(number, name)} for number, name in enumerate(names())]
    with Api(url) as api:
        api.send("PUT", "/provider_trees", {"provider_trees": trees, "create_names": True})
        amounts = {name: number % 65 for number, name in enumerate(names())}
        held = {api.consumer(name): api.holding(name, amount) for name, amount in amounts.items() if amount}
        api.send("POST", "/allocations", held)
        uuid = api.uuid("host-007")
        api.send("PATCH", f"/provider_trees/{uuid}", {"disabled": {"reason": "<b>broken</b> fan"}})
        for name, (query, description) in FLAVORS.items():
            api.send("PUT", f"/flavors/{name}", {"query": query, "description": description})


def _tree(number: int, name: str) -> list[dict[str, Any]]:
    inventories = {key: {"total": total} for key, total in CLASSES.items()}
    traits = ["COMPUTE_NODE", *(["CUSTOM_SSD"] if number % 3 else [])]
    root = {"name": name, "inventories": inventories, "traits": traits, "aggregates": [AGGREGATES[number % 2]]}
    gpu = {"name": f"{name[:190]}_gpu", "parent_provider_uuid": f"name:{name}", "inventories": {"PGPU": {"total": 2}}}
    return [root, gpu] if number % 4 == 0 else [root]


class Api:
    """Requests to the server."""

    def __init__(self, url: str) -> None:
        # uWSGI ends a connection after each response without saying so, so that a kept one may be reset.
        self._client = httpx2.Client(base_url=url, headers=HEADERS, limits=httpx2.Limits(max_keepalive_connections=0))
        self._uuids: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, method: str, path: str, body: object = None) -> Any:
        """The document of a response, which must be a success."""
        answered = self._client.request(method, path, json=body)
        assert answered.is_success, answered.text
        return answered.json() if answered.content else None

    def uuid(self, name: str) -> str:
        """The uuid of the provider with a name."""
        if name not in self._uuids:
            columns = self.send("GET", "/provider_trees?columns=true&fields=uuid,name")["providers"]
            self._uuids = dict(zip(columns["name"], columns["uuid"], strict=True))
        return self._uuids[name]

    def consumer(self, name: str) -> str:
        """The uuid of the consumer on a host."""
        return f"c0ffee00-0000-4000-8000-{self.uuid(name)[-12:]}"

    def holding(self, name: str, amount: int, generation: int | None = None) -> dict[str, Any]:
        """A body with which a consumer holds *amount* VCPU of a host; 0 releases it."""
        allocations = {self.uuid(name): {"resources": {"VCPU": amount}}} if amount else {}
        owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
        return {"allocations": allocations, "consumer_generation": generation, **owner}

    def claim(self, name: str, amount: int) -> None:
        """Make the consumer on a host hold *amount* VCPU of it; 0 releases it."""
        path = f"/allocations/{self.consumer(name)}"
        generation = self.send("GET", path).get("consumer_generation")
        self.send("PUT", path, self.holding(name, amount, generation))

    def used(self) -> dict[str, dict[str, int]]:
        """By class the use of every host."""
        columns = self.send("GET", "/provider_trees?columns=true&totals=true&depth=0&fields=name")
        return {
            key: {
                columns["providers"]["name"][tree]: used
                for tree, used, having in zip(
                    sums.get("tree", range(len(sums["used"]))), sums["used"], sums["provider_count"], strict=True
                )
                if having
            }
            for key, sums in columns["trees"]["totals"].items()
        }
