"""The reference of the ``stead`` command: each subcommand with its arguments, options, an example and its JSON."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from stead.cli.app import SUBCOMMANDS
from stead.cli.app import app as stead
from stead.cli.documented import DOCUMENTED
from stead.cli.manual import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

START = """\
# Commands

This page is for operators. It lists every subcommand of `stead` with its arguments, options, two examples and the JSON
that `--json` prints. [Everyday commands](everyday.md) shows how to use them.

In the JSON, `"name"` alone stands for a member with a value, and `…` stands for more of the same. `?` after a name
means that the member may be missing.

Exit code 0 means done. Exit code 1 means that the answer is no: nothing fits, not found, or in conflict. This is the
same for `candidates`, `claim`, `explain`, `headroom`, `whatif` and `plan`. Exit code 2 means wrong usage, or refused by
the server. If a signal ended the command, the exit code is 128 plus its number. Errors are one line on standard error.

`-h` prints help that fits a terminal of 80 columns and 24 lines. `stead help COMMAND` prints everything, and
`stead version` prints the version.

## Options of all commands

All commands take these options, before or after the command's name. `--url`, `--token` and `--data-dir` name the
server; [how commands find it](deployment.md) has the order.

| | |
|---|---|
| `-o table` | Text that fits the terminal. The default. |
| `-o wide` | Text in which no column is left out and no name is shortened. |
| `-o json`, `--json`, `-o yaml` | All data. Numbers are exact, in the units of the API. |
| `-o csv` | A row for each item, with a column for each member: `resources.VCPU`, `project.alias` for names. |
| `-o name` | The name of each item, or its UUID if it has no name: one on each line, for other commands. |
| `--raw` | Memory and disk exactly, in the units of the API. Otherwise text rounds them to about three digits. |
| `--no-color` | No colors, as with the environment variable `NO_COLOR`. |
| `--quiet` | Results and errors only: no progress and no remarks. |

`PAGER` names the pager for output that is longer than the terminal; an empty value uses none. `COLUMNS` sets the width.
In a locale that is not UTF-8, lines and bars are drawn in ASCII.

`stead consumers` and `stead flavors`, of earlier releases, go on working: they are `stead consumer list` and
`stead flavor`.
"""


def page() -> str:
    """The whole page, in Markdown."""
    root: Any = get_command(stead)
    return START + "".join(
        _section(words, command) for name in SUBCOMMANDS for words, command in _leaves(name, root.load(name))
    )


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words."""
    root: Any = get_command(stead)
    for name in SUBCOMMANDS:
        yield from _leaves(name, root.load(name))


def _leaves(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if not below:
        yield words, command
        return
    for name, each in below.items():
        yield from _leaves(f"{words} {name}", each)


def _section(words: str, command: Any) -> str:
    documented = DOCUMENTED[words]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each not in arguments and each.name not in SHARED and not each.hidden]
    usage = " ".join([f"stead {words}", *(["[OPTIONS]"] if options else []), *(_usage(each) for each in arguments)])
    text = f"\n## stead {words}\n\n{inspect.cleandoc(command.help or '')}\n\n```text\n{usage}\n```\n"
    rows = [(f"`{each.metavar}`", each) for each in arguments] + [(_flags(each), each) for each in options]
    if rows:
        text += "\n| | |\n|---|---|\n" + "".join(f"| {cell} | {_help(each)} |\n" for cell, each in rows)
    text += "\nExamples:\n\n```text\n" + "".join(f"{example}\n" for example in documented.examples) + "```\n"
    if documented.shape:
        text += f"\nJSON:\n\n```text\n{documented.shape}\n```\n"
    return text


def _usage(argument: Any) -> str:
    name = argument.metavar + ("..." if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _flags(option: Any) -> str:
    names = "`, `".join([*option.opts, *option.secondary_opts])
    return f"`{names}{' ' + option.metavar if option.metavar else ''}`".replace("|", "\\|")


def _help(parameter: Any) -> str:
    return (parameter.help or "").replace("|", "\\|").replace("\n", " ")
