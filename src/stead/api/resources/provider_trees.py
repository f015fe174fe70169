"""``/provider_trees``: whole trees, read in pages and written as documents, and the service state of a provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson

from stead.api.answers import CONCURRENT_UPDATE, UNKNOWN, Answer, Rows, answer, answering, is_current, race
from stead.api.bodies import (
    GENERATION,
    INVENTORY_FIELDS,
    MOMENT,
    ONE_LINE,
    STORABLE,
    TOTAL,
    UUID,
    Body,
    Schema,
    build_inventories,
    mapping,
    read_body,
    show_inventory,
    strict_object,
)
from stead.api.query import candidates
from stead.api.query.candidates import Pairs
from stead.api.query.providers import parse_tree_query
from stead.api.request import allowed, json_answer, json_body, normalised_uuid, require_tree_providers
from stead.api.resources.allocation_candidates import UNKNOWN_CLASSES
from stead.api.tree_columns import column_texts
from stead.api.tree_text import state_object, totals_texts, tree_texts, whole_text
from stead.api.versions import S, V, Versioned
from stead.candidates.provider_trees import count_providers, matching_trees, page_of, places_of, rows_of, tree_totals
from stead.domain.moments import from_text
from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.domain.provider import BY_NAME, MOST_OF_PROVIDER
from stead.domain.provider_trees import (
    UNSTATED,
    CapacityBelowUse,
    DescribedProvider,
    DescribedProviderGone,
    DocumentFault,
    RemovedInUse,
    TreeDocument,
)
from stead.domain.request import Page
from stead.printing import class_order
from stead.process import runtime
from stead.store import provider_trees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead.api.query.providers import TreesQuery
    from stead.api.request import Request, Response
    from stead.candidates.provider_trees import Roots, ShownTree
    from stead.catalog.snapshot import Snapshot
    from stead.domain.limits import RequestLimits
    from stead.domain.provider import Inventory
    from stead.domain.provider_trees import Overcommitment, ProviderPlan, Remaining, TreePlan
    from stead.service.service import Service


# The answer to PUT ``/provider_trees``: what was done with each provider, or what a dry run would do.
#
# Source: "PUT /provider_trees", docs/stead-api.md.


CAPACITY_BELOW_USE = "stead.capacity_below_use"
REMOVED_IN_USE = "stead.in_use"

_AT_ONCE = 256
"""Providers that are written before the answer gives way to short requests."""

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_NAME_LIST: Schema = {"type": "array", "items": _TEXT}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_TURN = strict_object({"before": _MAYBE_TEXT, "after": _MAYBE_TEXT})
_SETS = strict_object({"added": _NAME_LIST, "removed": _NAME_LIST})
_MAYBE_INVENTORY: Schema = {"anyOf": [{"type": "object"}, {"type": "null"}]}
REMAINING = strict_object(
    {"uuid": UUID, "name": _TEXT, "resource_class": _MAYBE_TEXT, "used": _COUNT, "needed_by": _MAYBE_TEXT}
)
OVERCOMMITTED = strict_object(
    {
        "uuid": UUID,
        "name": _TEXT,
        "resource_class": _TEXT,
        "used": _COUNT,
        "capacity_before": _COUNT,
        "capacity_after": _COUNT,
    }
)
DIFFERENCES = strict_object(
    {},
    {
        "name": _TURN,
        "parent_provider_uuid": _TURN,
        "inventories": mapping(
            RESOURCE_CLASS_NAME, strict_object({"before": _MAYBE_INVENTORY, "after": _MAYBE_INVENTORY, "used": _COUNT})
        ),
        "traits": _SETS,
        "aggregates": _SETS,
    },
)
CHANGES = ("created", "renamed", "moved", "inventories", "traits", "aggregates")


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


OUTCOME = strict_object(
    {
        "dry_run": {"type": "boolean"},
        "providers": _array(
            strict_object(
                {
                    "uuid": {"type": ["string", "null"], "format": "uuid"},
                    "name": _TEXT,
                    "generation": _COUNT,
                    "changes": _array({"type": "string", "enum": list(CHANGES)}),
                    "differences": DIFFERENCES,
                }
            )
        ),
        "deleted": _array(strict_object({"uuid": UUID, "name": _TEXT})),
        "remaining": _array(REMAINING),
        "in_use": _array(REMAINING),
        "overcommitted": _array(OVERCOMMITTED),
        "created_names": strict_object({"resource_classes": _NAME_LIST, "traits": _NAME_LIST}),
    }
)
"""The schema of the answer."""


def show_outcome(plan: TreePlan, *, dry_run: bool) -> dict[str, Any]:
    """The body of the answer."""
    return {
        "dry_run": dry_run,
        "providers": [_show_provider(planned, dry_run=dry_run) for planned in _giving_way(plan.providers)],
        "deleted": [{"uuid": provider.uuid, "name": provider.name} for provider in plan.deleted],
        "remaining": list(map(show_remaining, plan.remaining)),
        "in_use": list(map(show_remaining, plan.in_use)),
        "overcommitted": list(map(show_overcommitment, plan.overcommitted)),
        "created_names": {"resource_classes": list(plan.new_classes), "traits": list(plan.new_traits)},
    }


def _giving_way(providers: Sequence[ProviderPlan]) -> Iterable[ProviderPlan]:
    for number, planned in enumerate(providers):
        if not number % _AT_ONCE:
            runtime.give_way()
        yield planned


def _show_provider(planned: ProviderPlan, *, dry_run: bool) -> dict[str, Any]:
    changes = planned.changes
    return {
        # A dry run stores nothing, so the next PUT chooses another uuid.
        "uuid": None if dry_run and planned.is_uuid_chosen else planned.uuid,
        "name": planned.name,
        "generation": planned.generation,
        "changes": changes,
        "differences": _differences(planned) if changes else {},
    }


def _differences(planned: ProviderPlan) -> dict[str, Any]:
    """The values before and after, for each part that changes."""
    before = planned.before
    now = planned.current
    differences: dict[str, Any] = {}
    if before is None or before.name != planned.name:
        differences["name"] = {"before": before and before.name, "after": planned.name}
    if before is None or before.parent != planned.parent:
        differences["parent_provider_uuid"] = {"before": before and before.parent, "after": planned.parent}
    inventories = {
        name: {
            "before": show_inventory(now.inventories[name]) if name in now.inventories else None,
            "after": show_inventory(planned.inventories[name]) if name in planned.inventories else None,
            "used": now.used.get(name, 0),
        }
        for name in sorted(now.inventories.keys() | planned.inventories.keys(), key=class_order)
        if now.inventories.get(name) != planned.inventories.get(name)
    }
    if inventories:
        differences["inventories"] = inventories
    for part, had, has in (
        ("traits", now.traits, planned.traits),
        ("aggregates", now.aggregates, planned.aggregates),
    ):
        if had != has:
            differences[part] = {"added": sorted(has - had), "removed": sorted(had - has)}
    return differences


def show_remaining(remaining: Remaining) -> dict[str, Any]:
    """A provider or inventory that stays although the document lacks it."""
    return {
        "uuid": remaining.provider,
        "name": remaining.name,
        "resource_class": remaining.resource_class,
        "used": remaining.used,
        "needed_by": remaining.needed_by,
    }


def show_overcommitment(overcommitment: Overcommitment) -> dict[str, Any]:
    """A capacity that falls below its use."""
    return {
        "uuid": overcommitment.provider,
        "name": overcommitment.name,
        "resource_class": overcommitment.resource_class,
        "used": overcommitment.used,
        "capacity_before": overcommitment.before,
        "capacity_after": overcommitment.after,
    }


REFUSALS: Rows = {
    DescribedProviderGone: Answer(409, CONCURRENT_UPDATE),
    RemovedInUse: Answer(409, REMOVED_IN_USE, more={"in_use": lambda error: list(map(show_remaining, error.in_use))}),
    CapacityBelowUse: Answer(
        409,
        CAPACITY_BELOW_USE,
        more={"overcommitted": lambda error: list(map(show_overcommitment, error.overcommitted))},
    ),
    **race("provider trees"),
}


TREES = 1_000
"""Default number of trees in one page."""

MOST_TREES = 10_000
"""Maximum number of trees in one page."""

MOST_PROVIDERS = 20_000
"""Maximum number of providers in one page, unless its only tree has more."""


class ProviderTrees:
    """``/provider_trees``. Requires ``stead`` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:provider_trees:list")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """List provider trees with inventories, usages, traits and aggregates, in pages or as columns."""
        pairs = Pairs.of(req)
        parsed = parse_tree_query(pairs)
        # The token is older than the snapshot, so no change is missing between the answer and changes since the token.
        token = self._service.watchers.look(None).token if parsed.columns else ""
        snapshot, moment = self._service.view()
        if is_current(req, resp, moment):
            return
        roots = matching_trees(snapshot, parsed.query)
        if parsed.columns:
            answer(req, resp, self._joined(_columns(snapshot, roots, parsed, token)), modified=UNKNOWN)
            return
        page = Page(min(parsed.page.limit or TREES, MOST_TREES), parsed.page.marker)
        trees, goes_on = page_of(snapshot, roots, page, parsed.depth, MOST_PROVIDERS)
        links = candidates.links(req, pairs, snapshot.uuid(trees[-1].root) if goes_on else None)
        answer(
            req, resp, self._joined(_document(snapshot, roots, trees, parsed, orjson.dumps(links))), modified=UNKNOWN
        )

    def _joined(self, parts: Iterable[bytes]) -> bytes:
        return b"".join(runtime.bounded(parts, self._limits.answer_size))

    @json_body
    @allowed("stead:provider_trees:update")
    @answering(REFUSALS)
    def on_put(self, req: Request, resp: Response) -> None:
        """Replace provider trees: create, move, rename, change and delete providers in one transaction."""
        described = read_body(req, DOCUMENT)
        document = described.document(self._limits)
        plan = self._service.plan_trees(document) if described.dry_run else self._service.replace_trees(document)
        answer(req, resp, show_outcome(plan, dry_run=described.dry_run), modified=None)


def _columns(snapshot: Snapshot, roots: Roots, parsed: TreesQuery, token: str) -> Iterator[bytes]:
    rows = rows_of(snapshot, roots, parsed.depth)
    totals = tree_totals(snapshot, rows.roots) if parsed.totals else None
    counts = f'"tree_count":{len(roots)},"provider_count":{int(rows.sizes.sum())}'
    yield b'{"token":' + orjson.dumps(token) + f",{counts},".encode()
    if totals is not None:
        yield f'"totals":{whole_text(totals)},'.encode()
    yield from column_texts(snapshot, rows, parsed.fields, totals)
    yield b"}"


def _document(
    snapshot: Snapshot, roots: Roots, trees: Sequence[ShownTree], parsed: TreesQuery, links: bytes
) -> Iterator[bytes]:
    yield f'{{"tree_count":{len(roots)},"provider_count":{count_providers(snapshot, roots)},'.encode()
    sums = None
    if parsed.totals:
        totals = tree_totals(snapshot, roots)
        sums = totals_texts(totals, places_of(trees, roots))
        yield f'"totals":{whole_text(totals)},'.encode()
    yield b'"provider_trees":['
    for number, text in enumerate(tree_texts(snapshot, trees, parsed.fields, sums)):
        yield f",{text}".encode() if number else text.encode()
    yield b'],"links":' + links + b"}"


# ``/provider_trees/{uuid}``: the service state of a provider.


REASON_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Disable:
    """Why to disable a provider, and until when, in seconds since 1970; None: until a client enables it."""

    reason: str
    until: int | None


def _build(body: dict[str, Any]) -> Disable | None:
    """The requested state; None enables the provider."""
    disabled = body["disabled"]
    if disabled is None:
        return None
    until = disabled.get("until")
    return Disable(disabled["reason"], None if until is None else from_text(until))


DISABLED = {
    **strict_object(
        {
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": REASON_LENGTH,
                "pattern": "^[^\\x00-\\x1f\\x7f]*$",
                "format": ONE_LINE,
            }
        },
        {"until": {"type": ["string", "null"], "format": MOMENT}},
    ),
    "type": ["object", "null"],
}
CHANGE = Versioned({V.INITIAL: Body(strict_object({"disabled": DISABLED}), _build)})


class ProviderStates:
    """`/provider_trees/{uuid}`: the service state of one provider. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_body
    @allowed("stead:provider_trees:disable")
    @answering(race("Unable to change the state of the provider"))
    def on_patch(self, req: Request, resp: Response, uuid: str) -> None:
        """Disable or enable a resource provider."""
        change = read_body(req, CHANGE)
        if change is None:
            state = self._service.write(provider_trees.enable, uuid)
        else:
            state = self._service.write(provider_trees.disable, uuid, change.reason, change.until)
        disabled = None if state.disabled is None else state_object(state.uuid, state.disabled)
        body = {"uuid": state.uuid, "name": state.name, "generation": state.generation, "disabled": disabled}
        answer(req, resp, body, modified=None)


