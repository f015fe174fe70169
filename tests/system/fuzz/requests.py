"""The grammar of whole requests: method, path, query, headers and body."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.system.fuzz.bodies import sent, spoiled, valid
from tests.system.fuzz.queries import ENCODED, LISTS, query
from tests.system.fuzz.words import CLASSES, CONSUMERS, PROVIDERS, TEXTS, TRAITS, mostly, one_in, spelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.system.api.client import Headers

NEWEST = 39
OWN = f"placement 1.{NEWEST}, stead 1.2"
ODD_VERSIONS = [
    "placement 1.40", "placement 2.0", "placement 0.9", "placement 1", "placement 1.2.3", "placement LATEST",
    "placement",
    "placement 1." + "9" * 5000, "placement -1.0", "placement 1.-1", "placement ١.١", "placement 1.3_9", "compute 2.1",
    "placement 1.39, stead 1.0", "placement 1.39,stead latest", "placement 1.10,stead 1.0", "placement 1.39, stead 9.9",
    ",,,,",
    "placement 1.39," * 2000, "PLACEMENT latest", "", "\xff", "placement <b>", "placement 1.1\x0b", "placement 1\x00.1",
    "placement %s{0}", "placement 1.39, placement 1.2", "stead", "x" * 60000, "placement\t1.5", "placement 1. 5",
]  # fmt: skip
ACCEPTS = [
    "*/*", "", "text/html", "text/plain", "application/*", "application/json;q=0", "application/json, text/html",
    "text/html;q=0.1,*/*;q=0.8", "*/*;q=0", "garbage", "a/b;c=" + '"' * 101, ",,,", "application/json;q=2", "é/é",
    "text/html," * 3000, "a/b" + ";c=d" * 5000, "application/json; charset=utf-8", "\x00", "a/b" + " " * 20000 + "x",
]  # fmt: skip
CONTENT_TYPES = [
    "", "text/plain", "application/json; charset=utf-16", "Application/JSON", "application/json;", "application/jsonx",
    "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", " application/json",
    "application/json, text/html", "é",
    "\x00", ";", "x" * 20000,
]  # fmt: skip
LENGTHS = ["-1", "x", "1e3", "0x10", "+5", " 5 ", "٥", "9" * 30, "9" * 5000, "1.0", "5, 5", "00", "5\x00", "1_0"]
METHODS = ["PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "G\nT", "", "PROPFIND", "é", "GET " * 500, "{0}%s"]
HOSTILE: list[tuple[str, list[str]]] = [
    ("X-Openstack-Request-Id", ["req-" + "1" * 100_000, "req-x\nINFO forged", "req-é",
    "req-00000000-0000-0000-0000-000000000000"]),
    ("X-Forwarded-For", ['1.2.3.4" 200', "é", "x" * 20000, "1.2.3.4\nforged", "\x1b[2J"]),
    ("X-Forwarded-Proto", ["https", "x\r\nSet-Cookie: a=b", "é", "javascript", "\x00"]),
    ("X-Forwarded-Host", ["evil.example", "x\r\nSet-Cookie: a=b", "é", "a b", "x" * 20000, "[::1", "\x00"]),
    ("X-Forwarded-Prefix", ["/a", "x\r\nSet-Cookie: a=b", "/é", "//evil.example", '"', "\x00"]),
    ("Forwarded", ["for=1.2.3.4;proto=https;host=x", 'for="' + "x" * 20000, "host=é", "=;=;,", "proto=\x00"]),
    ("Origin", ["https://dash.example", "null", "https://evil.example", "é", "https://dash.example\r\nX: y",
    "x" * 20000]),
    ("Access-Control-Request-Method", ["PUT", "é", "", "\r\n"]),
    ("Access-Control-Request-Headers", ["X-Auth-Token", "," * 5000, "x-auth-token\r\nX: y", "é"]),
    ("Accept-Encoding", ["gzip", "gzip;q=0", "*", "gzip;q=1.5", "x" * 20000, "gzip," * 3000, "é"]),
    ("Transfer-Encoding", ["chunked", "gzip, chunked", "x"]),
    ("Host", ["", "x:y", "x:99999", "[::1]", "é", "a/b?c", "x" * 20000, "a\r\nb", ":", "\x00"]),
    ("If-Match", ["*"]),
    ("Range", ["bytes=0-0"]),
    ("X-Http-Method-Override", ["DELETE"]),
    ("X-Project-Id", ["p", "", "é", "%(x)s", "x" * 5000]),
    ("OpenStack-System-Scope", ["all", "x"]),
    ("X-Domain-Id", ["d"]),
    ("X-Is-Admin-Project", ["false", "é"]),
    ("X-Service-Roles", ["admin", "é"]),
    ("Cookie", ["a=" + "b" * 20000]),
]  # fmt: skip

PATHS = [
    "/", "", "/resource_providers", "/resource_providers/{p}", "/resource_providers/{p}/inventories",
    "/resource_providers/{p}/inventories/{c}", "/resource_providers/{p}/usages", "/resource_providers/{p}/aggregates",
    "/resource_providers/{p}/allocations", "/resource_providers/{p}/traits", "/resource_classes",
    "/resource_classes/{c}",
    "/traits", "/traits/{t}", "/allocations", "/allocations/{k}", "/allocation_candidates", "/usages", "/reshaper",
    "/openapi.json", "/allocation_candidates/explain", "/consumers", "/provider_trees", "/claims", "/changes",
    "/provider_trees/{p}", "/headroom", "/flavors", "/flavors/{t}", "/whatif", "/advice",
]  # fmt: skip
ODD_PATHS = [
    "//", "/%2e%2e/", "/traits/", "/traits//x", "/resource_providers/%00", "/resource_providers%2F", "/%FF",
    "/traits/%FF", "x",
    "/" + "x" * 30000, "/traits/" + "%C3%A9" * 5000, "/healthcheck", "/traits/CUSTOM_A%0A",
    "/resource_classes/CUSTOM_A%0A",
    "/;x", "/%", "/traits/%zz", "*", "http://evil.example/", "/resource_providers/" + "/".join("x" * 200),
]  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request as the application sees it; *target* is percent-encoded."""

    method: str
    target: str
    headers: Headers
    body: bytes | None = None

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def route(self) -> str:
        """Where it goes, without what is in it."""
        segments = self.target.partition("?")[0].split("/")
        known = {name for path in PATHS for name in path.split("/")}
        return f"{self.method[:8]} {'/'.join(name if name in known else '*' for name in segments[:6])}"


