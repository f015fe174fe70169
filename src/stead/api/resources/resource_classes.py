"""``/resource_classes`` and ``/resource_classes/{name}``."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, Body, Schema, Validator, read_body, strict_object
from stead.api.errors import Answer, MalformedBody, answering
from stead.api.gates import allowed, by_version, json_answer, json_body, since
from stead.api.representations import Field, SelfLink, Shape, answer, answer_nothing, locate, maker, newest
from stead.api.versions import V, Versioned
from stead.domain.changes import NameRow
from stead.domain.errors import ResourceClassExists, ResourceClassInUse, ResourceClassNotFound, StandardClass
from stead.domain.names import CUSTOM_NAME, NAME_LENGTH
from stead.store import resource_classes

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service

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
