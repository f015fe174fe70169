"""``stead flavors``: lists, stores and imports flavors, which are candidate queries with a name."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.arguments import name_of, options, read_file
from stead.cli.errors import NO, CommandError
from stead.cli.fetching.candidates import QUERY_HELP, query_string
from stead.cli.fetching.flavors import delete_flavor, fetch_flavor, fetch_flavors, find_flavor, put_flavor
from stead.cli.flavors.importing import apply, plan
from stead.cli.flavors.nova import NotFlavors, read_flavors
from stead.cli.server import connect
from stead.cli.terminal import line_width, page_lines, print_json, progress, say, show_lines
from stead.domain.names import printable

if TYPE_CHECKING:
    from stead.cli.flavors.nova import Translated, Untranslated

app = typer.Typer(add_completion=False)

_MAX_BYTES = 64 * 1024 * 1024

Name = Annotated[str, typer.Argument(metavar="FLAVOR", help="Name of the flavor.", show_default=False)]


@app.callback(invoke_without_command=True)
def flavors(context: typer.Context) -> None:
    """List, store and import flavors: requests with a name. Without a command, list them."""
    if context.invoked_subcommand is None:
        list_flavors()


@app.command("list")
def list_flavors(
    queries: Annotated[
        bool, typer.Option("--queries", help="Show queries instead of how many times each fits.")
    ] = False,
) -> None:
    """List flavors, with how many times each fits, and what runs out first.

    Each flavor is counted alone: a claim of one takes room from the others.
    """
    with connect() as api, progress("counting flavors") as advance:
        listed = fetch_flavors(api, headroom=not queries, advance=advance)
    if options().json:
        print_json({"flavors": listed})
        return
    from stead.cli.drawing.flavors import draw_flavors, draw_queries

    page_lines((draw_queries if queries else draw_flavors)(listed, line_width()))


@app.command()
def show(name: Name) -> None:
    """Show the query and the description of a flavor."""
    with connect() as api:
        flavor = fetch_flavor(api, name)
    if options().json:
        print_json(flavor)
        return
    from stead.cli.drawing.flavors import draw_flavor

    show_lines(draw_flavor(flavor, line_width()))


@app.command("set")
def set_flavor(
    name: Name,
    query: Annotated[str, typer.Argument(help=QUERY_HELP, show_default=False)],
    description: Annotated[
        str | None, typer.Option(help="One line for people. Default: that of the present flavor.")
    ] = None,
) -> None:
    """Create a flavor, or replace its query."""
    with connect() as api:
        present = find_flavor(api, name)
        if description is None:
            description = "" if present is None else present["description"]
        flavor = put_flavor(api, name, query_string(query), description)
    if options().json:
        print_json(flavor)
    else:
        say(f"{'created' if present is None else 'replaced'} {printable(name)}")


@app.command()
def delete(name: Name) -> None:
    """Delete a flavor. Claims that were made with it stay."""
    with connect() as api:
        delete_flavor(api, name)
    if options().json:
        print_json({"deleted": name})
    else:
        say(f"deleted {printable(name)}")


@app.command("import")
def import_flavors(
    file: Annotated[
        Path, typer.Argument(help="Output of `openstack flavor list -f json --long`; - reads standard input.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")] = False,
) -> None:
    """Store nova's flavors: their amounts, and the extra specs that nova sends to Placement.

    Flavors that the file lacks stay. All other extra specs are ignored and listed. The description of a flavor names
    those by which nova also selects hosts. The exit code is 1 if a flavor was skipped.
    """
    described = _read(file)
    with connect() as api:
        stored = {flavor["name"]: flavor for flavor in fetch_flavors(api)}
        steps = plan(described, stored)
        if not dry_run:
            with progress("importing flavors") as advance:
                steps = apply(api, steps, advance)
    if options().json:
        print_json({"dry_run": dry_run, "flavors": [asdict(step) for step in steps]})
    else:
        from stead.cli.drawing.flavors import draw_import

        show_lines(draw_import(steps, line_width(), dry_run=dry_run))
    if any(step.action == "skip" for step in steps):
        raise typer.Exit(NO)


def _read(file: Path) -> list[Translated | Untranslated]:
    try:
        return read_flavors(read_file(file, _MAX_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CommandError(f"{name_of(file)}: not UTF-8") from error
    except NotFlavors as error:
        raise CommandError(f"{name_of(file)}: {error}") from error
