"""The help of commands: usage, two examples, then the options; plain text, so that it is there at once.

On a terminal, the help of a command fits the screen: each option takes one line, and options that do not fit are named
only. ``stead help COMMAND`` prints everything, and so does help in a pipe. The options that all commands share are
folded into one line.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from stead.cli.documented import DOCUMENTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SHARED = ("url", "token", "data_dir", "output", "json", "no_color", "quiet", "raw", "help")
"""The names of the options that are folded."""

_WIDEST = 100  # cells; longer lines are hard to read
_USUAL = (80, 24)
_PROMPT = 1  # lines below the help
_LEAST_TEXT = 30  # cells beside the names of options
_MOST_SUMMARY = 2  # lines of the description, if the help must fit a screen

_is_whole: ContextVar[bool] = ContextVar("stead-whole-help", default=False)


def print_everything(is_whole: bool) -> None:
    """Let help print everything, also on a terminal, or again what fits."""
    _is_whole.set(is_whole)


@dataclass(frozen=True, slots=True)
class Topic:
    """A row of the help of ``stead`` itself."""

    name: str
    short: str
    help: str
    heading: str


def use(command: Any, words: str) -> None:
    """Let *command*, which is called by *words*, and all its subcommands print this help."""
    for name, below in getattr(command, "commands", {}).items():
        use(below, f"{words} {name}")
    command.format_help = lambda context, formatter: formatter.write(of_command(command, words, context))


def of_command(command: Any, words: str, context: Any) -> str:
    """The help of a command, at most as high as the terminal if stdout is one."""
    columns, lines = shutil.get_terminal_size(_USUAL)
    width = min(columns - 1, _WIDEST)
    if not sys.stdout.isatty() or _is_whole.get():
        return "\n".join(_whole(command, words, context, columns)) + "\n"
    everything = list(_whole(command, words, context, width))
    if len(everything) <= lines - _PROMPT:
        return "\n".join(everything) + "\n"
    return "\n".join(_short(command, words, context, width, lines - _PROMPT)) + "\n"


def of_stead(command: Any, topics: Sequence[Topic], context: Any) -> str:
    """The help of ``stead`` itself: every command by heading; with :func:`print_everything`, the shared options too."""
    columns, height = shutil.get_terminal_size(_USUAL)
    width = min(columns - 1, _WIDEST)
    head = [
        "Usage: stead [OPTIONS] COMMAND …",
        "",
        "  $ stead tree                            what is there, and what is used",
        "  $ stead candidates 'resources=VCPU:2'   where a request fits",
    ]
    if _is_whole.get():
        rows = [_row(parameter, context) for parameter in command.params]
        foot = ["", "Options:"]
        for row in rows:
            foot += _beside(f"  {row.names}", row.text, _left(rows, width), width)
        return _lines([*head, *_topics(topics, width), *foot])
    lines = [*head, *_topics(topics, width), "", *_folded("stead help COMMAND", width)]
    if not sys.stdout.isatty() or len(lines) <= height - _PROMPT:
        return _lines(lines)
    return _lines([*head, "", *_topics_in_two_columns(topics), *_folded("stead help COMMAND", width)])


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _topics(topics: Sequence[Topic], width: int) -> Iterator[str]:
    left = max(len(topic.name) for topic in topics) + 4
    for heading, several in groupby(topics, key=lambda topic: topic.heading):
        yield from ("", f"{heading}:")
        for topic in several:
            yield from _beside(f"  {topic.name}", topic.help, left, width)


def _topics_in_two_columns(topics: Sequence[Topic]) -> Iterator[str]:
    """Each command in a few words, for a screen that has no line for each."""
    names = max(len(topic.name) for topic in topics) + 1
    cell = names + max(len(topic.short) for topic in topics) + 1
    title = max(len(topic.heading.split()[0]) for topic in topics) + 1
    for heading, grouped in groupby(topics, key=lambda topic: topic.heading):
        several = list(grouped)
        half = (len(several) + 1) // 2
        for row in range(half):
            cells = [f"{topic.name:<{names}}{topic.short}".ljust(cell) for topic in several[row::half]]
            yield f"{'' if row else heading.split()[0]:<{title}}{''.join(cells)}".rstrip()


def _whole(command: Any, words: str, context: Any, width: int) -> Iterator[str]:
    yield from _head(command, words, context)
    for number, paragraph in enumerate(_paragraphs(command)):
        if number:
            yield ""
        yield from _wrapped(paragraph, width)
    yield from _examples(words, width)
    yield from _commands(command, width)
    rows = list(_rows(command, context))
    left = _left(rows, width)
    for heading, several in groupby(rows, key=lambda row: row.heading):
        yield ""
        yield f"{heading}:"
        for row in several:
            yield from _beside(f"  {row.names}", row.text, left, width)
    yield ""
    yield from _folded("", width)


def _short(command: Any, words: str, context: Any, width: int, height: int) -> list[str]:
    lines = list(_head(command, words, context))
    lines += _wrapped(_paragraphs(command)[0], width)[:_MOST_SUMMARY]
    lines += [*_examples(words, width), *_commands(command, width), ""]
    foot = ["", *_folded(f"stead help {words}", width)]
    rows = list(_rows(command, context))
    room = height - len(lines) - len(foot)
    shown = list(rows)
    more: list[str] = []
    while shown and len(shown) + len(more) > room:
        shown.pop()
        rest = " ".join(row.names.split(" ")[0].rstrip(",") for row in rows[len(shown) :])
        more = _wrapped(f"  also {rest}", width)
    left = _left(shown, width)
    lines += [_cut(f"{f'  {row.names}'.ljust(left)}{row.text}", width) for row in shown]
    return [*lines, *more, *foot]


def _head(command: Any, words: str, context: Any) -> Iterator[str]:
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece]
    yield f"Usage: {' '.join([f'stead {words}'.rstrip(), *pieces])}"
    yield ""


def _paragraphs(command: Any) -> list[str]:
    text = inspect.cleandoc(command.help or "")
    return [" ".join(each.split()) for each in text.split("\n\n")]


def _examples(words: str, width: int) -> Iterator[str]:
    documented = DOCUMENTED.get(words)
    if documented is None:
        return
    yield ""
    for example in documented.examples:
        yield from _wrapped(f"  $ {example}", width, "      ")


def _commands(command: Any, width: int) -> Iterator[str]:
    below: Mapping[str, Any] = getattr(command, "commands", {})
    if not below:
        return
    yield ""
    yield "Commands:"
    left = max(map(len, below)) + 4
    for name, each in below.items():
        yield from _beside(f"  {name}", _first_sentence(_paragraphs(each)[0]), left, width)


@dataclass(frozen=True, slots=True)
class _Row:
    heading: str
    names: str
    text: str


def _rows(command: Any, context: Any) -> Iterator[_Row]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield _Row("Arguments", parameter.metavar, _text(parameter, context))
    for parameter in command.params:
        if parameter.param_type_name != "argument" and not parameter.hidden and parameter.name not in SHARED:
            yield _row(parameter, context)


def _row(option: Any, context: Any) -> _Row:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return _Row("Options", f"{names} {option.metavar or ''}".rstrip(), _text(option, context))


def _text(parameter: Any, context: Any) -> str:
    record = parameter.get_help_record(context)
    return " ".join(record[1].split()) if record else ""


def _left(rows: Sequence[_Row], width: int) -> int:
    """The width of the column of names; a longer name gets its own line."""
    widths = sorted(len(row.names) + 4 for row in rows)
    return max([each for each in widths if each <= width - _LEAST_TEXT - 15], default=4)


def _beside(title: str, text: str, left: int, width: int) -> list[str]:
    room = max(width - left, _LEAST_TEXT)
    lines = _wrapped(text, room) or [""]
    if len(title) > left - 2:
        return [title, *(" " * left + line for line in lines)]
    return [f"{title.ljust(left)}{lines[0]}".rstrip(), *(" " * left + line for line in lines[1:])]


def _folded(whole: str, width: int) -> list[str]:
    text = (
        "All commands take --url, --token and --data-dir for the server, and for the output -o "
        "table|wide|json|yaml|csv|name, --json, --raw, --no-color and --quiet."
    )
    more = f" Everything: `{whole}`." if whole else " `stead help options` explains them."
    return _wrapped(text + more, width)


def _cut(text: str, width: int) -> str:
    """*text* in one line: its first sentence, or as much of that as fits."""
    if len(text) > width:
        text = _first_sentence(text)
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[a-z)`'A-Z0-9]\.) (?=[A-Z`0-9])", text, maxsplit=1)[0]


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    lead = text[: len(text) - len(text.lstrip())]
    return wrap(
        text,
        max(width, _LEAST_TEXT),
        initial_indent="",
        subsequent_indent=indent or lead,
        break_on_hyphens=False,
        break_long_words=False,
    )
