"""Stores translated flavors on a server: those that are new or whose query differs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from stead.cli.fetching.flavors import put_flavor
from stead.cli.flavors.nova import Untranslated
from stead.cli.server import summary
from stead.client.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stead import Site
    from stead.cli.fetching.flavors import Json
    from stead.cli.flavors.nova import Translated

_INCOMPLETE = re.compile(r"^At most, since nova also requires (?:\d+ extra specs|\S+(?:, \S+)*)\. ?")
_LONGEST = 255
"""Maximum length of a description in characters, on the server."""

Action = Literal["create", "replace", "keep", "skip"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one flavor: it is created or replaced, kept since it is the same, or skipped for a *reason*."""

    name: str
    action: Action
    query: str = ""
    reason: str = ""
    ignored: tuple[str, ...] = ()
    description: str = ""


def plan(described: Iterable[Translated | Untranslated], stored: Mapping[str, Json]) -> list[Step]:
    """A step for each flavor, in their order; *stored* are the server's by name."""
    return [_step(flavor, stored) for flavor in described]


def _step(flavor: Translated | Untranslated, stored: Mapping[str, Json]) -> Step:
    if isinstance(flavor, Untranslated):
        return Step(flavor.name, "skip", reason=flavor.reason)
    present = stored.get(flavor.name)
    described = _description(flavor, "" if present is None else present["description"])
    is_same = present is not None and (present["query"], present["description"]) == (flavor.query, described)
    action: Action = "create" if present is None else "keep" if is_same else "replace"
    return Step(flavor.name, action, flavor.query, ignored=flavor.ignored, description=described)


def _description(flavor: Translated, present: str) -> str:
    """The description that says why a flavor fits less often than counted; that of a person stays behind it."""
    own = _INCOMPLETE.sub("", present)
    if not flavor.restricting:
        return own
    text = f"At most, since nova also requires {', '.join(flavor.restricting)}.{' ' if own else ''}{own}"
    if len(text) <= _LONGEST:
        return text
    return f"At most, since nova also requires {len(flavor.restricting)} extra specs.{' ' if own else ''}{own}"[
        :_LONGEST
    ]


def apply(api: Site, steps: Sequence[Step], advance: Callable[[int, int | None], object]) -> list[Step]:
    """Do *steps*; those that the server refuses become skipped ones.

    Args:
        advance: called with the number of steps done and their number.
    """
    done: list[Step] = []
    for step in steps:
        done.append(_done(api, step))
        advance(len(done), len(steps))
    return done


def _done(api: Site, step: Step) -> Step:
    if step.action not in ("create", "replace"):
        return step
    try:
        put_flavor(api, step.name, step.query, step.description)
    except Invalid as error:
        return replace(step, action="skip", reason=summary(error))
    return step
