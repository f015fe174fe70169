"""A state machine that sends both services the same random history and wants the same answers."""

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import event, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.system.api.client import Answer, require_form
from tests.system.differential import known, queries, writes
from tests.system.differential.asking import Request
from tests.system.differential.comparison import Exchange, compare
from tests.system.differential.pair import Pair
from tests.system.differential.words import ALWAYS_THERE, CONSUMERS, PROVIDERS, consumers, versions

ALLOCATION_WRITES = ("PUT /allocations/*", "POST /allocations", "POST /reshaper")


class Difference(AssertionError):
    """Stead and the released service answered differently, and nobody has said that they may."""


class Histories(RuleBasedStateMachine):
    """One history of requests. It leaves both services as empty as it found them."""

    pair: ClassVar[Pair]
    seen: ClassVar[Callable[[Exchange, tuple[str, ...]], None]] = lambda exchange, names: None

    def __init__(self) -> None:
        super().__init__()
        self.uuids = self.pair.uuids()

    def drive(self, asked: Request) -> Answer:
        """Send *asked* to both; they must answer alike, but for what is known to differ."""
        request = asked.filled(self._uuid, self._generation)
        strangers = self._strangers(request)
        stead, released = self.pair.stead.ask(request), self.pair.released.ask(request)
        self.pair.steps += 1
        if asked.route == "POST /resource_providers" and stead.status < 300 and released.status < 300:
            stead, released = self._name(request, stead, released)
        exchange = compare(request, stead, released)
        names = known.names_of(exchange, self.pair) if exchange.facets else ()
        type(self).seen(exchange, names)
        event(f"{asked.route} {stead.status}")
        if exchange.facets and not names:
            note(str(exchange))
            raise Difference(f"{asked.route} at 1.{asked.version}\n{exchange}")
        if asked.headers == ():
            require_form(request.method, [("openstack-api-version", f"placement 1.{request.version}"),
                                          ("accept", "application/json")], stead)  # fmt: skip
        if asked.route in ALLOCATION_WRITES and known.leaves_consumers_behind(exchange):
            self._retire(strangers)
        return stead

    def _name(self, request: Request, stead: Answer, released: Answer) -> tuple[Answer, Answer]:
        """Let both answers and all that follows speak of a provider whose uuid the services chose by the same uuid."""
        chosen = [(answer.header("location") or "").rpartition("/")[2] for answer in (stead, released)]
        if chosen[0] == chosen[1]:
            return stead, released
        token = next((of for of in PROVIDERS if not self._exists(self.uuids[of])), None)
        if token is None:
            self.uuids.renew(PROVIDERS[0])  # the one that had this name is left alone from now on
            token = PROVIDERS[0]
        self.pair.stead.calls(self.uuids[token], chosen[0])
        self.pair.released.calls(self.uuids[token], chosen[1])
        return self.pair.stead.translated(stead), self.pair.released.translated(released)

    def _get(self, path: str, version: int = 39, **query: str) -> Any:
        return self.pair.stead.ask(Request("GET", path, version, tuple(query.items()))).json

    def _exists(self, uuid: str) -> bool:
        return self.pair.stead.ask(Request("GET", f"/resource_providers/{uuid}")).status == 200

    def _uuid(self, token: str) -> str:
        """The uuid for *token*; ``e5`` is one of the providers that exist, ``p5`` need not."""
        if not token.startswith("e"):
            return self.uuids[token]
        listed = {of["uuid"] for of in self._get("/resource_providers")["resource_providers"]}
        there = [self.uuids[of] for of in PROVIDERS if self.uuids[of] in listed]
        return there[int(token[1:]) % len(there)] if there else self.uuids[token]

    def _generation(self, token: str) -> int | None:
        if token in CONSUMERS:
            generation = self._get(f"/allocations/{self.uuids[token]}").get("consumer_generation")
            return None if generation is None else int(generation)
        return int(self._get(f"/resource_providers/{self._uuid(token)}").get("generation", 0))

    def _strangers(self, request: Request) -> list[str]:
        """The consumers that *request* speaks of and that hold nothing before it."""
        if request.route not in ALLOCATION_WRITES:
            return []
        text = f"{request.path} {request.body}".replace("-", "")
        named = [token for token in CONSUMERS if self.uuids[token].replace("-", "") in text]
        return [token for token in named if self._generation(token) is None]

    def _retire(self, tokens: list[str]) -> None:
        for token in tokens:
            if self._generation(token) is None:
                self.uuids.renew(token)

    @initialize(site=writes.site())
    def begin(self, site: list[Request]) -> None:
        for name in ALWAYS_THERE:
            kind = "resource_classes" if name.endswith("LAMP") else "traits"
            self.drive(Request("PUT", f"/{kind}/{name}"))
        for asked in site:
            self.drive(asked)

    def _there(self) -> list[queries.There]:
        """The providers that have inventory."""
        found = []
        for one in self._get("/resource_providers")["resource_providers"]:
            path = f"/resource_providers/{one['uuid']}"
            classes = tuple(sorted(self._get(f"{path}/inventories")["inventories"]))
            if classes:
                worn = tuple(sorted(self._get(f"{path}/traits")["traits"]))
                joined = tuple(sorted(self._get(f"{path}/aggregates")["aggregates"]))
                found.append(queries.There(one["uuid"], classes, worn, joined))
        return found

    @rule(data=st.data(), consumer=consumers, version=versions())
    def claim_a_candidate(self, data: st.DataObject, consumer: str, version: int) -> None:
        there = self._there()
        if not there:
            return
        answers = [self.drive(data.draw(queries.answerable_candidates(there))) for _ in range(3)]
        answer = answers[-1]
        if (
            answer.status == 200
            and answer.allocation_requests
            and isinstance(answer.allocation_requests[0]["allocations"], dict)
        ):
            found = sorted(answer.allocation_requests, key=lambda one: sorted(one["allocations"]))
            chosen = found[data.draw(st.integers(0, min(len(found), 8) - 1))]
            held = {uuid: of["resources"] for uuid, of in chosen["allocations"].items()}
            self.drive(data.draw(writes.claim_of(consumer, held, version)))

    @rule(data=st.data(), consumer=consumers, version=versions())
    def claim_of_what_is_there(self, data: st.DataObject, consumer: str, version: int) -> None:
        there = [(one.uuid, name) for one in self._there() for name in one.classes]
        if there:
            held: dict[str, dict[str, int]] = {}
            for uuid, name in data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=3, unique=True)):
                held.setdefault(uuid, {})[name] = data.draw(writes.amounts)
            self.drive(data.draw(writes.claim_of(consumer, held, version)))

    @rule(asked=writes.create_provider())
    def create_provider(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.update_provider())
    def update_provider(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.delete_provider())
    def delete_provider(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.replace_inventories())
    def replace_inventories(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.add_inventory())
    def add_inventory(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.replace_inventory())
    def replace_inventory(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.delete_inventory())
    def delete_inventory(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.write_aggregates())
    def write_aggregates(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.write_traits())
    def write_traits(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.write_trait())
    def write_trait(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.write_class())
    def write_class(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.write_allocations())
    def write_allocations(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.release())
    def release(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=writes.reshape())
    def reshape(self, asked: Request) -> None:
        self.drive(asked)

    @rule(several=st.lists(queries.candidates(), min_size=1, max_size=4))
    def candidates(self, several: list[Request]) -> None:
        for asked in several:
            self.drive(asked)

    @rule(asked=queries.provider_list())
    def provider_list(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=queries.usages())
    def usages(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=queries.trait_list())
    def trait_list(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=queries.look())
    def look(self, asked: Request) -> None:
        self.drive(asked)

    @rule(asked=queries.odd())
    def odd(self, asked: Request) -> None:
        self.drive(asked)

    def teardown(self) -> None:
        for side in (self.pair.stead, self.pair.released):
            empty(side.ask)


def empty(ask: Callable[[Request], Answer]) -> None:
    """Delete all that can be deleted."""

    def get(path: str) -> Any:
        return ask(Request("GET", path)).json

    parents = {of["uuid"]: of["parent_provider_uuid"] for of in get("/resource_providers")["resource_providers"]}

    def depth(uuid: str) -> int:
        return 0 if parents[uuid] is None else 1 + depth(parents[uuid])

    for uuid in sorted(parents, key=depth, reverse=True):
        for consumer in get(f"/resource_providers/{uuid}/allocations")["allocations"]:
            ask(Request("DELETE", f"/allocations/{consumer}"))
        assert ask(Request("DELETE", f"/resource_providers/{uuid}")).status == 204
    for name in ask(Request("GET", "/traits", query=(("name", "startswith:CUSTOM_"),))).traits:
        assert ask(Request("DELETE", f"/traits/{name}")).status == 204
    for one in get("/resource_classes")["resource_classes"]:
        if one["name"].startswith("CUSTOM_"):
            assert ask(Request("DELETE", f"/resource_classes/{one['name']}")).status == 204