# The body of PUT ``/provider_trees``. An answer to GET has this form too; its read-only fields are ignored.
#
# Source: "PUT /provider_trees", docs/stead-api.md.


_ANYTHING: Schema = {}
_BOOLEAN: Schema = {"type": "boolean"}
_NAMES: Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "format": STORABLE},
    "maxItems": MOST_OF_PROVIDER,
    "uniqueItems": True,
}
INVENTORY = strict_object(
    TOTAL, {name: schema for name, schema in INVENTORY_FIELDS.items() if name != "resource_provider_generation"}
)
PARENT: Schema = {
    "anyOf": [
        {"type": "null"},
        {"type": "string", "format": "uuid"},
        {"type": "string", "pattern": f"^{BY_NAME}.", "format": STORABLE},
    ]
}
PROVIDER = strict_object(
    {},
    {
        "uuid": UUID,
        "name": {"type": "string", "minLength": 1, "maxLength": 200, "format": STORABLE},
        "parent_provider_uuid": PARENT,
        "generation": GENERATION,
        "inventories": mapping(RESOURCE_CLASS_NAME, INVENTORY, maxProperties=MOST_OF_PROVIDER),
        "traits": _NAMES,
        "aggregates": {
            "type": "array",
            "items": {**UUID, "maxLength": 36},
            "maxItems": MOST_OF_PROVIDER,
            "uniqueItems": True,
        },
        "usages": _ANYTHING,
        "disabled": _ANYTHING,
    },
)
TREE = strict_object(
    {"providers": {"type": "array", "items": PROVIDER}},
    {"root_provider_uuid": UUID, "provider_count": _ANYTHING, "totals": _ANYTHING},
)
OPTIONS = ("prune", "merge", "keep_used", "allow_overcommit", "create_names")
"""Options of a document; the names are those of `TreeDocument`."""


