"""A Placement server in a few dictionaries: as much of the API as sites need, called like `stead.Site`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from stead.client.errors import Conflict, NotFound, Refused, Stale

STANDARD_CLASSES = {"VCPU", "MEMORY_MB", "DISK_GB"}
STANDARD_TRAITS = {"HW_NUMA_ROOT", "STORAGE_DISK_SSD", "COMPUTE_NODE"}


def conflict(code: str) -> Refused:
    return (Stale if code == "concurrent_update" else Conflict)(409, code, code=f"placement.{code}")


@dataclass
class Server:
    """`interfere` is called before every write, to play somebody else who is faster."""

    providers: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: set[str] = field(default_factory=lambda: set(STANDARD_CLASSES))
    traits: set[str] = field(default_factory=lambda: set(STANDARD_TRAITS))
    writes: list[str] = field(default_factory=list)
    interfere: Callable[["Server"], None] = lambda _server: None

    def allocate(self, name: str, resource_class: str, amount: int) -> None:
        provider = self.named(name)
        provider["usages"][resource_class] = amount
        provider["generation"] += 1

    def named(self, name: str) -> dict[str, Any]:
        return next(provider for provider in self.providers.values() if provider["name"] == name)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        match method:
            case "GET":
                return self.get(path)
            case "PUT":
                return self.put(path, body)
            case "POST":
                return self.post(path, body)
            case "DELETE":
                return self.delete(path)
        raise AssertionError(method)

    def get(self, path: str) -> Any:
        match path.strip("/").split("/"):
            case ["resource_providers"]:
                keys = ("uuid", "name", "generation", "parent_provider_uuid")
                return {
                    "resource_providers": [{key: provider[key] for key in keys} for provider in self.providers.values()]
                }
            case ["resource_classes"]:
                return {"resource_classes": [{"name": name} for name in self.classes]}
            case ["traits"]:
                return {"traits": sorted(self.traits)}
            case ["resource_providers", uuid, part]:
                provider = self._find(uuid)
                value = provider[part]
                return {part: value, "resource_provider_generation": provider["generation"]}
        raise AssertionError(path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        self._write(f"POST {path}")
        assert path == "/resource_providers"
        uuid = body.get("uuid") or str(uuid4())
        if uuid in self.providers or any(provider["name"] == body["name"] for provider in self.providers.values()):
            raise conflict("duplicate_name")
        parent = body.get("parent_provider_uuid")
        assert parent is None or parent in self.providers
        self.providers[uuid] = {
            "uuid": uuid,
            "name": body["name"],
            "generation": 0,
            "parent_provider_uuid": parent,
            "inventories": {},
            "traits": [],
            "aggregates": [],
            "usages": {},
        }
        return self.providers[uuid]

    def put(self, path: str, body: Any = None) -> Any:
        self._write(f"PUT {path}")
        match path.strip("/").split("/"):
            case ["resource_classes", name]:
                self.classes.add(name)
            case ["traits", name]:
                self.traits.add(name)
            case ["resource_providers", uuid]:
                self._find(uuid)
                assert uuid not in self._lineage(body["parent_provider_uuid"]), "a loop"
                self.providers[uuid]["parent_provider_uuid"] = body["parent_provider_uuid"]
            case ["resource_providers", uuid, part]:
                return self._replace(self._find(uuid), part, body)
        return None

    def delete(self, path: str) -> None:
        self._write(f"DELETE {path}")
        uuid = path.rpartition("/")[2]
        if any(provider["parent_provider_uuid"] == uuid for provider in self.providers.values()):
            raise conflict("resource_provider.cannot_delete_parent")
        if any(self._find(uuid)["usages"].values()):
            raise conflict("resource_provider.inuse")
        del self.providers[uuid]

    def _replace(self, provider: dict[str, Any], part: str, body: Any) -> Any:
        if body["resource_provider_generation"] != provider["generation"]:
            raise conflict("concurrent_update")
        existing = {"inventories": self.classes, "traits": self.traits}.get(part, set(body[part]))
        assert set(body[part]) <= existing, "unknown names"
        if part == "inventories" and any(used and name not in body[part] for name, used in provider["usages"].items()):
            raise conflict("inventory.inuse")
        provider[part] = body[part]
        provider["generation"] += 1
        return {part: body[part], "resource_provider_generation": provider["generation"]}

    def _lineage(self, uuid: str | None) -> list[str]:
        lineage = []
        while uuid is not None:
            lineage.append(uuid)
            uuid = self.providers[uuid]["parent_provider_uuid"]
        return lineage

    def _find(self, uuid: str) -> dict[str, Any]:
        if uuid not in self.providers:
            raise NotFound(404, f"No resource provider with uuid {uuid} found")
        return self.providers[uuid]

    def _write(self, what: str) -> None:
        self.interfere(self)
        self.writes.append(what)
