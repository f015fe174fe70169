"""``/traits`` with the traits of one provider, and ``/resource_classes``."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from stead.api.answers import (
    CONCURRENT_UPDATE,
    NOW,
    Answer,
    Field,
    SelfLink,
    Shape,
    answer,
    answer_nothing,
    answering,
    locate,
    maker,
    mark_modified,
    newest,
    race,
)
from stead.api.bodies import GENERATION, ONE_LINE, STORABLE, Body, Schema, Validator, read_body, strict_object
from stead.api.query.candidates import Pairs
from stead.api.request import MalformedBody, allowed, by_version, find_provider, json_answer, json_body, since
from stead.api.versions import V, Versioned
from stead.domain.changes import NameRow
from stead.domain.errors import (
    GenerationConflict,
    InvalidQuery,
    ProviderNotFound,
    ResourceClassExists,
    ResourceClassInUse,
    ResourceClassNotFound,
    StandardClass,
    TraitNotFound,
    UnknownTraits,
)
from stead.domain.names import CUSTOM_NAME, NAME_LENGTH, require_custom_trait
from stead.domain.provider import MOST_OF_PROVIDER
from stead.store import resource_classes, traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stead.api.request import Request, Response
    from stead.catalog.snapshot import Snapshot
    from stead.service.service import Service


LIST_QUERY = Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "associated": {"type": "string"}},
    }
)


@dataclass(frozen=True, slots=True)
class NewTraits:
    """The new traits of a provider, and its generation as the client knows it."""

    names: list[str]
    expected: int

    @classmethod
    def build(cls, body: dict[str, Any]) -> NewTraits:
        """Build it from the body of a PUT."""
        return cls(list(dict.fromkeys(body["traits"])), int(body["resource_provider_generation"]))


_NAME = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "format": STORABLE}
REPLACE = Versioned(
    {
        V.TRAITS: Body(
            strict_object(
                {
                    "traits": {"type": "array", "items": _NAME, "maxItems": MOST_OF_PROVIDER},
                    "resource_provider_generation": GENERATION,
                }
            ),
            NewTraits.build,
        )
    }
)


def name_filter(value: str | None) -> Callable[[str], bool]:
    """A predicate for the names that ``in:A,B`` or ``startswith:P`` select; an unknown operator selects all.

    Raises:
        InvalidQuery: *value* has no operator.
    """
    operator, colon, operand = (value or "").partition(":")
    if value is not None and not colon:
        raise InvalidQuery(
            "Badly formatted name parameter. Expected name query string parameter in form: "
            f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{value}"'
        )
    if operator == "in":
        return frozenset(operand.split(",")).__contains__
    if operator == "startswith":
        return lambda name: name.startswith(operand)
    return lambda _name: True


def association_filter(value: str | None, snapshot: Snapshot) -> Callable[[str], bool]:
    """A predicate for names that are associated with a provider, or that are not.

    Raises:
        InvalidQuery: *value* is neither true nor false.
    """
    if value is None:
        return lambda _name: True
    if value.lower() not in ("true", "false"):
        raise InvalidQuery('The query parameter "associated" only accepts "true" or "false"')
    is_associated, in_use = value.lower() == "true", snapshot.traits_in_use()
    return lambda name: (name in in_use) is is_associated


def answer_provider_traits(
    req: Request, resp: Response, names: Iterable[str], by_name: Mapping[str, NameRow], generation: int
) -> None:
    """Answer with the traits of a provider and its generation; *by_name* are all existing traits by name."""
    shown = list(names)
    body = {"traits": shown, "resource_provider_generation": generation}
    answer(req, resp, body, modified=newest(by_name[name].modified for name in shown if name in by_name))


class Traits:
    """`/traits`: standard and custom traits."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.TRAITS)
    @json_answer
    @allowed("placement:traits:list")
    def on_get(self, req: Request, resp: Response) -> None:
        """List traits."""
        pairs = Pairs.of(req)
        pairs.require(LIST_QUERY)
        named = name_filter(pairs.last("name"))
        snapshot = self._service.snapshot()
        associated = association_filter(pairs.last("associated"), snapshot)
        rows = [row for row in snapshot.trait_names.rows if named(row.name) and associated(row.name)]
        answer(req, resp, {"traits": [row.name for row in rows]}, modified=newest(row.modified for row in rows))


