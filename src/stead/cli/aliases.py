"""``stead alias``: names for people, of consumers, projects, users and aggregates, in a file of this user.

The names are shown beside UUIDs, in JSON as ``aliases``. No command needs them. A server that runs on this machine
shows them on its pages; others know nothing of them.
"""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.aliases import NoAliases, file_of_user, read
from stead.cli.arguments import name_of, options, read_file
from stead.cli.errors import CommandError, Negative
from stead.cli.terminal import draw_list, line_width, page_lines, print_json, say
from stead.printing import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show and keep names for UUIDs.")

_MOST_BYTES = 256 * 1024 * 1024
IDS = ("ID", "id", "uuid", "UUID")
"""The keys of an identifier in lists of OpenStack's client."""
_NAMES = ("Name", "name")

Identifier = Annotated[
    str, typer.Argument(metavar="UUID", help="UUID of a consumer, project, user or aggregate.", show_default=False)
]


@app.command("list")
def list_names() -> None:
    """List all names."""
    names = aliases()
    if options().json:
        print_json({"aliases": [{"name": name, "uuid": uuid} for uuid, name in names.items()]})
    elif names:
        page_lines(draw_list(("uuid", "name"), sorted(names.items()), line_width()))
    else:
        say("no aliases")


@app.command("set")
def set_name(
    uuid: Identifier, name: Annotated[str, typer.Argument(help="The name to show beside it.", show_default=False)]
) -> None:
    """Give a UUID a name, or another one."""
    _write({**aliases(), uuid: name})
    if options().json:
        print_json({"name": name, "uuid": uuid})
    else:
        say(f"{printable(uuid)} is shown as {printable(name)}")


@app.command("delete")
def delete_name(uuid: Identifier) -> None:
    """Delete the name of a UUID."""
    names = dict(aliases())
    if names.pop(uuid, None) is None:
        raise Negative(f"{uuid!r} has no name")
    _write(names)
    if options().json:
        print_json({"deleted": uuid})
    else:
        say(f"deleted the name of {printable(uuid)}")


@app.command("import")
def import_names(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Output of `openstack server list -f json`, or of `project list`, `user list` or `aggregate list "
            "--long`; - reads standard input.",
            show_default=False,
        ),
    ],
) -> None:
    """Take the names of servers, projects, users and aggregates from lists of OpenStack's client."""
    listed: dict[str, str] = {}
    for file in files:
        listed |= read_list(file)
    _write({**aliases(), **listed})
    if options().json:
        print_json({"imported": len(listed)})
    else:
        say(f"imported {len(listed):,} {'name' if len(listed) == 1 else 'names'}")


def read_list(path: Path) -> dict[str, str]:
    """The names in a JSON list of objects with an ID and a name.

    Raises:
        CommandError: it cannot be read, or is something else.
    """
    try:
        items = json.loads(read_file(path, _MOST_BYTES))
        return {str(_value(item, IDS)): str(_value(item, _NAMES)) for item in items}
    except (ValueError, TypeError, KeyError):
        raise CommandError(f"{name_of(path)}: expected a JSON list of objects with an ID and a Name") from None


def _value(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if key in item:
            return item[key]
    raise KeyError(keys)


# The file.


def aliases() -> Mapping[str, str]:
    """The names by UUID.

    Raises:
        CommandError: the file is not one of aliases.
    """
    try:
        return read(file_of_user())
    except NoAliases as error:
        raise CommandError(str(error)) from error


def _write(names: Mapping[str, str]) -> None:
    from stead.process.files import replace_privately

    path = file_of_user()
    if path is None:
        raise CommandError("this user has no home directory: set STEAD_ALIASES to a file, or HOME")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_privately(path, json.dumps(names, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error


def with_name(uuid: str) -> str:
    """*uuid*, followed by its name if it has one."""
    name = aliases().get(uuid)
    return uuid if name is None else f"{uuid} {name}"
