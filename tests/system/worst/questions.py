"""Random small sites, and the expensive questions about them, as values that a climb can change a little."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

if TYPE_CHECKING:
    from random import Random

SHARING = "MISC_SHARES_VIA_AGGREGATE"
TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "HW_CPU_X86_SSE42")
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU")
MOST_GROUPS = 8

QUESTIONS = {
    "candidates": 1,
    "explain": 1,
    "headroom": 1,
    "mix": 1,
    "what-if": 7,
    "advice": 5,
    "gang": 4,
    "trees": 0,
    "consumers": 0,
    "changes": 0,
}
"""How many budgets of work the answer to each question may have, see docs/api.md. 0: its cost follows its answer.

What-if: the moves, three explanations, three questions. Advice: before, the trees, the bound, the search, after. A gang
of two: each claim, revising them, and the explanation.
"""


MOST_OF = {
    "hosts": 60,
    "numa": 8,
    "gpus": 6,
    "pools": 40,
    "zones": 40,
    "zones_of_host": 8,
    "kinds": 12,
    "consumers": 60,
}
"""The greatest value of each field of a shape."""


@dataclass(frozen=True)
class SiteShape:
    """What decides how a site looks. Everything else follows from ``seed``."""

    seed: int = 0
    hosts: int = 8
    numa: int = 0
    gpus: int = 0
    pools: int = 0
    zones: int = 2
    zones_of_host: int = 1
    kinds: int = 1
    consumers: int = 4

    def zone(self, number: int) -> str:
        """The uuid of an aggregate."""
        return str(UUID(int=(1 << 64) + number))

    def host(self, number: int) -> str:
        """The uuid of a root."""
        return str(UUID(int=(2 << 64) + number))

    def document(self, rng: Random) -> dict[str, Any]:
        """The body of PUT ``/provider_trees``."""
        amounts = [rng.randint(2, 24) for _ in range(self.kinds)]
        providers: list[dict[str, Any]] = []
        for host in range(self.hosts):
            amount = amounts[host % self.kinds]
            zones = rng.sample(range(self.zones), min(self.zones, self.zones_of_host))
            flat = {"VCPU": {"total": amount}, "MEMORY_MB": {"total": amount * 2}}
            own = {"DISK_GB": {"total": amount}} if not self.pools or rng.random() < 0.1 else {}
            name = f"host-{host}"
            providers.append(
                {
                    "uuid": self.host(host),
                    "name": name,
                    "parent_provider_uuid": None,
                    "traits": sorted(rng.sample(TRAITS, rng.randint(0, 3))),
                    "aggregates": [self.zone(zone) for zone in zones],
                    "inventories": own | (flat if not self.numa else {}),
                }
            )
            for numa in range(self.numa):
                inventories = dict(flat, VGPU={"total": self.gpus}) if self.gpus and numa % 2 else flat
                traits = sorted(rng.sample(TRAITS, rng.randint(0, 2)))
                child = {"name": f"{name}-{numa}", "parent_provider_uuid": f"name:{name}", "inventories": inventories}
                providers.append({**child, "traits": traits})
                providers += [
                    {
                        "name": f"{name}-{numa}-{gpu}",
                        "parent_provider_uuid": f"name:{name}-{numa}",
                        "inventories": {"VGPU": {"total": rng.randint(1, 3)}},
                    }
                    for gpu in range(0 if numa % 2 else self.gpus)
                ]
        for pool in range(self.pools):
            zones = rng.sample(range(self.zones), min(self.zones, 1 + pool % 3))
            providers.append(
                {
                    "name": f"pool-{pool}",
                    "parent_provider_uuid": None,
                    "traits": [SHARING],
                    "aggregates": [self.zone(zone) for zone in zones],
                    "inventories": {"DISK_GB": {"total": rng.randint(4, 60)}},
                }
            )
        return {"provider_trees": [{"providers": providers}]}


@dataclass(frozen=True)
class Group:
    """One group of a query."""

    resources: tuple[tuple[str, int], ...]
    required: str | None = None
    zone: int | None = None


@dataclass(frozen=True)
class Query:
    """A candidate query, with what some questions need beside it."""

    groups: tuple[Group, ...]
    policy: str | None = None
    subtree: bool = False
    split: bool = False
    order: str | None = None
    limit: int | None = None
    times: int = 2
    drains: int = 1

    def text(self, shape: SiteShape, *, limit: bool = True, order: bool = True) -> str:
        """The query string."""
        pairs = []
        for number, group in enumerate(self.groups):
            suffix = "" if number == 0 else f"_{number}"
            pairs.append((f"resources{suffix}", ",".join(f"{name}:{amount}" for name, amount in group.resources)))
            if group.required:
                pairs.append((f"required{suffix}", group.required))
            if group.zone is not None:
                pairs.append((f"member_of{suffix}", shape.zone(group.zone)))
        if len(self.groups) > 1:
            pairs.append(("group_policy", self.policy or "none"))
        if self.subtree and len(self.groups) > 2:
            pairs.append(("same_subtree", "_1,_2"))
        if self.split:
            pairs.append(("can_split", self.groups[0].resources[0][0]))
        if order and self.order:
            pairs.append(("order_by", self.order))
        if limit and self.limit:
            pairs.append(("limit", str(self.limit)))
        return urlencode(pairs)


@dataclass(frozen=True)
class Case:
    """A question about a site: what the climb changes."""

    question: str
    shape: SiteShape
    query: Query

    def request(self) -> tuple[str, str, str, Any]:
        """Method, path, query string and JSON body of the request."""
        shape, query = self.shape, self.query
        plain = query.text(shape, limit=False, order=False)
        hosts = [shape.host(number) for number in range(min(query.drains, shape.hosts))]
        match self.question:
            case "candidates":
                return "GET", "/allocation_candidates", query.text(shape), None
            case "explain":
                return "GET", "/allocation_candidates/explain", plain, None
            case "headroom":
                return "GET", "/headroom", plain, None
            case "mix":
                return "GET", "/headroom", urlencode({"mix": f"a:{min(query.times, 50)},b:1"}), None
            case "advice":
                return "GET", "/advice", f"{plain}&make_room_for={query.times * 4}", None
            case "what-if":
                drains = [{"change": "drain", "provider": host} for host in hosts]
                asked = dict.fromkeys(("headroom", "candidates", "explain"), plain)
                return "POST", "/whatif", "", {"changes": drains, "ask": {**asked, "totals": True}}
            case "gang":
                owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
                claims = [
                    {
                        "consumer_uuid": str(UUID(int=(9 << 64) + number)),
                        "query": query.text(shape, limit=False),
                        **owner,
                    }
                    for number in range(2)
                ]
                return "POST", "/claims", "", {"claims": claims, "distinct_roots": query.subtree}
            case "trees":
                return "GET", "/provider_trees", "totals=true", None
            case "consumers":
                return "GET", "/consumers", "project_id=p", None
            case _:
                return "GET", "/changes", "timeout=0", None

    def flavors(self) -> dict[str, str]:
        """The flavors of a mix, by name."""
        plain = self.query.text(self.shape, limit=False, order=False)
        return {
            "a": plain,
            "b": replace(self.query, groups=self.query.groups[:1], subtree=False).text(
                self.shape, limit=False, order=False
            ),
        }


def group(rng: Random, shape: SiteShape) -> Group:
    """A random group."""
    names = rng.sample(CLASSES if shape.gpus else CLASSES[:3], rng.choice([1, 1, 1, 2, 3]))
    return Group(
        tuple((name, rng.choice([1, 1, 1, 2, 3, 5])) for name in sorted(names)),
        rng.choice([None, None, None, "!" + rng.choice(TRAITS), rng.choice(TRAITS)]),
        rng.randrange(shape.zones) if rng.random() < 0.1 else None,
    )


def case(rng: Random, question: str) -> Case:
    """A random case of a question."""
    shape = SiteShape(rng.randrange(1000))
    for _ in range(6):
        shape = _changed_shape(rng, shape)
    query = Query(tuple(group(rng, shape) for _ in range(rng.randint(1, MOST_GROUPS))))
    return Case(question, shape, query)


def changed(rng: Random, before: Case) -> Case:
    """*before* with one or two changes, more often of its query than of its site."""
    shape, query = before.shape, before.query
    if rng.random() < 0.15:
        shape = _changed_shape(rng, shape)
    if shape is before.shape or rng.random() < 0.5:
        query = _changed_query(rng, shape, query)
    return Case(before.question, shape, query)


def _changed_shape(rng: Random, shape: SiteShape) -> SiteShape:
    name = rng.choice([*MOST_OF])
    value = getattr(shape, name)
    least = 1 if name in ("hosts", "zones", "kinds") else 0
    value = rng.choice([value + 1, value - 1, value * 2, value // 2, rng.randint(least, MOST_OF[name])])
    return replace(shape, **{name: min(max(value, least), MOST_OF[name])})


def _changed_query(rng: Random, shape: SiteShape, query: Query) -> Query:
    groups = list(query.groups)
    match rng.randrange(9):
        case 0 | 1:
            groups.append(rng.choice([rng.choice(groups), group(rng, shape)]))
        case 2 if len(groups) > 1:
            groups.pop(rng.randrange(len(groups)))
        case 3:
            groups[rng.randrange(len(groups))] = group(rng, shape)
        case 4:
            query = replace(query, policy=rng.choice(["none", "isolate"]))
        case 5:
            query = replace(query, subtree=not query.subtree)
        case 6:
            query = replace(query, split=not query.split)
        case 7:
            limit = rng.choice([None, 1, 10, 1000])
            query = replace(query, order=rng.choice([None, "pack", "spread", "VCPU:desc"]), limit=limit)
        case _:
            query = replace(query, times=rng.randint(1, 50), drains=rng.randint(1, 8))
    return replace(query, groups=tuple(groups[:MOST_GROUPS]))