class OneTrait:
    """`/traits/{name}`: one trait."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.TRAITS)
    @allowed("placement:traits:show")
    def on_get(self, req: Request, resp: Response, name: str) -> None:
        """Check whether a trait exists."""
        row = self._service.snapshot().trait_names.by_name.get(name)
        if row is None:
            raise TraitNotFound(name)
        answer_nothing(resp)
        mark_modified(req, resp, row.modified)

    @since(V.TRAITS)
    @allowed("placement:traits:update")
    def on_put(self, req: Request, resp: Response, name: str) -> None:
        """Create a custom trait unless it exists."""
        require_custom_trait(name)
        row = self._service.snapshot().trait_names.by_name.get(name)
        # A name in the snapshot existed after the request arrived, so 204 is true without a write.
        made = row is None and self._service.write(traits.create, name)
        answer_nothing(resp, 201 if made else 204)
        locate(req, resp, f"/traits/{name}")
        mark_modified(req, resp, row.modified if row else NOW)

    @since(V.TRAITS)
    @allowed("placement:traits:delete")
    def on_delete(self, _req: Request, resp: Response, name: str) -> None:
        """Delete a custom trait."""
        self._service.write(traits.delete, name)
        answer_nothing(resp)


class ProviderTraits:
    """`/resource_providers/{uuid}/traits`: the traits of a resource provider."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.TRAITS)
    @json_answer
    @allowed("placement:resource_providers:traits:list")
    @answering({ProviderNotFound: Answer(404, text="No resource provider with uuid {uuid} found: {error}")})
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the traits of a resource provider."""
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        names = [row.name for row in snapshot.traits(slot)]
        answer_provider_traits(req, resp, names, snapshot.trait_names.by_name, snapshot.provider(slot).generation)

    @since(V.TRAITS)
    @json_body
    @allowed("placement:resource_providers:traits:update")
    @answering(
        {
            GenerationConflict: Answer(
                409,
                CONCURRENT_UPDATE,
                "Resource provider's generation already changed. Please update the generation and try again.",
            ),
            UnknownTraits: Answer(400, text="No such trait {error.listed}"),
            **race("Unable to update traits"),
        }
    )
    def on_put(self, req: Request, resp: Response, uuid: str) -> None:
        """Replace the traits of a resource provider."""
        replacement = read_body(req, REPLACE)
        generation = self._service.write(traits.replace, uuid, replacement.names, replacement.expected)
        by_name = self._service.snapshot().trait_names.by_name
        answer_provider_traits(req, resp, replacement.names, by_name, generation)

    @since(V.TRAITS)
    @allowed("placement:resource_providers:traits:delete")
    @answering(race("Unable to remove traits"))
    def on_delete(self, _req: Request, resp: Response, uuid: str) -> None:
        """Delete the traits of a resource provider."""
        self._service.write(traits.clear, uuid)
        answer_nothing(resp)


# ``/resource_classes`` and ``/resource_classes/{name}``.


RESOURCE_CLASS: Shape[NameRow] = {
    "name": Field(V.RESOURCE_CLASSES, attrgetter("name")),
    "links": SelfLink(V.RESOURCE_CLASSES, lambda row: f"/resource_classes/{row.name}"),
}

NAME: Schema = {"type": "string", "pattern": CUSTOM_NAME, "maxLength": NAME_LENGTH, "format": ONE_LINE}
PATH_NAME = Validator(NAME)


def _name(body: dict[str, Any]) -> str:
    return str(body["name"])


NAMED = Versioned({V.RESOURCE_CLASSES: Body(strict_object({"name": NAME}), _name)})


class ResourceClasses:
    """`/resource_classes`: standard and custom resource classes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.RESOURCE_CLASSES)
    @json_answer
    @allowed("placement:resource_classes:list")
    def on_get(self, req: Request, resp: Response) -> None:
        """List resource classes."""
        rows = self._service.snapshot().class_names.rows
        shown = list(map(maker(req, RESOURCE_CLASS), rows))
        answer(req, resp, {"resource_classes": shown}, modified=newest(row.modified for row in rows))

    @since(V.RESOURCE_CLASSES)
    @json_body
    @allowed("placement:resource_classes:create")
    @answering({ResourceClassExists: Answer(409, text="Conflicting resource class already exists: {name}")})
    def on_post(self, req: Request, resp: Response) -> None:
        """Create a custom resource class."""
        name = read_body(req, NAMED)
        self._service.write(resource_classes.create, name)
        answer_nothing(resp, 201)
        locate(req, resp, f"/resource_classes/{name}")


class OneResourceClass:
    """`/resource_classes/{name}`: one resource class."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.RESOURCE_CLASSES)
    @json_answer
    @allowed("placement:resource_classes:show")
    def on_get(self, req: Request, resp: Response, name: str) -> None:
        """Show a resource class."""
        row = self._service.snapshot().class_names.by_name.get(name)
        if row is None:
            raise ResourceClassNotFound(name)
        answer(req, resp, maker(req, RESOURCE_CLASS)(row), modified=row.modified)

    @since(V.RESOURCE_CLASSES)
    @json_body
    @allowed("placement:resource_classes:update")
    def _rename(self, req: Request, resp: Response, name: str) -> None:
        """Rename a custom resource class."""
        new = read_body(req, NAMED)
        self._service.write(resource_classes.rename, name, new)
        answer(req, resp, maker(req, RESOURCE_CLASS)(NameRow(0, new, 0)), modified=None)

    @since(V.RESOURCE_CLASSES)
    @allowed("placement:resource_classes:update")
    def _ensure(self, req: Request, resp: Response, name: str) -> None:
        """Create a custom resource class unless it exists."""
        fault = PATH_NAME.best_fault(name)
        if fault is not None:
            raise MalformedBody(f"JSON does not validate: {fault}")
        exists = name in self._service.snapshot().class_names.by_name
        # A name in the snapshot existed after the request arrived, so 204 is true without a write.
        made = not exists and self._service.write(resource_classes.ensure, name)
        answer_nothing(resp, 201 if made else 204)
        locate(req, resp, f"/resource_classes/{name}")

    on_put = by_version(Versioned({V.RESOURCE_CLASSES: _rename, V.ENSURE_RESOURCE_CLASS: _ensure}))

    @since(V.RESOURCE_CLASSES)
    @allowed("placement:resource_classes:delete")
    @answering(
        {
            StandardClass: Answer(400, text="Error in delete resource class: {error}."),
            ResourceClassInUse: Answer(409, text="Error in delete resource class: {error}"),
        }
    )
    def on_delete(self, _req: Request, resp: Response, name: str) -> None:
        """Delete a custom resource class."""
        self._service.write(resource_classes.delete, name)
        answer_nothing(resp)