def request(rng: Random, generation: Callable[[str], int | None]) -> Request:
    """Anything; *generation* tells which one a provider or a consumer has now, by its uuid."""
    minor = mostly(rng, [NEWEST], range(NEWEST + 1), 3)
    kind = rng.randrange(100)
    body = None
    if kind < 45:
        method, path = "GET", mostly(rng, list(LISTS), PATHS, 4)
        target = filled(rng, path)
        if path in LISTS or one_in(rng, 10):
            target += f"?{query(rng, path)}"
    elif kind < 85:
        method, target, value = valid(rng, minor, generation)
        if not one_in(rng, 3):
            for _ in range(rng.choice([1, 1, 2, 4])):
                value = spoiled(rng, value)
            body = sent(rng, value)
        else:
            body = sent(Random(9), value)
    elif kind < 95:
        method, target = rng.choice(["PUT", "DELETE", "DELETE", "GET"]), filled(rng, rng.choice(PATHS))
    else:
        method = mostly(rng, ["GET", "PUT", "POST", "DELETE", *METHODS], METHODS, 3)
        target = mostly(rng, [filled(rng, rng.choice(PATHS))], ODD_PATHS, 3)
        body = rng.choice([None, b"", b"{}", b"\xff" * 100, b"[" * 100_000, b"{" * 3])
    if one_in(rng, 60):
        method = rng.choice(METHODS)
    return Request(method, target, headers(rng, minor, body), body)


def filled(rng: Random, path: str) -> str:
    """*path* with names in it."""
    if one_in(rng, 40):
        return rng.choice(ODD_PATHS)
    odd = [quote(text, safe="") for text in TEXTS if text] + [text for text in ENCODED if text not in "?#"]
    return (
        path.replace("{p}", mostly(rng, [quote(spelled(rng, rng.choice(PROVIDERS)))], odd, 20))
        .replace("{k}", mostly(rng, [quote(spelled(rng, rng.choice(CONSUMERS)))], odd, 20))
        .replace("{c}", mostly(rng, [*CLASSES, "CUSTOM_FUZZ_Z"], odd, 10))
        .replace("{t}", mostly(rng, TRAITS, odd, 10))
    )


def headers(rng: Random, minor: int, body: bytes | None) -> Headers:
    """Those every request should have, sometimes not as they should be, and some that it should not have."""
    versions = [f"placement 1.{minor}", *([OWN] if body is None or minor == NEWEST else [])]
    found: dict[str, str | None] = {
        "X-Auth-Token": mostly(rng, ["admin"], ["", "reader:p", "é", "x" * 20000, None, ":", "a\nb"], 40),
        "X-Roles": mostly(rng, ["admin,service"], ["", "reader", "member", "é", "," * 5000, None, "%(x)s"], 40),
        "Accept": mostly(rng, ["application/json"], [*ACCEPTS, None], 12),
        "OpenStack-API-Version": mostly(rng, versions, [*ODD_VERSIONS, None], 20),
    }
    if body is not None:
        found["Content-Type"] = mostly(rng, ["application/json"], [*CONTENT_TYPES, None], 25)
        lies = [*LENGTHS, str(len(body) + 5), str(len(body) // 2), "0", "", None]
        found["Content-Length"] = mostly(rng, [str(len(body))], lies, 30)
    while one_in(rng, 5):
        name, values = rng.choice(HOSTILE)
        found[name] = rng.choice(values)
    return [(name, value) for name, value in found.items() if value is not None]
