"""Suggestions, "Did you mean …?", for names of providers, traits, classes and flavors that do not exist."""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING

from stead.cli.errors import Negative
from stead.client import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead import Site

_UNKNOWN_TRAIT = re.compile(r"(?:No such|unknown) trait(?:\(s\))?:? *([A-Z0-9_]+)")
_UNKNOWN_CLASS = re.compile(r"(?:No such|unknown) (?:resource )?class:? *([A-Z0-9_]+)")
_UNKNOWN_FLAVOR = re.compile(r"No such flavor ([A-Za-z0-9_.:+-]+?)\.(?: |$)")
_NO_REFERENCE = re.compile(r"Expected '(in_tree|in_subtree)' parameter to be a format of uuid.*?\. Got: (.+)")
_LIKENESS = 0.75
_MOST_NAMES = 20_000  # comparing more takes seconds


def suggestion(name: str, names: Iterable[str]) -> str:
    """` Did you mean …?` with the most similar of *names*; empty if none is similar."""
    lengths = range(len(name) * 3 // 5, len(name) * 5 // 3 + 1)
    comparable = [each for each in names if len(each) in lengths][:_MOST_NAMES]
    matches = get_close_matches(name, comparable, n=1, cutoff=_LIKENESS)
    return f" Did you mean {matches[0]}?" if matches else ""


def no_provider(name: str, names: Iterable[str]) -> Negative:
    """The error for a provider that does not exist; *name* may begin with ``name:``."""
    name = name.removeprefix(BY_NAME)
    meant = suggestion(name, names)
    return Negative(f"no resource provider {name!r}{'.' + meant if meant else ''}")


def hint_for(site: Site, detail: str) -> str:
    """A suggestion, if *detail* is the server's error for an unknown trait, class or flavor, or for a bare name.

    Empty if the server's message already has one.
    """
    # Imported when there is an error, as all that only some commands need: each of them would wait for it.
    from stead.client.errors import Refused

    if "Did you mean" in detail:
        return ""
    if match := _NO_REFERENCE.search(detail):
        return f" Did you mean {BY_NAME}{match[2]}?"
    with suppress(Refused, LookupError, TypeError):
        if match := _UNKNOWN_TRAIT.search(detail):
            return suggestion(match[1], site.traits())
        if match := _UNKNOWN_CLASS.search(detail):
            return suggestion(match[1], site.resource_classes())
        if match := _UNKNOWN_FLAVOR.search(detail):
            return suggestion(match[1], [flavor.name for flavor in site.flavors()])
    return ""
