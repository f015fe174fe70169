"""Parses YAML into plain values with their lines, in bounded memory.

PyYAML's own composer recurses (in C, where a deep file crashes the process), and the last of two equal keys wins.
Merges or aliases multiply a small file without bound. Here nesting is limited, repeated keys are rejected, and the
values of aliases are counted before any code iterates over them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import yaml
from yaml import events
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from stead.topology.site import SiteError

MAX_DEPTH = 200
MAX_ALIASED = 1_000_000
"""Values that aliases may add to the written ones."""

_MOST_BITS = 1024
"""Maximum size of a whole number; the values of site files have 31 bits."""

Scalar: TypeAlias = str | int | float | bool | None

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_CONVERTED_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null"))


@dataclass(slots=True)
class Node:
    """A value, its first line (from 1), and the number of values in it, including itself, with aliases expanded."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    size: int = 1


def read_documents(text: str, source: str) -> list[Node]:
    """The documents of *text*, in order, without empty ones.

    Raises:
        SiteError: it is not YAML, or uses features that site files do not support; names the place in *source*.
    """
    composer = _Composer(source)
    read: Any = yaml.Mark("", 0, 0, 0, "", 0)  # the end of the last event
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
            read = event.end_mark
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            composer.refuse_depth(text[read.index : mark.index + 1], read.line + 1)
        place = f"{source}:{mark.line + 1}" if mark else source
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise SiteError(f"{place}: not YAML: {problem}") from error
    return composer.documents


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read; *key* is the mapping's key that waits for its value."""

    node: Node
    anchor: str | None
    key: str | None = None


@dataclass(slots=True)
class _Composer:
    source: str
    documents: list[Node] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, Node] = field(default_factory=dict)
    _written: int = 0

    def take(self, event: Any) -> None:
        match event:
            case events.ScalarEvent():
                self._refuse_tag(event)
                self._finish(Node(self._scalar(event), _line(event)), event.anchor)
            case events.DocumentStartEvent():
                self._anchors = {}
            case events.SequenceStartEvent():
                self._enter(event, [])
            case events.MappingStartEvent():
                self._enter(event, {})
            case events.CollectionEndEvent():
                done = self._open.pop()
                self._finish(done.node, done.anchor)
            case events.AliasEvent():
                self._finish(self._aliased(event), None)

    def refuse_depth(self, unread: str, line: int) -> None:
        """Raise our own error if *unread*, the text from *line* on that has no events yet, is nested too deep.

        A parser scans up to 1,024 characters before it returns the event of a bracket, since a key may start there.
        So the parser can reach a limit of its own, such as libyaml's 1,000 levels, before `take` reaches ours.
        """
        depth = len(self._open)
        with suppress(yaml.YAMLError):
            for token in yaml.scan(unread, Loader=yaml.SafeLoader):
                depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
                if depth > MAX_DEPTH:
                    raise self._too_deep(line + token.start_mark.line)

    def _enter(self, event: Any, empty: list[Node] | dict[str, Node]) -> None:
        self._refuse_tag(event)
        if len(self._open) == MAX_DEPTH:
            raise self._too_deep(_line(event))
        self._open.append(_Open(Node(empty, _line(event)), event.anchor))

    def _finish(self, node: Node, anchor: str | None) -> None:
        self._written += 1
        if anchor is not None:  # registered last: an alias inside its own anchor would be infinite
            self._anchors[anchor] = node
        if self._open:
            self._attach(self._open[-1], node)
        elif node.value is not None:
            self.documents.append(node)

    def _attach(self, inside: _Open, node: Node) -> None:
        holder = inside.node
        holder.size += node.size
        if holder.size > self._written + MAX_ALIASED:
            raise SiteError(f"{self.source}:{node.line}: the aliases stand for more than {MAX_ALIASED:,} values")
        if isinstance(holder.value, list):
            holder.value.append(node)
        elif isinstance(holder.value, dict):
            if inside.key is None:
                inside.key = self._key(holder.value, node)
            else:
                holder.value[inside.key] = node
                inside.key = None

    def _key(self, taken: dict[str, Node], node: Node) -> str:
        if not isinstance(node.value, str):
            raise SiteError(f"{self.source}:{node.line}: {shown(node)} is no field name")
        if node.value in taken:
            raise SiteError(f"{self.source}:{node.line}: {node.value!r} is given twice")
        return node.value

    def _aliased(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            raise self._error(event, f"no anchor &{event.anchor} stands before this alias")
        return self._anchors[event.anchor]

    def _scalar(self, event: Any) -> Scalar:
        text = str(event.value)
        with suppress(ValueError):
            return _scalar_of(text, event.implicit)
        raise self._error(event, f"{text[:40]!r} cannot be read as a number")

    def _refuse_tag(self, event: Any) -> None:
        if event.tag not in (None, "!"):
            raise self._error(event, f"the tag {event.tag} has no meaning here")

    def _too_deep(self, line: int) -> SiteError:
        return SiteError(f"{self.source}:{line}: nested more than {MAX_DEPTH} levels deep")

    def _error(self, event: Any, problem: str) -> SiteError:
        return SiteError(f"{self.source}:{_line(event)}: {problem}")


_resolve: Any = Resolver().resolve
_CONSTRUCTOR = SafeConstructor()


@lru_cache(maxsize=1024)  # the names of fields, classes and traits recur
def _scalar_of(text: str, implicit: tuple[bool, bool]) -> Scalar:
    tag = _resolve(ScalarNode, text, implicit)
    if tag not in _CONVERTED_TAGS or ":" in text:  # in YAML 1.1, 1:30 is the number 90; users do not expect that
        return text
    value: Scalar = _CONSTRUCTOR.construct_object(ScalarNode(tag, text))
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError  # Python converts long hexadecimal numbers, but refuses to print them in a message
    # PyYAML remembers each node that it constructed, which would keep them all in memory.
    _CONSTRUCTOR.constructed_objects.clear()
    return value


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def shown(node: Node) -> str:
    """*node* for an error message: short, on one line."""
    match node.value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "nothing"
        case value:
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:60]}…"
