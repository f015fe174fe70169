"""Stores translated flavors on a server: those that are new or whose query differs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from stead.cli.fetching.flavors import put_flavor
from stead.cli.flavors.nova import Untranslated
from stead.cli.server.connecting import summary
from stead.client.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stead import Site
    from stead.cli.fetching.flavors import Json
    from stead.cli.flavors.nova import Translated

Action = Literal["create", "replace", "keep", "skip"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one flavor: it is created or replaced, kept since it is the same, or skipped for a *reason*."""

    name: str
    action: Action
    query: str = ""
    reason: str = ""
    ignored: tuple[str, ...] = ()


def plan(described: Iterable[Translated | Untranslated], stored: Mapping[str, Json]) -> list[Step]:
    """A step for each flavor, in their order; *stored* are the server's by name."""
    return [_step(flavor, stored) for flavor in described]


def _step(flavor: Translated | Untranslated, stored: Mapping[str, Json]) -> Step:
    if isinstance(flavor, Untranslated):
        return Step(flavor.name, "skip", reason=flavor.reason)
    present = stored.get(flavor.name)
    action: Action = "create" if present is None else "keep" if present["query"] == flavor.query else "replace"
    return Step(flavor.name, action, flavor.query, ignored=flavor.ignored)


def apply(
    api: Site, steps: Sequence[Step], stored: Mapping[str, Json], advance: Callable[[int, int | None], object]
) -> list[Step]:
    """Do *steps*; those that the server refuses become skipped ones. Descriptions stay.

    Args:
        advance: called with the number of steps done and their number.
    """
    done: list[Step] = []
    for step in steps:
        done.append(_done(api, step, stored))
        advance(len(done), len(steps))
    return done


def _done(api: Site, step: Step, stored: Mapping[str, Json]) -> Step:
    if step.action not in ("create", "replace"):
        return step
    try:
        put_flavor(api, step.name, step.query, stored.get(step.name, {}).get("description", ""))
    except Invalid as error:
        return replace(step, action="skip", reason=summary(error))
    return step