@dataclass(frozen=True, slots=True)
class Described:
    """A parsed body: its trees, the options by name, and whether it is a dry run."""

    trees: Sequence[dict[str, Any]]
    options: dict[str, bool]
    dry_run: bool

    @classmethod
    def build(cls, body: dict[str, Any]) -> Described:
        """Build it from the body of a PUT."""
        options = {name: body[name] for name in OPTIONS if name in body}
        return cls(body["provider_trees"], options, body.get("dry_run", False))

    def document(self, limits: RequestLimits) -> TreeDocument:
        """The document that the body describes.

        Raises:
            Refused: 413, too many providers.
            DocumentFault: a provider has neither a uuid nor a name.
        """
        require_tree_providers(limits, [len(tree["providers"]) for tree in self.trees])
        emptied = [
            (f"provider_trees[{number}]", str(normalised_uuid(tree["root_provider_uuid"])))
            for number, tree in enumerate(self.trees)
            if not tree["providers"] and "root_provider_uuid" in tree
        ]
        return TreeDocument(list(self._providers()), emptied, **self.options)

    def _providers(self) -> Iterator[DescribedProvider]:
        make = _Maker()
        for number, tree in enumerate(self.trees):
            runtime.give_way()
            for position, record in enumerate(tree["providers"]):
                yield make.provider(f"provider_trees[{number}].providers[{position}]", record)


