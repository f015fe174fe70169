"""Refusals that the two services word differently on purpose, each with its reason: the table in docs/differences.md.

A row has a template for the text of either. The same ``{name}`` in both stands for the same text, and for one without
line breaks. Whatever is no row must be the same, word for word.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FIELD = re.compile(r"\{(\w+)\}")


def in_any_order(text: str) -> object:
    return sorted(text.split(", "))


def as_a_value(text: str) -> object:
    """What a text that Python wrote means; long ones are shown without their middle."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


MEANINGS: dict[str, Callable[[str], object]] = {"classes": in_any_order, "providers": in_any_order, "value": as_a_value}
"""Fields whose texts may differ while what they mean is the same."""


@dataclass(frozen=True)
class Wording:
    """One difference, by its name in docs/differences.md; *routes* are those it is met on, any if none is named."""

    name: str
    stead: str
    released: str
    routes: tuple[str, ...] = ()

    def explains(self, route: str, ours: str, theirs: str) -> bool:
        """Are these two texts the same but for this difference?"""
        if self.routes and route not in self.routes:
            return False
        other = _pattern(self.released, {}).fullmatch(theirs)
        if other is None:
            return False
        fields = other.groupdict()
        literal = {name: text for name, text in fields.items() if name not in MEANINGS}
        mine = _pattern(self.stead, literal).fullmatch(ours)
        return mine is not None and all(
            _same(name, text, fields[name]) for name, text in mine.groupdict().items() if name in fields
        )


def _same(name: str, ours: str, theirs: str) -> bool:
    if " … " in ours:
        begin, _, end = ours.partition(" … ")
        return theirs.startswith(begin) and theirs.endswith(end)
    return ours == theirs or MEANINGS[name](ours) == MEANINGS[name](theirs)


def _pattern(template: str, literal: Mapping[str, str]) -> re.Pattern[str]:
    """For texts of *template*; fields that are *literal* have just this text."""
    seen: set[str] = set()
    parts = []
    for number, part in enumerate(FIELD.split(template)):
        if number % 2 == 0:
            parts.append(re.escape(part))
        elif part in literal:
            parts.append(re.escape(literal[part]))
        else:
            parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>.*?)")
            seen.add(part)
    return re.compile("".join(parts))


def wording_of(route: str, ours: str, theirs: str) -> Wording | None:
    """The row that explains the difference between two texts of refusals."""
    return next((wording for wording in WORDINGS if wording.explains(route, ours, theirs)), None)


INVENTORIES = "PUT /resource_providers/*/inventories"
SCHEMA = "{before} Failed validating {rule} in schema"

WORDINGS = (
    Wording("No such path", "{sentence}\n\nNo such path: {path}", "{sentence}\n\n"),
    Wording(
        "Not known to the microversion",
        "{sentence}\n\n{method} {path} is not known to microversion {version}",
        "{sentence}\n\n",
    ),
    Wording(
        "The sentence of a 406",
        "The resource could not be given in a form that the request accepts.\n\n{message}",
        "The resource could not be generated that was acceptable to your browser (content of type {type}.\n\n{message}",
    ),
    Wording(
        "Words of Python's",
        "{sentence}\n\nInvalid microversion: invalid version string: {version}",
        "{sentence}\n\nInvalid microversion: invalid version string: {version}; {words}",
    ),
    Wording("Words of the parser", "{sentence}\n\nMalformed JSON: {ours}", "{sentence}\n\nMalformed JSON: {theirs}"),
    Wording(
        "Words of the database",
        "{sentence}\n\nUpdate conflict: provider {uuid} has inventory of class {class} already",
        "{sentence}\n\nUpdate conflict: (sqlite3.IntegrityError) {words}",
    ),
    Wording(
        "The schema",
        "{sentence}\n\n" + SCHEMA + "{path}: {ours} On instance{place}: {value}",
        "{sentence}\n\n" + SCHEMA + "{path}: {theirs} On instance{place}: {value}",
    ),
    Wording(
        "The schema of a name in the path",
        "{sentence}\n\n" + SCHEMA + ": {ours} On instance: {value}",
        "{sentence}\n\n" + SCHEMA + "['properties']['name']: {theirs} On instance['name']: {value}",
        ("PUT /resource_classes/*",),
    ),
    Wording(
        "Generations in a conflict",
        "{sentence}\n\nresource provider generation conflict for provider {uuid}: {generations}",
        "{sentence}\n\nresource provider generation conflict",
        (INVENTORIES, f"{INVENTORIES}/*"),
    ),
    Wording(
        "A generation with a decimal point",
        "{sentence}\n\n{before}given: {generation}",
        "{sentence}\n\n{before}given: {generation}.0",
    ),
    Wording(
        "One of several unknown traits",
        "{sentence}\n\n{before}No such trait(s): {earlier}{trait}{later}.",
        "{sentence}\n\n{before}No such trait(s): {trait}.",
    ),
    Wording(
        "In no order",
        "{sentence}\n\n{before}Inventory for '{classes}' on resource provider '{providers}' invalid.",
        "{sentence}\n\n{before}Inventory for '{classes}' on resource provider '{providers}' invalid.",
    ),
)