class _Maker:
    """Builds providers from records. Providers with equal parts share one object, which compares quickly."""

    def __init__(self) -> None:
        self._inventories: dict[str, dict[str, Inventory]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def provider(self, place: str, record: dict[str, Any]) -> DescribedProvider:
        uuid, name = record.get("uuid"), record.get("name")
        if uuid is None and name is None:
            raise DocumentFault(place, "neither a uuid nor a name")
        generation = record.get("generation")
        return DescribedProvider(
            place,
            None if uuid is None else normalised_uuid(uuid),
            name,
            _parent(record),
            None if generation is None else int(generation),
            self._stock(record.get("inventories")),
            self._set(record.get("traits")),
            self._set(record.get("aggregates")),
            # Chosen before the transaction, so that each attempt creates the provider with the same uuid.
            str(uuid4()),
        )

    def _stock(self, records: dict[str, Any] | None) -> dict[str, Inventory] | None:
        if records is None:
            return None
        # The text is the key, because the records are dicts, which have no hash.
        key = repr(records)
        stock = self._inventories.get(key)
        if stock is None:
            stock = self._inventories[key] = build_inventories(records)
        return stock

    def _set(self, names: list[str] | None) -> frozenset[str] | None:
        if names is None:
            return None
        members = frozenset(names)
        return self._sets.setdefault(members, members)


def _parent(record: dict[str, Any]) -> Any:
    parent = record.get("parent_provider_uuid", UNSTATED)
    if not isinstance(parent, str) or parent.startswith(BY_NAME):
        return parent
    return normalised_uuid(parent)


DOCUMENT = Versioned(
    {
        V.INITIAL: Body(
            strict_object(
                {"provider_trees": {"type": "array", "items": TREE}},
                {
                    **dict.fromkeys((*OPTIONS, "dry_run"), _BOOLEAN),
                    **dict.fromkeys(("tree_count", "provider_count", "totals", "links"), _ANYTHING),
                },
            ),
            Described.build,
            placed=True,
        )
    }
)
